"""Evaluation on held-out problems: how good are the drafts, the answers, and what does reading a draft do?

Every share has its 95 % interval (Wilson). The *fix rate* is the share of wrong drafts that were answered
right, the *break rate* the share of right drafts that were answered wrong: a challenger that copies fixes
nothing and breaks nothing. Figures are counted from `Record`s, so that they can be had of any part of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean
from typing import Any

from agents.agent import Agent, as_agent
from agents.ensemble import tokens_spent
from agents.sampling import SamplingParams
from agon_env.contest import Contest
from agon_env.types import Action, Observation
from algos.evaluation.records import Record, records_of
from algos.playing.problem_order import problem_index, task_size
from algos.rollouts import Rollout, Rollouts, Sample, Start, rollout
from algos.statistics import majority_score, pass_at_k, wilson

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
    """Tokens of what one role says, drafts and answers alike."""
    tokens_per_problem: float | None = None
    """Tokens of a whole contest: what an answer costs."""
    correct_per_1k_tokens: float | None = None
    """Right final answers per 1,000 sampled tokens."""
    hedges_per_100_tokens: float | None = None
    """Hedging words (`algos.evaluation.records.HEDGES`) per 100 sampled tokens."""
    disagreement: float | None = None
    """Share of pairs of players whose drafts on the same problem gave different answers; needs `samples` ≥ 2."""
    pass_at: dict[str, float] = field(default_factory=dict)
    """"pass@k" → chance that one of k final answers is right; "maj@k" → share of right majority votes of k."""
    truncated: float | None = None
    """Share of texts that were cut off."""
    forfeits: float | None = None
    """Share of contests that ended by a forfeit."""
    unscored: int = 0
    """Contests left out because a score could not be computed."""
    ci95: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Metric → 95 % interval."""
    records: tuple[Record, ...] = field(default=(), repr=False)
    """What the figures are counted from."""

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain JSON values; those that do not apply are left out."""
        values = {key: getattr(self, key) for key in self.__dataclass_fields__ if key != "records"}
        return {key: value for key, value in values.items() if value is not None and value != {}}

    def by(self, what: Callable[[Record], Any]) -> dict[str, Evaluation]:
        """Return the figures of the parts that `what` tells apart, for example `lambda record: record.topic`."""
        parts: defaultdict[str, list[Record]] = defaultdict(list)
        for record in self.records:
            parts[str(what(record))].append(record)
        return {name: figures(parts[name]) for name in sorted(parts)}


def evaluate(
    make_contest: Callable[[], Contest],
    players: Mapping[str, Agent | Callable[[Observation], str | Action]],
    *,
    problems: int,
    params: SamplingParams,
    samples: int = 1,
    seed: int = 0,
    both_orders: bool = True,
    batch: int = 128,
    sample: Sample | None = None,
    play: Rollouts = rollout,
    on_contest: Callable[[int], None] | None = None,
) -> tuple[Evaluation, list[Contest]]:
    """Play contests on `problems` problems: always the same ones, drawn from all parts of a data set.

    Args:
        make_contest: makes an empty contest over held-out problems.
        players: player → who plays it.
        problems: how many; a smaller data set is played once through.
        params: how policies sample.
        samples: contests on each problem, for pass@k and majority votes.
        seed: the same seed gives the same contests.
        both_orders: the players rotate through the roles from problem to problem and from sample to sample, so that
            each has every role equally often: of two players, each drafts half of the time.
        batch: contests in lockstep.
        sample: generates the tokens; default: each policy's own engine.
        play: plays the contests; default: in this process.
        on_contest: told how many contests have ended.

    Returns:
        The figures, and the contests that they come from.
    """
    agents = {player: as_agent(agent) for player, agent in players.items()}
    size = task_size(make_contest())
    problems = problems if size is None else min(problems, size)
    spent = tokens_spent(agents.values())
    played: list[Rollout] = []
    total = problems * samples
    for first in range(0, total, batch):
        places = range(first, min(first + batch, total))
        contest = make_contest()
        starts = [
            held_out_start(contest, problem, rotation=problem + nth if both_orders else 0)
            for nth, problem in (divmod(place, problems) for place in places)
        ]
        played.append(play(make_contest, agents, starts, params=params, seed=seed + first, sample=sample))
        if on_contest is not None:
            on_contest(places[-1] + 1)
    records = [record for part in played for record in records_of(part)]
    judged = figures(records, spent=tokens_spent(agents.values()) - spent)
    return judged, [contest for part in played for contest in part.contests]


def tally(rollouts: Sequence[Rollout]) -> Evaluation:
    """Return the figures of contests that have been played."""
    return figures([record for part in rollouts for record in records_of(part)])


def figures(records: Sequence[Record], *, spent: int = 0) -> Evaluation:
    """Count the figures of an evaluation.

    Args:
        records: of its contests.
        spent: tokens that no record holds: those which an agent sampled inside, such as a cascade.
    """
    duels = [(r.first, r.last) for r in records if len(r.roles) > 1 and r.first is not None and r.last is not None]
    shares = {
        "answer_pass1": [r.last for r in records if r.last is not None],
        "draft_pass1": [r.first for r in records if len(r.roles) > 1 and r.first is not None],
        "fix_rate": [answer for draft, answer in duels if draft < 1],
        "break_rate": [1 - answer for draft, answer in duels if draft >= 1],
    }
    lengths = [tokens for r in records for tokens in r.tokens.values()]
    tokens = sum(lengths) + spent
    hedges = sum(r.hedges[role] for r in records for role in r.tokens)
    scored = sum(any(share is not None for share in r.scores.values()) for r in records)
    return Evaluation(
        n=scored,
        **{name: fmean(values) if values else None for name, values in shares.items()},
        mean_tokens=fmean(lengths) if lengths else None,
        tokens_per_problem=tokens / len(records) if tokens else None,
        correct_per_1k_tokens=1000 * sum(shares["answer_pass1"]) / tokens if tokens else None,
        hedges_per_100_tokens=100 * hedges / sum(lengths) if sum(lengths) else None,
        disagreement=_disagreement(records),
        pass_at=_pass_at(records),
        truncated=sum(len(r.truncated) for r in records) / len(lengths) if lengths else None,
        forfeits=fmean(r.forfeited for r in records) if records else None,
        unscored=len(records) - scored,
        ci95={name: wilson(fmean(values), len(values)) for name, values in shares.items() if values},
        records=tuple(records),
    )


def _by_problem(records: Sequence[Record]) -> list[list[Record]]:
    groups: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[record.problem].append(record)
    return list(groups.values())


def _pass_at(records: Sequence[Record]) -> dict[str, float]:
    """Return pass@k and maj@k for k = 2, 4, 8 … up to the number of samples that every problem has.

    A problem of which no score is known is left out, as it is of every other share.
    """
    groups = _by_problem([r for r in records if r.last is not None])
    least = min((len(group) for group in groups), default=0)
    found: dict[str, float] = {}
    k = 2
    while k <= least:
        found[f"pass@{k}"] = fmean(pass_at_k(len(group), sum(r.last == 1 for r in group), k) for group in groups)
        found[f"maj@{k}"] = fmean(_majority(group[:k]) for group in groups)
        k *= 2
    return found


def _majority(group: Sequence[Record]) -> float:
    return majority_score([r.answers[r.roles[-1]] for r in group], [r.last or 0.0 for r in group])


def _disagreement(records: Sequence[Record]) -> float | None:
    """Return how often two players' drafts on one problem differ."""
    differ = []
    for group in _by_problem(records):
        drafts = [(r.players[r.roles[0]], r.answers[r.roles[0]]) for r in group]
        differ += [one[1] != other[1] for one, other in combinations(drafts, 2) if one[0] != other[0]]
    return fmean(differ) if differ else None


def held_out_start(contest: Contest, place: int, *, rotation: int = 0) -> Start:
    """Return the start of the contest on the held-out problem at `place`.

    The first role is that of the player who is `rotation` places behind the first one, counted in a circle; the others
    follow in their order.
    """
    first = rotation % len(contest.players)
    players = contest.players[first:] + contest.players[:first]
    options: dict[str, Any] = {"roles": dict(zip(players, contest.roles, strict=True))}
    if "index" in contest.option_names:
        options["index"] = problem_index(place, size=task_size(contest), seed=0)
    return Start(seed=HELD_OUT_SEEDS + place, options=options)
