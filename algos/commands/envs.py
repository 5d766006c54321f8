"""`agon envs`."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from agon_env.printable import printable
from algos.commands import DONE
from algos.commands.listing import print_table, report_broken

if TYPE_CHECKING:
    from agon_env.registration import ContestSpec

LARGE_NAMESPACE = 8
"""A namespace with more contests than these gets one line."""


def command(all: bool = False) -> int:
    """List the contests that can be made, and broken plug-ins.

    Args:
        all: also list each contest of a large namespace.
    """
    import agon_env

    specs = [agon_env.spec(id) for id in agon_env.list_envs()]
    members = Counter(spec.namespace for spec in specs if spec.namespace)
    folded = {namespace for namespace, count in members.items() if count > LARGE_NAMESPACE and not all}
    shown = [spec for spec in specs if spec.namespace not in folded]
    rows = [(spec.id, ", ".join(f"{key}={value!r}" for key, value in spec.kwargs.items())) for spec in shown]
    rows += [(f"{namespace}/*", f"{members[namespace]} contests; list them with --all") for namespace in folded]
    print_table(("contest", "made with"), sorted(rows))
    console = Console(highlight=False)
    for (summary, options), ids in _kinds(shown).items():
        of_task = ", and those of the task" if "task" in options else ""
        console.print(Text(printable(f"\n{', '.join(ids)}"), style="bold"))
        for line in (summary, f"options: {', '.join(options) or 'none'}{of_task}"):
            console.print(Padding(Text(printable(line)), (0, 0, 0, 2), expand=False))
    report_broken(agon_env.broken_plugins())
    return DONE


def _kinds(specs: Iterable[ContestSpec]) -> dict[tuple[str, tuple[str, ...]], list[str]]:
    """Return what a contest is, and its options → which ones; a contest whose entry point can't be imported is left out."""
    kinds: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for spec in specs:
        with contextlib.suppress(ImportError, AttributeError):
            kinds.setdefault((spec.summary(), spec.option_names()), []).append(spec.id)
    return kinds
