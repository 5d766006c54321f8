"""`agon new`."""

from __future__ import annotations

from typing import Annotated

import tyro
from rich.console import Console
from rich.text import Text

from algos.commands import DONE
from algos.commands.flags import PathIfAny
from algos.skeleton import Kind, make_skeleton


def command(
    kind: Annotated[Kind, tyro.conf.Positional],
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")],
    folder: PathIfAny = None,
) -> int:
    """Begin a game, a player or an algorithm that runs, with a test.

    It is a small package of its own; its README says how to go on.

    Args:
        kind: what it is to be.
        name: its name, for example TicTacToe.
        folder: where it is written. Default: a folder of that name here.
    """
    made = make_skeleton(kind, name, folder)
    console = Console(highlight=False)
    for file in sorted(made.iterdir()):
        console.print(Text(f"  {file}"), soft_wrap=True)
    console.print(Text(f"Go on with {made / 'README.md'}"), soft_wrap=True)
    return DONE
