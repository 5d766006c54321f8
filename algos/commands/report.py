"""`agon report`."""

from __future__ import annotations

from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated

import tyro
from rich.console import Console
from rich.text import Text

from agon_env.printable import printable
from algos.commands import DONE
from algos.commands.flags import Count, PathIfAny

Runs = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN …]", help_behavior_hint="")]


def command(runs: Runs, *, out: PathIfAny = None, contests: Count = 5000) -> int:
    """Write the page of a run, or the page that compares several.

    The page is one HTML file, which opens from disk and asks nothing of a network: curves, the table before and after, where
    reward came from, and a browser of the training contests.

    Args:
        runs: folders of runs. The first of several is what the others are compared with.
        out: the file; default: report.html in the folder of the run, or comparison.html beside the folder of the first one.
        contests: training contests that the page of a run holds at most, evenly from the whole run.
    """
    from algos.errors import ConfigError
    from algos.reporting import report_run, report_runs

    if not runs:
        raise ConfigError("name the folder of a run: agon report runs/NAME; several are compared")
    page = report_run(runs[0], contests=contests) if len(runs) == 1 else report_runs(runs)
    file = out or (runs[0] / "report.html" if len(runs) == 1 else runs[0].parent / "comparison.html")
    _write(file, page)
    size = f"{len(page) / 2**20:.1f} MiB; open it in a browser"
    Console(highlight=False, soft_wrap=True).print(Text(f"{printable(str(file))}   ({size})"))
    return DONE


def _write(file: Path, page: str) -> None:
    """Write a page aside, then put it in its place: a folder from elsewhere may hold a link of its name."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", encoding="utf-8", dir=file.parent, prefix=".report-", delete=False) as aside:
        aside.write(page)
    Path(aside.name).chmod(0o644)
    Path(aside.name).replace(file)
