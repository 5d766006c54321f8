"""The tables of a run: before and after, where the reward came from, length against accuracy, where the time went."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from algos.reporting.charts import MOST_NAMES, Chart, Series, Steps, chart_of_steps, curve_of_contests, curve_of_metric
from algos.reporting.contests import ContestRow, Seat
from algos.reporting.curves import share_names
from algos.reporting.data import RunData
from algos.reporting.estimates import clustered_mean, difference, share_of
from algos.reporting.plain import mapping, number
from algos.statistics import Estimate

PHASES = {
    "sample": "generating tokens",
    "verify": "moves and verdicts",
    "logprob": "scoring tokens without gradient",
    "update": "forward, backward, optimiser",
}
"""Metric under `time/` → what it is the time of; the rest of a step is encoding, decoding and bookkeeping."""

OTHER_FIGURES = {
    "mean_tokens": "tokens of a text",
    "tokens_per_problem": "tokens of a contest",
    "correct_per_1k_tokens": "right answers per 1,000 tokens",
    "hedges_per_100_tokens": "hedging words per 100 tokens",
    "truncated": "texts cut off",
    "forfeits": "contests forfeited",
    "unscored": "unscored contests",
    "n": "contests scored",
}
"""Figures of an evaluation that have no interval."""
SHARES_WITHOUT_INTERVAL = ("truncated", "forfeits")


@dataclass(frozen=True)
class Figure:
    """A row of the table before and after."""

    name: str
    share: bool
    before: Estimate | float | None
    after: Estimate | float | None
    change: Estimate | float | None

    @property
    def drawn(self) -> bool:
        """Whether it is a share with an interval."""
        return isinstance(self.before, Estimate) or isinstance(self.after, Estimate)


def before_after(run: RunData) -> list[Figure]:
    """Return the figures on held-out problems before and after; none for a run that has not ended."""
    before, after = mapping(run.summary.get("before")), mapping(run.summary.get("after"))
    rows = []
    for key, name in share_names(run).items():
        one, other = share_of(before, key), share_of(after, key)
        if one is not None or other is not None:
            rows.append(Figure(name, True, one, other, difference(one, other) if one and other else None))
    for key, name in OTHER_FIGURES.items():
        first, last = number(before.get(key)), number(after.get(key))
        if first is not None or last is not None:
            change = last - first if first is not None and last is not None else None
            rows.append(Figure(name, key in SHARES_WITHOUT_INTERVAL, first, last, change))
    return rows


@dataclass(frozen=True)
class Source:
    """What one policy was paid for in one seat."""

    policy: str
    role: str
    contests: int
    reward: Estimate | None
    parts: dict[str, Estimate | None]
    """Part → its mean over all contests; the parts add up to the reward."""


def reward_sources(rows: Sequence[ContestRow]) -> list[Source]:
    """Return where the reward of each policy came from, seat by seat; of very many, of `MOST_NAMES` and as many parts."""
    seen: defaultdict[tuple[str, str], list[tuple[Seat, tuple[int, str]]]] = defaultdict(list)
    for row in rows:
        for seat in row.seats:
            seen[seat.policy, seat.role].append((seat, row.cluster))
    names = list(dict.fromkeys(part for row in rows for seat in row.seats for part in seat.parts))[:MOST_NAMES]
    return [
        Source(
            policy=policy,
            role=role,
            contests=len(seats),
            reward=clustered_mean((seat.reward, cluster) for seat, cluster in seats if seat.reward is not None),
            parts={
                part: clustered_mean((seat.parts.get(part, 0.0), cluster) for seat, cluster in seats if seat.reward is not None)
                for part in names
            },
        )
        for (policy, role), seats in sorted(seen.items())[:MOST_NAMES]
    ]


def reward_charts(run: RunData, steps: Steps) -> list[Chart]:
    """Return the reward of the policies over the steps, and the parts of it."""
    parts = sorted({key.partition("/reward_")[2] for record in run.metrics for key in record if "/reward_" in key})
    rewards = [_reward_curve(run, steps, policy) for policy in run.policies]
    by_part = (
        curve_of_metric(f"{policy}: {part}", run.metrics, steps, f"{policy}/reward_{part}")
        for policy in run.policies
        for part in parts
    )
    charts = [
        chart_of_steps("Reward", "Between rivals it says little of how good they are.", "number", steps, rewards),
        chart_of_steps("Parts of the reward", "", "number", steps, by_part) if len(parts) > 1 else None,
    ]
    return [chart for chart in charts if chart is not None]


def _reward_curve(run: RunData, steps: Steps, policy: str) -> Series:
    if not run.keeps_contests:
        return curve_of_metric(policy, run.metrics, steps, f"{policy}/reward")

    def reward(row: ContestRow) -> float | None:
        return next((seat.reward for seat in row.seats if seat.policy == policy), None)

    return curve_of_contests(policy, run.rows, steps, reward)


def length_chart(rows: Sequence[ContestRow], *, most: int = 8) -> Chart | None:
    """Return the mean score of texts of like length, by role; None where there are no texts.

    Lengths are in tokens, and texts without a count of theirs are left out; where no text has one, in characters.

    Args:
        rows: the contests.
        most: points; each holds about as many texts.
    """
    scored = [(seat, row.cluster) for row in rows for seat in row.seats if seat.score is not None]
    if not scored:
        return None
    tokens = any(seat.tokens for seat, _ in scored)
    texts = [(seat, cluster) for seat, cluster in scored if seat.tokens == tokens]
    lengths_N = np.array([seat.length for seat, _ in texts])
    edges = np.unique(np.quantile(lengths_N, np.linspace(0, 1, most + 1)[1:-1]))
    places_N = np.searchsorted(edges, lengths_N, side="right")
    points = sorted(set(places_N.tolist()))
    series = [
        Series.of(
            role,
            [
                clustered_mean(
                    (seat.score, cluster)
                    for (seat, cluster), place in zip(texts, places_N, strict=True)
                    if place == point and seat.role == role and seat.score is not None
                )
                for point in points
            ],
        )
        for role in islice(dict.fromkeys(seat.role for seat, _ in texts), MOST_NAMES)
    ]
    unit = "tokens" if tokens else "characters"
    return Chart(
        title="Score by length",
        note="Each point holds about as many texts; hard problems make long texts, so this is no effect of length alone.",
        unit="share",
        x_name=f"{unit} of a text",
        x=[float(lengths_N[places_N == point].mean()) for point in points],
        series=[one for one in series if one.known],
    )


@dataclass(frozen=True)
class Phase:
    """A row of the table of time."""

    name: str
    seconds: float
    per_step: float
    share: float


def phases(run: RunData) -> list[Phase]:
    """Return where the time of the steps went."""
    steps = [record for record in run.metrics if record.get("time/step", 0.0) > 0]
    total = sum(record["time/step"] for record in steps)
    if not total:
        return []
    spent = {name: sum(record.get(f"time/{key}", 0.0) for record in steps) for key, name in PHASES.items()}
    spent["the rest"] = max(0.0, total - sum(spent.values()))
    spent["all"] = total
    return [Phase(name, seconds, seconds / len(steps), seconds / total) for name, seconds in spent.items()]


def time_chart(run: RunData, steps: Steps) -> Chart | None:
    """Return the seconds of each phase over the steps."""
    keys = {"time/step": "whole step"} | {f"time/{key}": name for key, name in PHASES.items()}
    curves = [curve_of_metric(name, run.metrics, steps, key) for key, name in keys.items()]
    return chart_of_steps("Time of a step", "", "seconds", steps, curves)


def facts(run: RunData) -> dict[str, Any]:
    """Return what a reader should know of a run before anything else."""
    config, done = run.config, run.steps_done
    tokens = sum(record.get("progress/tokens", 0.0) for record in run.metrics)
    found = {
        "contest": " ".join(map(str, [config.get("env", "?"), *_listed(config.get("env_options"))])),
        "algorithm": config.get("algorithm"),
        "model": ", ".join(map(str, [config.get("model"), *_listed(config.get("rival_models"))])),
        "seed": config.get("seed"),
        "steps": f"{done} of {config.get('steps')}",
        "one step": f"{config.get('problems')} problems × {config.get('group_size')} × {config.get('answers')}",
        "sampled": f"{tokens:,.0f} tokens" if tokens else None,
    }
    return {name: fact for name, fact in found.items() if fact is not None}


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []
