"""Golds that need not be met exactly, because their data set says how far off an answer may be."""

from __future__ import annotations

import re
from fractions import Fraction

from agon_env.verifiers.exact import split_unit
from agon_env.verifiers.latex import normalise
from agon_env.verifiers.structure import Compare, near, same

_NUMBER = r"\d{1,40}(?:\.\d{1,40})?(?:e[-+]?\d{1,3})?"
"""As `repr` writes a float; without a bound on the exponent its exact value could be too large to be held."""
_TOLERANCE = re.compile(rf"(?P<value>.*?)\s*\\tolerance\{{(?P<tolerance>{_NUMBER})\}}", re.DOTALL | re.ASCII)


def with_tolerance(gold: str, tolerance: float) -> str:
    """Return a gold that every value at most `tolerance` away from it meets."""
    return rf"{gold} \tolerance{{{tolerance!r}}}"


def has_tolerance(gold: str) -> bool:
    """Return whether a gold says how far off an answer may be."""
    return _TOLERANCE.fullmatch(gold) is not None


def without_tolerance(gold: str) -> str:
    """Return a gold as an answer would write it."""
    found = _TOLERANCE.fullmatch(gold)
    return found["value"] if found else gold


def same_within(gold: str, answer: str, compare: Compare) -> bool:
    """Return whether `answer` is the gold, or a number near enough to it; units must agree where both name one."""
    found = _TOLERANCE.fullmatch(gold)
    assert found
    if same(found["value"], answer, compare):
        return True
    value, gold_unit = split_unit(normalise(found["value"]))
    number, unit = split_unit(normalise(re.sub(r"^\s*\\approx", "", answer)))
    if gold_unit and unit and gold_unit != unit:
        return False
    return near(value, number, Fraction(found["tolerance"]), compare)
