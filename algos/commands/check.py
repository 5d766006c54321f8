"""`agon check`."""

from __future__ import annotations

from typing import Annotated

import tyro
from rich.console import Console
from rich.text import Text

from algos.commands import DONE, FAILED


def command(env: Annotated[str, tyro.conf.Positional]) -> int:
    """Check that a contest keeps the rules of the house.

    They are what players and trainers rely on; docs/games.md lists them.

    Args:
        env: id of the contest; "module:Name-v0" imports the module first.
    """
    import agon_env

    try:
        agon_env.check_env(env)
    except AssertionError as broken:
        Console(stderr=True).print(Text(f"{env} breaks a rule: {broken}"))
        return FAILED
    Console().print(Text(f"{env} keeps the rules."))
    return DONE
