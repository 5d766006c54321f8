"""`agon algorithms`."""

from __future__ import annotations

from algos.commands import DONE
from algos.commands.listing import print_table, report_broken


def command() -> int:
    """List the algorithms that train, and broken plug-ins."""
    from algos.algorithm_registry import broken_plugins, list_algorithms

    print_table(("algorithm", "what it is"), sorted(list_algorithms().items()))
    report_broken(broken_plugins())
    return DONE
