"""`contests.jsonl`: what was said and paid in the contests of a run, one line each.

A line holds what `agon_env.Transcript` needs to play the contest again and to prove that it went as it says, and beside that
the step, who the policies behind the players were, how many tokens each move took, and what a duel came to.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from agon_env.contest import Contest
from agon_env.errors import TranscriptError
from agon_env.transcript import Header, Transcript
from algos.rollouts import Rollout
from algos.training.console import is_duel
from algos.types import Turn

CONTESTS = "contests.jsonl"

_DUELS = {(False, True): "fix", (True, False): "break", (True, True): "both right", (False, False): "both wrong"}


def contest_lines(step: int, rollout: Rollout) -> Iterator[str]:
    """Yield the line of each contest of a training step, without line ends; see docs/runs.md for its fields.

    Raises:
        TranscriptError: an option of the contest has no JSON form.
    """
    turns: defaultdict[int, list[Turn]] = defaultdict(list)
    for turn, numbers in zip(rollout.turns, rollout.beneath, strict=True):
        for number in numbers:
            turns[number].append(turn)
    for number, contest in enumerate(rollout.contests):
        # The step comes first: by it a resumed run finds where to cut the file.
        yield json.dumps({"step": step, "contest": number, **_record(contest, turns[number])}, allow_nan=False)


def read_contests(path: Path) -> Iterator[tuple[dict[str, Any], Transcript]]:
    """Yield each line of `contests.jsonl` as it is, and the transcript in it. A torn last line is skipped.

    Raises:
        TranscriptError: a line is not that of a contest; the message names it.
    """
    with open(path, encoding="utf-8", newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith("\n"):
                return
            try:
                record = json.loads(line)
                header = {field.name: record[field.name] for field in fields(Header)}
                events = [{key: value for key, value in event.items() if key != "tokens"} for event in record["events"]]
                transcript = Transcript.from_dict({"header": header, "events": events, "outcome": record["outcome"]})
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError, TranscriptError) as error:
                raise TranscriptError(f"{path}, line {number}: not the line of a contest ({error!r})") from error
            yield record, transcript


def duel(contest: Contest) -> str | None:
    """Return what reading the draft did: "fix", "break", "both right" or "both wrong"; None for other games, or unscored."""
    outcome = contest.outcome
    if outcome is None or not is_duel(contest.roles):
        return None
    draft, answer = (outcome.scores[contest.player_of[role]] for role in contest.roles)
    best = contest.score_range[1]
    return None if draft is None or answer is None else _DUELS[draft == best, answer == best]


def _record(contest: Contest, turns: list[Turn]) -> Mapping[str, Any]:
    record = contest.transcript.to_dict()
    for event, turn in zip(record["events"], turns, strict=False):  # contests from elsewhere have no turns
        if turn.completion is not None:
            event["tokens"] = len(turn.completion.token_ids)
    return {
        "policies": {turn.player: turn.policy for turn in turns},
        "duel": duel(contest),
        "prompt": contest.observe(record["events"][0]["player"]).text,
        **record["header"],
        "events": record["events"],
        "outcome": record["outcome"],
    }
