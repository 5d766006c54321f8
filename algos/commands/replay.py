"""`agon replay`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from algos.commands import DONE, FAILED
from algos.commands.flags import CountIfAny


def command(path: Annotated[Path, tyro.conf.Positional], most: CountIfAny = None) -> int:
    """Play recorded contests again, and prove every reward.

    Each is made from its seed and options, played move by move, and scored by the verifier of today. The exit code is 1 if
    one does not go as the file says.

    Args:
        path: folder of a run, its contests.jsonl, or a file of transcripts.
        most: look at so many contests only, from the first.
    """
    from algos.training.console import RunConsole
    from algos.training.replaying import replay_all

    console = RunConsole(Console(stderr=True, highlight=False))
    found = replay_all(path, most=most)
    for how in found.told:
        console.say(how)
    print(json.dumps({"contests": found.contests, "rewards proved": found.rewards, "differing": found.differing}))
    return FAILED if found.differing else DONE
