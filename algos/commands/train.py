"""`agon train`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from algos.commands import DONE, INTERRUPTED

if TYPE_CHECKING:
    from algos.config import TrainConfig


def main(
    args: Sequence[str], *, default: TrainConfig | None = None, description: str | None = None, prog: str | None = "agon train"
) -> int:
    """Train policies by letting them compete.

    Args:
        args: the arguments.
        default: what they override; default: the preset `tiny`.
        description: what `--help` says first.
        prog: what it calls the command; None: the name of the script.
    """
    from algos.config import TINY, parse_config

    text = description or "Train policies by letting them compete."
    config, resume = parse_config(args, default=default or TINY, description=text, prog=prog)
    from algos.trainer import Interrupted, train

    try:
        train(config, resume=resume)
    except Interrupted as stopped:
        Console().print(Text(f"\n{stopped}"), soft_wrap=True)
        return INTERRUPTED
    return DONE
