"""`agon matrix`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from algos.commands import DONE, INTERRUPTED
from algos.matrix import MatrixConfig, parse_matrix, run_matrix

command = MatrixConfig


def main(args: Sequence[str], *, description: str | None = None, prog: str | None = "agon matrix") -> int:
    """Train and judge every row of the paper's table.

    Args:
        args: the arguments.
        description: what `--help` says first.
        prog: what it calls the command; None: the name of the script.
    """
    from rich.markdown import Markdown

    from algos.matrix_report import markdown
    from algos.trainer import Interrupted

    text = description or "Train and judge every row of the paper's table."
    config = parse_matrix(args, description=text, prog=prog)
    try:
        results = run_matrix(config)
    except (Interrupted, KeyboardInterrupt):
        Console().print(Text(f"\nStopped. The same command goes on; what is finished is in {config.output_dir}."))
        return INTERRUPTED
    Console().print(Markdown(markdown(results, brief=True)))
    Console().print(Text(f"{config.output_dir}: results.json, table.md, table.png"))
    return DONE
