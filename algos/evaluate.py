"""Evaluation on held-out problems: how good are the drafts, the answers, and what does reading a draft do?

Every figure is a share over contests with its 95 % interval (Wilson). The *fix rate* is the share of wrong
drafts that were answered right, the *break rate* the share of right drafts that were answered wrong: a
challenger that copies fixes nothing and breaks nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from agents.agent import Agent, as_agent
from agents.sampling import SamplingParams
from agon_env.contest import Contest
from agon_env.types import Action, Observation
from algos.curriculum import problem_index, task_size
from algos.rollouts import Rollout, Sample, Start, rollout

HELD_OUT_SEEDS = 2**52
"""Contests of an evaluation have seeds from here on; those of training stay far below."""


@dataclass(frozen=True)
class Evaluation:
    """What a pair (or a single policy) does on held-out problems."""

    n: int
    """Contests played."""
    answer_pass1: float | None
    """Share of right final answers: those of the role that speaks last."""
    draft_pass1: float | None = None
    """Share of right drafts: the answers of the role that speaks first, before anyone has been read."""
    fix_rate: float | None = None
    break_rate: float | None = None
    mean_tokens: float | None = None
    """Tokens of one completion, drafts and answers alike."""
    truncated: float | None = None
    """Share of completions that were cut off."""
    forfeits: float | None = None
    """Share of contests that ended by a forfeit."""
    unscored: int = 0
    """Contests left out because a score could not be computed."""
    ci95: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Metric → 95 % interval."""

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain JSON values; those that do not apply are left out."""
        values = {key: getattr(self, key) for key in self.__dataclass_fields__}
        return {key: value for key, value in values.items() if value is not None}


def evaluate(
    make_contest: Callable[[], Contest],
    players: Mapping[str, Agent | Callable[[Observation], str | Action]],
    *,
    problems: int,
    params: SamplingParams,
    seed: int = 0,
    both_orders: bool = True,
    batch: int = 128,
    sample: Sample | None = None,
    on_contest: Callable[[int], None] | None = None,
) -> tuple[Evaluation, list[Contest]]:
    """Play one contest on each of `problems` problems: always the same ones, drawn from all parts of a data set.

    Args:
        make_contest: makes an empty contest over held-out problems.
        players: player → who plays it.
        problems: how many; a smaller data set is played once through.
        params: how policies sample.
        seed: the same seed gives the same contests.
        both_orders: the players swap roles on every other problem, so that each drafts half of the time.
        batch: contests in lockstep.
        sample: generates the tokens; default: each policy's own engine.
        on_contest: told how many contests have ended.

    Returns:
        The figures, and the contests that they come from.
    """
    agents = {player: as_agent(agent) for player, agent in players.items()}
    size = task_size(make_contest())
    problems = problems if size is None else min(problems, size)
    played: list[Rollout] = []
    for first in range(0, problems, batch):
        places = range(first, min(first + batch, problems))
        starts = [_start(make_contest(), place, size=size, swap=both_orders and place % 2 == 1) for place in places]
        played.append(rollout(make_contest, agents, starts, params=params, seed=seed + first, sample=sample))
        if on_contest is not None:
            on_contest(places[-1] + 1)
    return tally(played), [contest for part in played for contest in part.contests]


def tally(rollouts: Sequence[Rollout]) -> Evaluation:
    """Return the figures of contests that have been played.

    Scores are taken as shares of the contest's `score_range`, so that 1 is right. Who forfeits has the least score;
    what the others would have said is not known.
    """
    contests = [contest for part in rollouts for contest in part.contests]
    completions = [turn.completion for part in rollouts for turn in part.turns if turn.completion is not None]
    scores = [_shares(contest) for contest in contests]
    duels = [(s[0], s[-1]) for s in scores if len(s) > 1 and s[0] is not None and s[-1] is not None]
    shares = {
        "answer_pass1": [s[-1] for s in scores if s[-1] is not None],
        "draft_pass1": [s[0] for s in scores if len(s) > 1 and s[0] is not None],
        "fix_rate": [answer for draft, answer in duels if draft < 1],
        "break_rate": [1 - answer for draft, answer in duels if draft >= 1],
    }
    scored = sum(any(share is not None for share in s) for s in scores)
    return Evaluation(
        n=scored,
        **{name: fmean(values) if values else None for name, values in shares.items()},
        mean_tokens=fmean(len(c.token_ids) for c in completions) if completions else None,
        truncated=fmean(c.finish_reason == "length" for c in completions) if completions else None,
        forfeits=fmean(_forfeited(contest) for contest in contests) if contests else None,
        unscored=len(contests) - scored,
        ci95={name: wilson(fmean(values), len(values)) for name, values in shares.items() if values},
    )


def wilson(share: float, n: int, z: float = 1.959964) -> tuple[float, float]:
    """Return the Wilson score interval of a share observed in n trials (Wilson 1927)."""
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    variance = max(0.0, share * (1 - share))  # rounding may take a mean of ones above 1
    half = z / (1 + z * z / n) * math.sqrt(variance / n + z * z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def _start(contest: Contest, place: int, *, size: int | None, swap: bool) -> Start:
    players = contest.players[::-1] if swap else contest.players
    options: dict[str, Any] = {"roles": dict(zip(players, contest.roles, strict=True))}
    if "index" in contest.option_names:
        options["index"] = problem_index(place, size=size, seed=0)
    return Start(seed=HELD_OUT_SEEDS + place, options=options)


def _shares(contest: Contest) -> list[float | None]:
    """Return the score of each role, in the order of speaking, as a share of the range.

    None stands for one that is not known. A contest of which one score could not be computed is left out whole.
    """
    outcome, (low, high) = contest.outcome, contest.score_range
    if outcome is None:
        return [None] * len(contest.roles)
    if _forfeited(contest):
        offender = contest.transcript.events[-1].role
        return [0.0 if role == offender else None for role in contest.roles]
    scores = {outcome.roles[player]: score for player, score in outcome.scores.items()}
    known = [(score - low) / (high - low) for role in contest.roles if (score := scores[role]) is not None]
    return [*known] if len(known) == len(contest.roles) else [None] * len(contest.roles)


def _forfeited(contest: Contest) -> bool:
    return contest.outcome is not None and contest.outcome.reason.startswith("forfeit")
