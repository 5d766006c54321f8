"""Numerals in a base, and ratios: what the question has fixed may be left out of the answer."""

from __future__ import annotations

import re
from fractions import Fraction

from agon_env.verifiers.exact import read_number

_NUMERAL = re.compile(r"(?P<digits>(?=[A-F]*\d)[\dA-F]+)\s*_\s*\{?\s*(?P<base>\d{1,2})\s*\}?")
_RATIO = re.compile(r"(\d{1,18})\s*:\s*(\d{1,18})")
_CLOCK = re.compile(r"\d{1,2}\s*:\s*\d\d")
_FRACTION = re.compile(r"(?:\\frac|\d+\s*/).*")


def meets_numeral(gold: str, answer: str) -> bool:
    """Return whether `answer` is the gold without its base: `52` for `52_8`, but not `52_8` for `52`, another number."""
    found = _NUMERAL.fullmatch(gold)
    if not found or any(int(digit, 16) >= int(found["base"]) for digit in found["digits"]):
        return False
    return answer.replace(" ", "").lstrip("0") == found["digits"].lstrip("0") != ""


def meets_ratio(gold: str, answer: str) -> bool:
    r"""Return whether `answer` is the gold as a fraction: `\frac{3}{4}` for `3:4`.

    Not the other way round: who writes 1:2 for a probability of 1/2 may mean odds. A time of day is no ratio.
    """
    found = _RATIO.fullmatch(gold)
    if not found or _CLOCK.fullmatch(gold) or not _FRACTION.fullmatch(answer) or not int(found[2]):
        return False
    return read_number(answer) == Fraction(int(found[1]), int(found[2]))
