"""Tables of what is registered, and of the plug-ins that are broken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agon_env.printable import printable


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under the names of the columns; what is in the first one stays whole."""
    rows = list(rows)
    table = Table(box=None, pad_edge=False)
    longest = max(len(row[0]) for row in rows)
    table.add_column(columns[0], no_wrap=True)
    for column in columns[1:]:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    # On a narrow terminal a line may be too long, but an id that is copied from here must be whole.
    Console(width=max(Console().width, longest + 30)).print(table)


def report_broken(plugins: Mapping[str, str]) -> None:
    """Say on standard error which plug-ins could not be loaded, and why."""
    for name, why in plugins.items():
        Console(stderr=True).print(Text(printable(f"broken plug-in {name}: {why}")))
