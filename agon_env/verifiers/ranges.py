"""Sets of real numbers, in whatever way they are written: inequalities, set builders, all numbers but some."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agon_env.verifiers.brackets import group, split, top_level
from agon_env.verifiers.spans import Cuts, common, either, outside, read_cuts, spelled
from agon_env.verifiers.tokens import GREEK

RELATION = re.compile(r"\\(?:le|ge|ne|in)(?![A-Za-z])|[<>=]")
FLIPPED = {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le", "=": "=", r"\ne": r"\ne"}
REALS = r"(-\infty,\infty)"

_LETTER = re.compile(rf"(?!\\pi\b|\\infty\b|[ei]$)(?:[A-Za-z]|\\(?:{'|'.join(sorted(GREEK))})\b)(?:_\w|_\{{\w+\}})?")
_BUILDER = re.compile(
    rf"\\\{{\s*(?P<letter>[A-Za-z])\s*(?:\\in\s*{re.escape(REALS)})?\s*[:|]\s*(?P<condition>.*)\\\}}", re.DOTALL
)
_WITHOUT = re.compile(r"(?P<set>.*[)\]}])\s*\\setminus\s*(?P<points>[(\[\\].*)|(?P<reals>.*)-\s*(?P<less>\\\{.*)", re.DOTALL)
OR = re.compile(r"\\text\s*\{\s*,?\s*or\s*\}|(?<![A-Za-z\\])or(?![A-Za-z])|\\(?:lor|vee)(?![A-Za-z])")
_AND = re.compile(r"\\text\s*\{\s*,?\s*and\s*\}|(?<![A-Za-z\\])and(?![A-Za-z])|\\(?:land|wedge)(?![A-Za-z])|[,;]")
_DISTANCE = re.compile(
    r"\|\s*(?P<letter>(?![wzei])[a-z])\s*(?:(?P<sign>[-+])(?P<centre>[^-+|]*))?\|\s*(?P<relation>\\le(?![A-Za-z])|\\ge(?![A-Za-z])|[<>])(?P<radius>[^<>=|]*)"
)
"""How far a real number is from another; the moduli of complex ones, by custom z and w, are none."""


@dataclass(frozen=True)
class Range:
    """A set of real numbers."""

    letter: str
    """The name of its members, "" if none is given."""
    intervals: str
    """The set as an interval or a union of intervals."""

    @property
    def cuts(self) -> Cuts | None:
        """Where the set begins and ends, None if that has no known order."""
        return read_cuts(self.intervals)


def read_range(text: str) -> Range | None:
    """Return the set that a condition on one letter describes, None if the text is no such condition."""
    text = text.strip()
    if found := _BUILDER.fullmatch(text):
        inner = read_range(found["condition"])
        return inner if inner and inner.letter == found["letter"] else None
    if found := _WITHOUT.fullmatch(text):
        return _without((found["set"] or found["reals"]).strip(), (found["points"] or found["less"]).strip())
    if (found := _DISTANCE.fullmatch(text)) and (near := _near(found)):
        return near
    sides, signs = chain(text)
    if signs in ([r"\in"], ["="]) and _LETTER.fullmatch(sides[0]):
        inner = read_range(sides[1])
        found_group = group(sides[1])
        if inner is None and found_group and (found_group[0] == "union" or found_group[0] in ("(]", "[)") or signs == [r"\in"]):
            inner = None if found_group[0] == r"\{\}" else Range("", sides[1])
        return Range(sides[0], inner.intervals) if inner and not inner.letter else None
    if len(parts := split(text, OR)) > 1:
        return _union([read_range(part) or _point(part) for part in parts]) if any(map(read_range, parts)) else None
    if signs == [r"\ne"] and _LETTER.fullmatch(sides[0]):
        return _all_but(sides[0], sides[1])
    if len(parts := split(text, _AND)) > 1:
        return _intersection(parts, text)
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


def _near(found: re.Match[str]) -> Range | None:
    r"""Read `|x - 2| \le 3` as [-1, 5], and `|x| > 3` as all that is further off."""
    centre = f"{'-' if found['sign'] == '+' else ''}({found['centre'] or 0})"
    closed = found["relation"] in (r"\le", ">")
    ends = [f"{centre}{sign}({found['radius'].strip()})" for sign in "-+"]
    cuts = read_cuts(f"{'[' if closed else '('}{','.join(ends)}{']' if closed else ')'}")
    if cuts is None:
        return None
    return _range(found["letter"], cuts if found["relation"] in (r"\le", "<") else outside(cuts))


def _without(whole: str, taken: str) -> Range | None:
    inner = read_range(whole) or Range("", whole)
    points = read_cuts(taken)
    if points is None and whole == REALS and taken.startswith(r"\{"):
        return _all_but("", taken[2:-2])
    return None if inner.letter else _range("", common(inner.cuts, outside(points)))


def _point(text: str) -> Range | None:
    sides, signs = chain(text)
    return Range(sides[0], rf"\{{{sides[1]}\}}") if signs == ["="] and _LETTER.fullmatch(sides[0]) else None


def _all_but(letter: str, points: str) -> Range | None:
    points = re.sub(r"\\pm(?![A-Za-z])([^,]*)", r"\1,-(\1)", points)
    if known := _range(letter, outside(read_cuts(rf"\{{{points}\}}"))):
        return known
    return Range(letter, rf"(-\infty,{points})\cup({points},\infty)") if len(split(points, re.compile(","))) == 1 else None


def _range(letter: str, cuts: Cuts | None) -> Range | None:
    return None if cuts is None else Range(letter, spelled(cuts))


def _union(parts: list[Range | None]) -> Range | None:
    known = [part for part in parts if part]
    if len(known) < len(parts) or len({part.letter for part in known}) > 1:
        return None
    joined = either(*(part.cuts for part in known))
    return _range(known[0].letter, joined) or Range(known[0].letter, r"\cup".join(part.intervals for part in known))


def _intersection(parts: list[str], text: str) -> Range | None:
    """Join conditions that hold together; with only commas between, `x < 1, x > 2` means either, as nothing is both."""
    known = [found for part in parts if (found := read_range(part))]
    if len(known) < len(parts) or len({part.letter for part in known}) > 1 or not known[0].letter:
        return None
    shared = common(*(part.cuts for part in known))
    if shared == () and not re.search(r"and|\\land|\\wedge", text):
        return _union([*known])
    if shared is not None:
        return _range(known[0].letter, shared)
    ends = [split(part.intervals[1:-1], re.compile(",")) for part in known]
    for (low, lower), (high, upper) in (
        (zip(ends, known, strict=True), zip(ends[::-1], known[::-1], strict=True)) if len(known) == 2 else ()
    ):
        if len(low) == len(high) == 2 and low[1] == r"\infty" and high[0] == r"-\infty":
            return Range(lower.letter, f"{lower.intervals[0]}{low[0]},{high[1]}{upper.intervals[-1]}")
    return None
