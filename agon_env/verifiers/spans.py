"""Unions of intervals, and what is common to them, outside of them and in either.

A set is the tuple of its cuts in order: the points of the number line where one goes in and out of it by turns, each
of them just before (-1) or just after (+1) the number that it names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from agon_env.verifiers.brackets import group, split
from agon_env.verifiers.places import Place, place


@dataclass(frozen=True, order=True)
class Cut:
    """A place where a set begins or ends."""

    at: Place
    side: int
    """-1 if just before the number, +1 if just after it."""
    text: str = field(compare=False)


Cuts: TypeAlias = tuple[Cut, ...]

BOTTOM, TOP = Cut(-math.inf, 1, r"-\infty"), Cut(math.inf, -1, r"\infty")


def read_cuts(text: str) -> Cuts | None:
    r"""Return the cuts of an interval, a finite set or a union of these; None for anything else, as `(a, b)`."""
    found = group(text)
    if found is None:
        point = split(text, re.compile(",")) == [text] and text.startswith(r"\{") and text.endswith(r"\}")
        found = (r"\{\}", [text[2:-2]]) if point else None
    if found is None:
        return None
    brackets, parts = found
    if brackets == "union":
        return either(*map(read_cuts, parts))
    places = [place(part) for part in parts]
    ends = [(at, part) for at, part in zip(places, parts, strict=True) if at is not None]
    if len(ends) < len(parts):
        return None
    if brackets == r"\{\}":
        return either(*((Cut(at, -1, text), Cut(at, 1, text)) for at, text in ends))
    if len(ends) != 2 or not ends[0][0] < ends[1][0]:
        return None
    (low, below), (high, above) = ends
    return (
        Cut(low, 1 if brackets[0] == "(" or low == -math.inf else -1, below),
        Cut(high, -1 if brackets[1] == ")" or high == math.inf else 1, above),
    )


def either(*sets: Cuts | None) -> Cuts | None:
    """Return the union; None if a set is unknown."""
    return _combined(sets, lambda inside: inside > 0)


def common(*sets: Cuts | None) -> Cuts | None:
    """Return the intersection; None if a set is unknown."""
    return _combined(sets, lambda inside: inside == len(sets))


def outside(cuts: Cuts | None) -> Cuts | None:
    """Return the real numbers that are not in a set; None if it is unknown."""
    return None if cuts is None else tuple(sorted({*cuts} ^ {BOTTOM, TOP}))


def spelled(cuts: Cuts) -> str:
    r"""Return a set as a union of intervals, and of points in braces."""
    points = [low.text for low, high in zip(cuts[::2], cuts[1::2], strict=True) if low.at == high.at]
    spans = [
        f"{'(' if low.side > 0 else '['}{low.text},{high.text}{')' if high.side < 0 else ']'}"
        for low, high in zip(cuts[::2], cuts[1::2], strict=True)
        if low.at != high.at
    ]
    return r"\cup".join(spans + ([rf"\{{{','.join(points)}\}}"] if points or not spans else []))


def _combined(sets: Sequence[Cuts | None], belongs: Callable[[int], bool]) -> Cuts | None:
    """Go along the number line, counting the sets one is in."""
    steps = []
    for cuts in sets:
        if cuts is None:
            return None
        steps += [(cut, 1 if index % 2 == 0 else -1) for index, cut in enumerate(cuts)]
    steps.sort(key=lambda step: (step[0].at, step[0].side))
    found: list[Cut] = []
    inside, index = 0, 0
    while index < len(steps):
        cut, before = steps[index][0], belongs(inside)
        while index < len(steps) and steps[index][0] == cut:
            inside += steps[index][1]
            index += 1
        if belongs(inside) != before:
            found.append(cut)
    return tuple(found)
