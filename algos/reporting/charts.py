"""`Chart`: what a page draws, as plain values, and how the steps of runs are pooled into its points."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from statistics import fmean
from typing import Literal, TypeAlias

from algos.reporting.contests import ContestRow
from algos.reporting.estimates import clustered_mean
from algos.statistics import Estimate

Unit: TypeAlias = Literal["share", "number", "seconds"]
Steps: TypeAlias = Sequence[range]
"""Which steps each point of a chart pools, in order and without gaps."""

MOST_POINTS = 40
MOST_NAMES = 40
"""Curves of a chart, policies, roles, parts of the reward: their names are those in the files, which may hold any number."""


@dataclass(frozen=True)
class Series:
    """One curve. A value is None where there is nothing to be known."""

    name: str
    values: list[float | None]
    low: list[float | None] = field(default_factory=list)
    """Lower ends of the 95 % intervals; empty for a curve without."""
    high: list[float | None] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, estimates: Iterable[Estimate | None]) -> Series:
        """Make a curve with its intervals."""
        found = list(estimates)
        return cls(
            name,
            [None if one is None else one.value for one in found],
            [None if one is None else one.low for one in found],
            [None if one is None else one.high for one in found],
        )

    def at(self, place: int) -> Estimate | float | None:
        """Return the value at one place, with its interval where it has one."""
        value, low, high = self.values[place], *(ends[place] if ends else None for ends in (self.low, self.high))
        return value if value is None or low is None or high is None else Estimate(value, low, high)

    @property
    def known(self) -> bool:
        """Whether there is anything to draw."""
        return any(value is not None for value in self.values)


@dataclass(frozen=True)
class Chart:
    """Curves over the same places."""

    title: str
    note: str
    unit: Unit
    x_name: str
    x: list[float]
    series: list[Series]
    steps: list[tuple[int, int]] = field(default_factory=list)
    """First and last step of each point, counted from 1; empty where the points are no training steps."""


def pool_steps(steps: Iterable[int], *, rounds: int = 1, most: int = MOST_POINTS) -> list[range]:
    """Return which steps each point pools: one each, or so many that there are at most `most` points.

    Args:
        steps: those of which something is known.
        rounds: steps of one round of the seats; points pool whole rounds, so that no curve swings with the seats.
        most: points.
    """
    known = list(steps)
    if not known:
        return []
    first, last = min(known), max(known)
    width = -(-(last - first + 1) // most)
    if width > 1:
        width = -(-width // rounds) * rounds
    return [range(start, min(start + width, last + 1)) for start in range(first, last + 1, width)]


def chart_of_steps(title: str, note: str, unit: Unit, steps: Steps, series: Iterable[Series]) -> Chart | None:
    """Return a chart over training steps, which are counted from 1 there; None if there is nothing to draw."""
    known = list(islice((one for one in series if one.known), MOST_NAMES + 1))
    if not known:
        return None
    if len(known) > MOST_NAMES:
        note, known = f"{note} The first {MOST_NAMES} curves.".strip(), known[:MOST_NAMES]
    pooled = max(len(point) for point in steps)
    note = f"{note} Each point pools {pooled} steps.".strip() if pooled > 1 else note
    return Chart(
        title=title,
        note=note,
        unit=unit,
        x_name="step",
        x=[1 + (point[0] + point[-1]) / 2 for point in steps],
        series=known,
        steps=[(point[0] + 1, point[-1] + 1) for point in steps],
    )


def curve_of_contests(
    name: str, rows: Iterable[ContestRow], steps: Steps, observe: Callable[[ContestRow], float | None]
) -> Series:
    """Return the mean of what is observed in the contests of each point, with its interval.

    Args:
        name: of the curve.
        rows: the contests.
        steps: the points.
        observe: contest → value; None leaves the contest out.
    """
    seen: defaultdict[int, list[tuple[float, tuple[int, str]]]] = defaultdict(list)
    for row in rows:
        if (value := observe(row)) is not None:
            seen[_place(row.step, steps)].append((value, row.cluster))
    return Series.of(name, [clustered_mean(seen[index]) for index in range(len(steps))])


def curve_of_metric(name: str, metrics: Iterable[Mapping[str, float]], steps: Steps, *keys: str) -> Series:
    """Return the mean of a metric, or of several, over the steps of each point."""
    found: defaultdict[int, list[float]] = defaultdict(list)
    for record in metrics:
        found[_place(int(record["step"]), steps)] += [record[key] for key in keys if key in record]
    return Series(name, [fmean(found[index]) if found[index] else None for index in range(len(steps))])


def _place(step: int, steps: Steps) -> int:
    return (step - steps[0][0]) // len(steps[0])
