"""`Record`: what one contest of an evaluation comes to. Every figure of an evaluation is counted from these."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agon_env.contest import Contest
from algos.rollouts import Rollout
from algos.types import Turn

HEDGES = re.compile(
    r"\b(?:wait|hmm+|maybe|perhaps|possibly|probably|presumably|alternatively|actually|not sure|unsure|i think|i guess|"
    r"let me (?:re)?check|let me re-?think|double[- ]check|on second thought|try again)\b",
    re.IGNORECASE,
)
"""Words that take back or weaken what was said: counted per 100 tokens, they measure how a trace dithers."""


@dataclass(frozen=True)
class Record:
    """One contest of an evaluation."""

    problem: str
    """Names the problem; where the contest has none, its seed does."""
    difficulty: float | None
    topic: str | None
    players: Mapping[str, str]
    """Role → who played it."""
    scores: Mapping[str, float | None]
    """Role → score as a share of the contest's `score_range`, so that 1 is right; None where it is not known."""
    answers: Mapping[str, str | None]
    """Role → what the verifier read as the answer."""
    tokens: Mapping[str, int]
    """Role → tokens that were sampled; roles of players without tokens are missing."""
    hedges: Mapping[str, int]
    """Role → hedging words in what it said."""
    truncated: tuple[str, ...]
    """Roles of which a text was cut off."""
    winner: str | None
    """The role that was paid most; None for a draw."""
    forfeited: bool

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles in the order of speaking."""
        return tuple(self.scores)

    @property
    def judged(self) -> bool:
        """Whether it is known how the contest went: every score is, or somebody forfeited."""
        return self.forfeited or all(score is not None for score in self.scores.values())

    @property
    def first(self) -> float | None:
        """The score of the role that speaks first."""
        return self.scores[self.roles[0]]

    @property
    def last(self) -> float | None:
        """The score of the role that speaks last."""
        return self.scores[self.roles[-1]]


def records_of(rollout: Rollout) -> list[Record]:
    """Return a record of each contest, in order; a contest that branched off has the turns of its own path alone."""
    own: defaultdict[int, list[Turn]] = defaultdict(list)
    for turn, contests in zip(rollout.turns, rollout.beneath, strict=True):
        for contest in contests:
            own[contest].append(turn)
    return [_record(contest, own[index]) for index, contest in enumerate(rollout.contests)]


def _record(contest: Contest, turns: Sequence[Turn]) -> Record:
    outcome = contest.outcome
    details, verdicts = contest.details(), outcome.details if outcome is not None else {}
    said = {role: [turn for turn in turns if turn.role == role] for role in contest.roles}
    sampled = {role: [turn.completion for turn in own if turn.completion is not None] for role, own in said.items()}
    return Record(
        problem=str(details.get("problem", contest.seed)),
        difficulty=details.get("difficulty"),
        topic=details.get("topic"),
        players=dict(contest.player_of),
        scores=_shares(contest),
        answers={role: _extracted(verdicts.get(role)) for role in contest.roles},
        tokens={role: sum(len(c.token_ids) for c in sampled[role]) for role in contest.roles if sampled[role]},
        hedges={role: sum(len(HEDGES.findall(turn.text)) for turn in own) for role, own in said.items()},
        truncated=tuple(role for role in contest.roles if any(c.finish_reason == "length" for c in sampled[role])),
        winner=outcome.roles[outcome.winner] if outcome is not None and outcome.winner is not None else None,
        forfeited=_forfeited(contest),
    )


def _extracted(verdict: object) -> str | None:
    """Return what a game read as the answer; one that says nothing of it has None."""
    found = verdict.get("extracted") if isinstance(verdict, Mapping) else None
    return None if found is None else str(found)


def _shares(contest: Contest) -> dict[str, float | None]:
    """Return the score of each role as a share of the range, None for one that is not known.

    A contest of which one score could not be computed is left out whole. Who forfeits has the least score; what the
    others would have said is not known.
    """
    outcome, (low, high) = contest.outcome, contest.score_range
    unknown: dict[str, float | None] = dict.fromkeys(contest.roles)
    if outcome is None:
        return unknown
    if _forfeited(contest):
        return unknown | {contest.transcript.events[-1].role: 0.0}
    scores = {outcome.roles[player]: score for player, score in outcome.scores.items()}
    known = {role: (score - low) / (high - low) for role in contest.roles if (score := scores[role]) is not None}
    return {**known} if len(known) == len(contest.roles) else unknown


def _forfeited(contest: Contest) -> bool:
    return contest.outcome is not None and contest.outcome.reason.startswith("forfeit")
