"""`contests.jsonl`: the contests of a tournament, one line each, from which it goes on and its tables are made.

A line is that of a run's `contests.jsonl` (see `algos.training.contest_log`), with the game in the place of the step, labels
in the place of policies, and contests counted through the file: `agon replay` proves it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agon_env.contest import Contest
from agon_env.transcript import Transcript
from agon_env.types import NO_MOVE
from algos.arena.schedule import Fixture
from algos.errors import FolderFailed
from algos.training.contest_log import CONTESTS, duel, read_contests


@dataclass(frozen=True)
class Result:
    """What a contest came to."""

    fixture: Fixture
    rewards: Mapping[str, float | None]
    """Label → reward; None where it could not be computed."""
    forfeited: str | None = None
    """Who lost by an illegal move, or by none."""
    failed: bool = False
    """Whether that was because the agent raised, hung or said no text."""

    @property
    def known(self) -> dict[str, float] | None:
        """Label → reward, if all of them are known."""
        known = {label: reward for label, reward in self.rewards.items() if reward is not None}
        return known if len(known) == len(self.rewards) else None


class ResultsFile:
    """Adds contests to the file of a tournament."""

    def __init__(self, folder: Path) -> None:
        """Open the file in `folder`, which must exist. A torn last line is cut off.

        Raises:
            FolderFailed: another process writes to it.
        """
        self._file = open(folder / CONTESTS, "ab+")  # noqa: SIM115
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until it is closed
        except BlockingIOError:
            self._file.close()
            raise FolderFailed(f"another process holds a tournament in {folder}: wait, or choose another --out") from None
        _cut_torn_line(self._file)
        self._file.seek(0)
        self._contests = sum(1 for _ in self._file)

    def add(self, fixture: Fixture, contest: Contest) -> Result:
        """Add a contest that is over, and return what it came to."""
        record = contest.transcript.to_dict()
        labels = dict(zip(contest.roles, fixture.seats, strict=True))
        line = {
            "step": fixture.game,
            "contest": self._contests,
            "seats": fixture.seats,
            "policies": {player: labels[role] for player, role in record["header"]["roles"].items()},
            "duel": duel(contest),
            "prompt": contest.observe(record["events"][0]["player"]).text,
            **record["header"],
            "events": record["events"],
            "outcome": record["outcome"],
        }
        self._file.write(json.dumps(line, allow_nan=False).encode() + b"\n")
        self._file.flush()
        self._contests += 1
        return _result(line, contest.transcript)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.fsync(self._file.fileno())
        self._file.close()


def read_results(folder: Path) -> list[Result]:
    """Return the contests that a tournament has finished so far.

    Raises:
        TranscriptError: a line is not that of a contest.
    """
    file = folder / CONTESTS
    return [_result(record, transcript) for record, transcript in read_contests(file)] if file.exists() else []


def _result(record: Mapping[str, Any], transcript: Transcript) -> Result:
    labels, outcome = record["policies"], transcript.outcome
    rewards = {labels[player]: outcome.rewards[player] if outcome is not None else None for player in labels}
    last = transcript.events[-1]
    lost = outcome is not None and outcome.reason.startswith("forfeit")
    return Result(
        Fixture(record["step"], tuple(record["seats"])),
        rewards,
        forfeited=labels[last.player] if lost else None,
        failed=(last.invalid or "").startswith(NO_MOVE),
    )


def _cut_torn_line(file: Any) -> None:
    """Cut off what follows the last line feed."""
    size = end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - 65536)
        file.seek(start)
        place = file.read(end - start).rfind(b"\n")
        if place >= 0:
            end = start + place + 1
            break
        end = start
    if end < size:
        file.truncate(end)
