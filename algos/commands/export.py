"""`agon export`."""

from __future__ import annotations

from algos.commands import DONE
from algos.commands.flags import PathIfAny, Run


def command(
    run: Run,
    out: PathIfAny = None,
    merge: bool = False,
    sft: bool = False,
) -> int:
    """Write the policies for others: adapters, cards, chat data.

    Each adapter is in PEFT's layout, with a model card; chat.py asks the pair. docs/export.md has the details.

    Args:
        run: folder of the run.
        out: where to. Default: the folder `export` in the run.
        merge: also write each policy as a whole model in float32, its adapter merged into the base.
        sft: also write the texts that won as chat data, one JSON line with `messages` each.
    """
    from algos.training.export import Export, export

    for path in export(Export.of(run, out), merge=merge, sft=sft):
        print(path)
    return DONE
