"""Whether what a program printed is what it should print."""

from __future__ import annotations

import re
from decimal import Decimal, localcontext

_DECIMAL = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
MAX_DIGITS = 400
FINE_PLACES = 6
ABSOLUTE = Decimal("1e-6")
RELATIVE = Decimal("1e-9")


def same_output(printed: str, expected: str) -> bool:
    r"""Compare line by line, in order, without regard to white space at the end of a line and empty lines at the end.

    Decimal fractions are compared as numbers: where six or more places are expected, within 1e-6 (unless the
    number is smaller than that, or has an exponent); otherwise they must be equal (up to 1e-9 of their size, for the
    noise of binary fractions). Integers are compared as text,
    except that `3.0` is 3. Case matters.
    """
    ours, theirs = _lines(printed), _lines(expected)
    return len(ours) == len(theirs) and all(map(_same_line, ours, theirs))


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _same_line(ours: str, theirs: str) -> bool:
    if ours == theirs:
        return True
    our_words, their_words = ours.split(" "), theirs.split(" ")
    return len(our_words) == len(their_words) and all(map(_same_word, our_words, their_words))


def _same_word(ours: str, theirs: str) -> bool:
    if ours == theirs:
        return True
    if max(len(ours), len(theirs)) > MAX_DIGITS or not (_DECIMAL.fullmatch(ours) and _DECIMAL.fullmatch(theirs)):
        return False
    if _INTEGER.fullmatch(ours) and _INTEGER.fullmatch(theirs):
        return False
    with localcontext() as context:
        context.prec = 2 * MAX_DIGITS + 2000
        our_number, their_number = Decimal(ours), Decimal(theirs)
        if _INTEGER.fullmatch(theirs):
            return our_number == their_number
        size = abs(their_number)
        fine = "e" not in theirs.casefold() and -int(their_number.as_tuple().exponent) >= FINE_PLACES
        tolerance = size * RELATIVE
        if fine and (size >= ABSOLUTE or not size):
            tolerance = max(tolerance, ABSOLUTE)
        return abs(our_number - their_number) <= tolerance
