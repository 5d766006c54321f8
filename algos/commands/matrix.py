"""`agon matrix`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import tyro
from rich.console import Console
from rich.text import Text

from algos.commands import DONE, INTERRUPTED
from algos.commands.flags import readable_help
from algos.config import PRESETS
from algos.matrix.matrix import MatrixConfig, run_matrix

command = MatrixConfig


def main(args: Sequence[str], *, description: str | None = None, prog: str | None = "agon matrix") -> int:
    """Train and judge every row of the paper's table.

    Args:
        args: the arguments.
        description: what `--help` says first.
        prog: what it calls the command; None: the name of the script.
    """
    from rich.markdown import Markdown

    from algos.matrix.report import markdown
    from algos.trainer import Interrupted

    text = description or "Train and judge every row of the paper's table."
    config = parse(args, description=text, prog=prog)
    try:
        results = run_matrix(config)
    except (Interrupted, KeyboardInterrupt):
        Console().print(Text(f"\nStopped. The same command goes on; what is finished is in {config.output_dir}."))
        return INTERRUPTED
    Console().print(Markdown(markdown(results, brief=True)))
    Console().print(Text(f"{config.output_dir}: results.json, table.md, table.png"))
    return DONE


def parse(args: Sequence[str], *, description: str, prog: str | None) -> MatrixConfig:
    """Read a config from the command line; `--preset NAME` is what the rows have in common.

    Args:
        args: the arguments.
        description: what `--help` says first.
        prog: what the help calls the command; None: the name of the script.
    """
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--preset", choices=list(PRESETS), default="chain-search")
    known, rest = first.parse_known_args(args)
    text = f"{description}\n\nAlso: --preset {{{','.join(PRESETS)}}}, which the flags --train.… override."
    default = MatrixConfig(train=PRESETS[known.preset])
    with readable_help(rest):
        return tyro.cli(MatrixConfig, args=rest, default=default, description=text, prog=prog)
