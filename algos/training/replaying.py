"""Proving what a file of contests says: each is played again from its seed, and paid as it says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from agon_env.contest import Contest
from agon_env.errors import Error, TranscriptError
from agon_env.transcript import Transcript, contest_of, load, replay
from algos.training.contest_log import CONTESTS, duel, read_contests

MOST_TOLD = 10
"""Contests that differ of which it is said how."""


@dataclass
class Replayed:
    """What came of playing contests again."""

    contests: int = 0
    rewards: int = 0
    """Rewards that were proved to be what they are."""
    differing: int = 0
    """Contests that do not go as the file says."""
    told: list[str] = field(default_factory=list)
    """How the first of them differ."""


def replay_all(path: Path, *, most: int | None = None) -> Replayed:
    """Play the contests of a run folder, of its `contests.jsonl` or of a transcript file again.

    Args:
        path: the folder or the file.
        most: contests to look at; None takes all.

    Raises:
        FileNotFoundError: there is no such file, or the run has kept no contests.
        TranscriptError: a line can't be read; the message names it.
    """
    found = Replayed()
    made: dict[str, Contest] = {}
    for name, transcript, says in islice(_contests(path), most):
        try:
            kind = json.dumps([transcript.header.env, transcript.header.kwargs])
            if kind not in made:  # making one may load a data set
                made[kind] = contest_of(transcript)
            env = replay(transcript, env=made[kind])
            if says is not None and duel(env) != says:
                raise TranscriptError(f"it is a {duel(env)}, and the file says {says}")
        except Error as error:
            found.differing += 1
            if len(found.told) < MOST_TOLD:
                found.told.append(f"{name}: {error}")
        else:
            found.rewards += len(env.outcome.rewards) if env.outcome is not None else 0
        found.contests += 1
    return found


def _contests(path: Path) -> Iterator[tuple[str, Transcript, str | None]]:
    """Yield what each contest is called, the contest, and what the file calls it as a duel."""
    file = path / CONTESTS if path.is_dir() else path
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {file}; a run keeps its contests unless keep_transcripts is 0")
    if _is_log(file):
        for record, transcript in read_contests(file):
            yield f"step {record['step']}, contest {record['contest']}", transcript, record.get("duel")
    else:
        for number, transcript in enumerate(load(file)):
            yield f"contest {number}", transcript, None


def _is_log(file: Path) -> bool:
    with open(file, "rb") as stream:
        return stream.read(9) == b'{"step": '
