"""`agon check`."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from algos.commands import DONE, FAILED
from algos.commands.flags import Env


def command(env: Env) -> int:
    """Check that a contest keeps the rules that others rely on.

    Players and trainers do; docs/games.md lists the rules.

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
