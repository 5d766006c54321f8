"""Amounts of the same thing in different units: hours and minutes, metres and centimetres, degrees and radians."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from agon_env.verifiers.brackets import split
from agon_env.verifiers.exact import read_number, split_unit
from agon_env.verifiers.expression import parse

_SIZES: dict[str, dict[str, int]] = {
    "time": {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "day": 86_400_000, "week": 604_800_000},
    "metric length": {"mm": 1, "cm": 10, "dm": 100, "m": 1000, "km": 10**6},
    "length": {"in": 1, "ft": 12, "yd": 36, "mi": 63_360},
    "metric mass": {"mg": 1, "g": 1000, "kg": 10**6, "t": 10**9},
    "mass": {"oz": 1, "lb": 16},
    "volume": {"ml": 1, "l": 1000},
    "money": {"cent": 1, "usd": 100},
}
"""What is measured → its units, by the names of `read_unit`, and their sizes."""
_UNIT = re.compile(r"([a-z]+)([23]?)(?:/([a-z]+)([23]?))?")
_AND = re.compile(r"\\text\s*\{\s*and\s*\}")
_PI = re.compile(r"\\pi(?![A-Za-z])")


@dataclass(frozen=True)
class _Amount:
    kind: str
    """What is measured."""
    units: tuple[str, ...]
    formula: str
    """The sum, in the unit whose size is 1."""


def in_one_unit(gold: str, answer: str) -> tuple[str, str] | None:
    r"""Return two normalised amounts as formulas in one unit, None unless they measure the same and have different units.

    "150 minutes" and "2 hours and 30 minutes" are 9,000,000 milliseconds. Beside degrees a multiple of π is in radians.
    """
    units = split_unit(gold)[1], split_unit(answer)[1]
    if "deg" in units and units[0] != units[1]:
        angles = _radians(gold), _radians(answer)
        return (angles[0], angles[1]) if angles[0] and angles[1] else None
    if "" in units:
        return None
    amounts = _read(gold), _read(answer)
    if not amounts[0] or not amounts[1] or amounts[0].kind != amounts[1].kind or amounts[0].units == amounts[1].units:
        return None
    return amounts[0].formula, amounts[1].formula


def measured(unit: str) -> str:
    """Return what a unit measures; its name if that is not known."""
    size = _size(unit)
    return size[0] if size else unit


def _read(text: str) -> _Amount | None:
    """Return what a text says in one unit, or in several of which each is a part of the one before: hours and minutes."""
    kinds, units, terms = set(), [], []
    for part in split(text, _AND):
        value, unit = split_unit(part)
        measure, formula = _size(unit), _formula(value)
        if not measure or not formula:
            return None
        kinds.add(measure[0])
        units.append(unit)
        terms.append((read_number(value), measure[1], formula))
    if len(kinds) != 1:
        return None
    for (more, size, _), (less, smaller, _) in pairwise(terms):
        if more is None or less is None or more < 0 or not 0 <= less * smaller < size:
            return None
    return _Amount(kinds.pop(), tuple(units), "+".join(f"({formula})*({size})" for _, size, formula in terms))


def _size(unit: str) -> tuple[str, Fraction] | None:
    """Return what a unit measures, and its size; None if it has none: "m/s2" → ("metric length/time2", 1/1000)."""
    found = _UNIT.fullmatch(unit)
    names = [(name, power) for name, power in (found.group(1, 2), found.group(3, 4)) if name] if found else []
    kinds = [kind for name, _ in names for kind, sizes in _SIZES.items() if name in sizes]
    if not names or len(kinds) < len(names):
        return None
    over, *under = (Fraction(_SIZES[kind][name]) ** int(power or 1) for kind, (name, power) in zip(kinds, names, strict=True))
    measured = "/".join(kind + (power or "") for kind, (_, power) in zip(kinds, names, strict=True))
    return measured, over / under[0] if under else over


def _radians(text: str) -> str:
    r"""Return an angle in radians; "" for another text, and for one without a unit that is no multiple of π."""
    value, unit = split_unit(text)
    formula = _formula(value)
    if not formula or unit not in ("deg", "rad", "") or (not unit and not _PI.search(value)):
        return ""
    return rf"({formula})*\pi/180" if unit == "deg" else formula


def _formula(value: str) -> str:
    """Return a text as a formula, "" if it is none; the commas of a number group its digits."""
    if (number := read_number(value)) is not None:
        return str(number)
    try:
        parse(value)
    except (ValueError, RecursionError):
        return ""
    return value
