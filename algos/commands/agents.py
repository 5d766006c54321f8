"""`agon agents`."""

from __future__ import annotations

from algos.commands import DONE
from algos.commands.listing import print_table, report_broken


def command() -> int:
    """List the players that can be made, and broken plug-ins."""
    import agents

    print_table(("agent", "what it is"), sorted(agents.list_agents().items()))
    report_broken(agents.broken_plugins())
    return DONE
