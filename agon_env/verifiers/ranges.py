"""Sets of real numbers, in whatever way they are written: inequalities, set builders, all numbers but some."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from agon_env.verifiers.brackets import group, split, top_level
from agon_env.verifiers.exact import read_number
from agon_env.verifiers.expression import GREEK

RELATION = re.compile(r"\\(?:le|ge|ne|in)(?![A-Za-z])|[<>=]")
FLIPPED = {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le", "=": "=", r"\ne": r"\ne"}
REALS = r"(-\infty,\infty)"

_LETTER = re.compile(rf"(?!\\pi\b|\\infty\b|[ei]$)(?:[A-Za-z]|\\(?:{'|'.join(sorted(GREEK))})\b)(?:_\w|_\{{\w+\}})?")
_BUILDER = re.compile(
    rf"\\\{{\s*(?P<letter>[A-Za-z])\s*(?:\\in\s*{re.escape(REALS)})?\s*[:|]\s*(?P<condition>.*)\\\}}", re.DOTALL
)
_WITHOUT = re.compile(rf"{re.escape(REALS)}\s*(?:\\setminus|-)\s*\\\{{(?P<points>.*)\\\}}")
OR = re.compile(r"\\text\s*\{\s*,?\s*or\s*\}|(?<![A-Za-z\\])or(?![A-Za-z])|\\(?:lor|vee)(?![A-Za-z])")
_AND = re.compile(r"\\text\s*\{\s*,?\s*and\s*\}|(?<![A-Za-z\\])and(?![A-Za-z])|\\(?:land|wedge)(?![A-Za-z])")


@dataclass(frozen=True)
class Range:
    """A set of real numbers."""

    letter: str
    """The name of its members, "" if none is given."""
    intervals: str
    """The set as an interval or a union of intervals."""


def read_range(text: str) -> Range | None:
    """Return the set that a condition on one letter describes, None if the text is no such condition."""
    text = text.strip()
    if found := _BUILDER.fullmatch(text):
        inner = read_range(found["condition"])
        return inner if inner and inner.letter == found["letter"] else None
    if found := _WITHOUT.fullmatch(text):
        return _all_but("", split(found["points"], re.compile(",")))
    sides, signs = chain(text)
    if signs in ([r"\in"], ["="]) and _LETTER.fullmatch(sides[0]):
        inner = read_range(sides[1])
        found_group = group(sides[1])
        if inner is None and found_group and (found_group[0] == "union" or found_group[0] in ("(]", "[)") or signs == [r"\in"]):
            inner = None if found_group[0] == r"\{\}" else Range("", sides[1])
        return Range(sides[0], inner.intervals) if inner and not inner.letter else None
    if len(parts := split(text, OR)) > 1:
        return _union([read_range(part) for part in parts])
    if len(parts := split(text, _AND)) > 1:
        return _intersection([read_range(part) for part in parts])
    if signs == [r"\ne"] and _LETTER.fullmatch(sides[0]):
        return _all_but(sides[0], split(sides[1], re.compile(",")))
    return _interval(sides, signs)


def chain(text: str) -> tuple[list[str], list[str]]:
    """Split `a < b = c` into its sides and its signs."""
    sides = split(text, RELATION)
    signs = [sign[0] for sign in top_level(text, RELATION)]
    return (sides, signs) if len(signs) == len(sides) - 1 else ([text], [])


def _interval(sides: list[str], signs: list[str]) -> Range | None:
    if signs and signs[0] in (">", r"\ge"):
        sides, signs = sides[::-1], [FLIPPED.get(sign, "") for sign in signs[::-1]]
    if not signs or any(sign not in ("<", r"\le") for sign in signs):
        return None
    letters = [i for i, side in enumerate(sides) if _LETTER.fullmatch(side)]
    if len(sides) == 3 and letters == [1]:
        low, high, left, right = sides[0], sides[2], signs[0], signs[1]
    elif len(sides) == 2 and letters == [0]:
        low, high, left, right = r"-\infty", sides[1], "<", signs[0]
    elif len(sides) == 2 and letters == [1]:
        low, high, left, right = sides[0], r"\infty", signs[0], "<"
    else:
        return None
    return Range(sides[letters[0]], f"{'(' if left == '<' else '['}{low},{high}{')' if right == '<' else ']'}")


def _all_but(letter: str, points: list[str]) -> Range | None:
    values = [read_number(point) for point in points]
    if not points or (len(points) > 1 and None in values):
        return None
    ordered = (
        points if len(points) == 1 else [p for _, p in sorted(zip(values, points, strict=True), key=lambda pair: pair[0] or 0)]
    )
    ends = [r"-\infty", *ordered, r"\infty"]
    return Range(letter, r"\cup".join(f"({low},{high})" for low, high in itertools.pairwise(ends)))


def _union(parts: list[Range | None]) -> Range | None:
    known = [part for part in parts if part]
    if len(known) < len(parts) or len({part.letter for part in known}) > 1:
        return None
    return Range(known[0].letter, r"\cup".join(part.intervals for part in known))


def _intersection(parts: list[Range | None]) -> Range | None:
    """Join a lower and an upper bound."""
    known = [part for part in parts if part]
    if len(parts) != 2 or len(known) < 2 or known[0].letter != known[1].letter:
        return None
    ends = [split(part.intervals[1:-1], re.compile(",")) for part in known]
    for (low, lower), (high, upper) in (zip(ends, known, strict=True), zip(ends[::-1], known[::-1], strict=True)):
        if len(low) == len(high) == 2 and low[1] == r"\infty" and high[0] == r"-\infty":
            return Range(lower.letter, f"{lower.intervals[0]}{low[0]},{high[1]}{upper.intervals[-1]}")
    return None
