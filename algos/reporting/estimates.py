"""Means with intervals that know of groups: contests on one problem are no independent observations. Pure functions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable
from statistics import fmean

from algos.reporting.plain import Json, mapping, number
from algos.statistics import Z95, Estimate, wilson


def clustered_mean(observations: Iterable[tuple[float, Hashable]]) -> Estimate | None:
    """Return the mean of values that come in groups, with its 95 % interval; None where there are none.

    The variance of the mean is the one between groups (the linearised ratio estimator, Cochran 1977, §11.12). Where every
    value lies in [0, 1], the interval is Wilson's for as many independent observations as would have this variance: it
    keeps its width where all values are equal, and never leaves [0, 1].

    Args:
        observations: (value, its group).
    """
    groups: defaultdict[Hashable, list[float]] = defaultdict(list)
    for value, group in observations:
        groups[group].append(value)
    values = [value for group in groups.values() for value in group]
    if not values:
        return None
    mean, n, k = fmean(values), len(values), len(groups)
    spread = sum(sum(value - mean for value in group) ** 2 for group in groups.values())
    variance = spread / n**2 * (k / (k - 1) if k > 1 else 1.0)
    if all(0 <= value <= 1 for value in values):
        effective = min(float(n), mean * (1 - mean) / variance) if variance > 0 else float(k)
        return Estimate(mean, *wilson(mean, max(1, round(effective))))
    half = Z95 * math.sqrt(variance)
    return Estimate(mean, mean - half, mean + half)


def difference(before: Estimate, after: Estimate) -> Estimate:
    """Return after − before, with the interval of two independent estimates (Newcombe 1998, method 10).

    On the same problems the two are not independent, and the interval is wider than it need be.
    """
    change = after.value - before.value
    low = change - math.hypot(after.value - after.low, before.high - before.value)
    high = change + math.hypot(after.high - after.value, before.value - before.low)
    return Estimate(change, low, high)


def share_of(figures: Json, name: str) -> Estimate | None:
    """Return a figure of an evaluation with its interval; None where it has none."""
    interval = mapping(figures.get("ci95")).get(name)
    ends = [number(end) for end in interval] if isinstance(interval, list) else []
    match [number(figures.get(name)), *ends]:
        case [float(value), float(low), float(high)]:
            return Estimate(value, low, high)
    return None
