r"""Are two answers the same? Sets, tuples, intervals, lists, relations and matrices are taken apart down to formulas.

| written                        | compared                                             |
|--------------------------------|------------------------------------------------------|
| `\{1, 2\}`, `1, 2`, `1 or 2`, `\pm 1` | every value and no more, in any order         |
| `(1, 2)`, `[0, 1)`             | in order, with the brackets                          |
| `(0,1) \cup (2,3)`             | every part, in any order                             |
| `x = 5`                        | as 5; two names must agree                           |
| `2x + 3y = 6`, `x < 3`, `0<x<1`| up to a factor; an inequality also as an interval    |
| a matrix                       | entry by entry                                       |
| words, single capital letters  | as text                                              |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from agon_env.verifiers.exact import read_quantity, split_unit
from agon_env.verifiers.expression import Expr, parse, rational_value, symbols
from agon_env.verifiers.latex import normalise, spelling

Compare = Callable[[str, Expr, Expr], bool]
"""`(relation, gold, answer)`: decides "equal", "proportional" or "positive" between two formulas."""

_YES, _NO = {"yes", "true"}, {"no", "false"}
_WORDS = re.compile(r"[A-Za-z][A-Za-z' -]*")
_MATRIX = re.compile(r"\\begin\s*\{([pbvBV]?matrix|array|smallmatrix)\}\s*(?:\{[lcr| ]*\})?(.*)\\end\s*\{\1\}", re.DOTALL)
_CONNECTOR = re.compile(r"\\text\s*\{\s*,?\s*(?:and|or)\s*\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])|;")
_LEADING_NAME = re.compile(r"(?:\\?[A-Za-z]+(?:_\w|_\{\w+\})?'?|[A-Za-z]\([A-Za-z, ]+\)|\([A-Za-z](?:,\s*[A-Za-z])*\))")
_RELATION = re.compile(r"\\(?:le|ge|ne|in)(?![A-Za-z])|[<>=]")
_FLIPPED = {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le", "=": "=", r"\ne": r"\ne"}
_REALS = r"(-\infty,\infty)"


def same(gold: str, answer: str, compare: Compare) -> bool:
    """Return whether `answer` is the answer that `gold` names; both as they were written."""
    return _same(normalise(gold), normalise(answer), compare, 0)


def _same(gold: str, answer: str, compare: Compare, depth: int) -> bool:
    if not gold or not answer or depth > 8:
        return False
    if spelling(gold) == spelling(answer):
        return True
    if (words := _words(gold)) or _words(answer):
        return bool(words) and words == _words(answer)
    if re.fullmatch(r"[A-Z]", gold):
        return re.fullmatch(r"\(?([A-Z])\)?", answer) is not None and answer.strip("()") == gold
    quantities = read_quantity(gold), read_quantity(answer)
    if quantities[0] and quantities[1]:
        return quantities[1].agrees(quantities[0])
    (gold_value, gold_unit), (answer_value, answer_unit) = split_unit(gold), split_unit(answer)
    if gold_unit or answer_unit:
        understood = gold_unit == answer_unit or not (gold_unit and answer_unit)
        return understood and _same(gold_value, answer_value, compare, depth + 1)
    gold, answer = _renamed(gold), _renamed(answer)
    inner = [_plus_minus(gold), _plus_minus(answer)]
    if any(len(parts) > 1 for parts in inner):
        return _unordered(inner[0], inner[1], compare, depth)
    if (matrices := (_matrix(gold), _matrix(answer))) != (None, None):
        return _grid(matrices[0], matrices[1], compare, depth)
    if (related := _relations(gold, answer, compare, depth)) is not None:
        return related
    groups = _group(gold), _group(answer)
    if groups[0] or groups[1]:
        return bool(groups[0] and groups[1]) and _same_groups(groups[0], groups[1], compare, depth)  # type: ignore[arg-type]
    return _same_formula("equal", gold, answer, compare)


def _words(text: str) -> str:
    """Return a spelling for an answer in words, "" if it is not one."""
    plain = text.replace(r"\text", "").strip("{} ")
    if not _WORDS.fullmatch(plain):
        return ""
    plain = " ".join(plain.lower().split())
    if plain in _YES | _NO:
        return "yes" if plain in _YES else "no"
    # "xy" is a product; "converges" and "not 14" are words
    return plain if len(max(plain.split(), key=len)) > 3 or r"\text" in text else ""


def _renamed(text: str) -> str:
    text = re.sub(r"\\(?:emptyset)(?![A-Za-z])", r"\\{\\}", text)
    return re.sub(r"\\(?:mathbb|mathbf)\s*\{?R\}?(?![A-Za-z_^])", lambda _: _REALS, text)


def _plus_minus(text: str) -> list[str]:
    """Split alternatives: a list at the top level, and both signs of ±."""
    parts = [part for piece in _split(text, _CONNECTOR) for part in _split(piece, re.compile(","))]
    signed: list[str] = []
    for part in parts:
        if r"\pm" in part:
            signed += [re.sub(r"\\pm(?![A-Za-z])", sign, part).strip().removeprefix("+") for sign in "+-"]
        else:
            signed.append(part)
    # "x = 1, 2" names the values of x
    name = signed[0].split("=")[0].strip() if signed and signed[0].count("=") == 1 else ""
    if len(signed) > 1 and _LEADING_NAME.fullmatch(name) and not any(_RELATION.search(part) for part in signed[1:]):
        signed[1:] = [f"{name}={part}" for part in signed[1:]]
    return signed


def _split(text: str, separator: re.Pattern[str]) -> list[str]:
    """Split outside of all brackets; no empty parts."""
    parts, depth, start, position = [], 0, 0, 0
    while position < len(text):
        if text[position] in "([{":
            depth += 1
        elif text[position] in ")]}":
            depth -= 1
        elif depth == 0 and (found := separator.match(text, position)) and found.end() > position:
            parts.append(text[start:position])
            start = position = found.end()
            continue
        position += 1
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]


def _unordered(gold: Sequence[str], answer: Sequence[str], compare: Compare, depth: int) -> bool:
    """Match two lists without regard to order; equality is transitive, so the first match is as good as any."""
    left = list(answer)
    if len(gold) != len(left):
        return False
    for wanted in gold:
        match = next((i for i, part in enumerate(left) if _same(wanted, part, compare, depth + 1)), None)
        if match is None:
            return False
        del left[match]
    return True


def _matrix(text: str) -> list[list[str]] | None:
    found = _MATRIX.fullmatch(text.strip())
    if not found:
        return None
    rows = [row for row in re.split(r"\\\\", found[2]) if row.strip()]
    return [[cell.strip() for cell in row.split("&")] for row in rows]


def _grid(gold: list[list[str]] | None, answer: list[list[str]] | None, compare: Compare, depth: int) -> bool:
    if gold is None or answer is None or [len(row) for row in gold] != [len(row) for row in answer]:
        return False
    return all(
        _same(a, b, compare, depth + 1)
        for row, other in zip(gold, answer, strict=True)
        for a, b in zip(row, other, strict=True)
    )


def _group(text: str) -> tuple[str, list[str]] | None:
    """Return the brackets and the parts of a set, tuple, interval or union; None for a formula."""
    text = text.strip()
    if len(parts := _split(text, re.compile(r"\\cup(?![A-Za-z])"))) > 1:
        return "union", parts
    opening, closing = (r"\{", r"\}") if text.startswith(r"\{") else (text[:1], text[-1:])
    if not (text.startswith(opening) and text.endswith(closing)) or opening + closing not in (r"\{\}", "()", "[]", "(]", "[)"):
        return None
    inside = text[len(opening) : -len(closing)]
    if not _balanced(inside):
        return None
    parts = _split(inside, re.compile(","))
    if opening + closing != r"\{\}" and len(parts) < 2:
        return None
    return opening + closing, parts


def _balanced(text: str) -> bool:
    depth = 0
    for sign in text:
        depth += (sign in "([{") - (sign in ")]}")
        if depth < 0:
            return False
    return depth == 0


def _same_groups(gold: tuple[str, list[str]], answer: tuple[str, list[str]], compare: Compare, depth: int) -> bool:
    if gold[0] != answer[0]:
        return False
    if gold[0] in (r"\{\}", "union"):
        mine, theirs = ([*{spelling(part): part for part in parts}.values()] for parts in (_signs(gold[1]), _signs(answer[1])))
        return _unordered(mine, theirs, compare, depth)
    return len(gold[1]) == len(answer[1]) and all(
        _same(a, b, compare, depth + 1) for a, b in zip(gold[1], answer[1], strict=True)
    )


def _signs(parts: Sequence[str]) -> list[str]:
    return [signed for part in parts for signed in _plus_minus(part)]


def _relations(gold: str, answer: str, compare: Compare, depth: int) -> bool | None:
    """Compare equations and inequalities; None when neither text is one."""
    chains = _chain(gold), _chain(answer)
    if len(chains[0][0]) == 1 and len(chains[1][0]) == 1:
        return None
    (gold_sides, gold_signs), (answer_sides, answer_signs) = chains
    if set(gold_signs) | set(answer_signs) <= {"=", r"\in"}:
        return _same_equations(gold_sides, answer_sides, compare, depth)
    intervals = [
        _interval(*chain) or (text if len(chain[0]) == 1 else None) for chain, text in zip(chains, (gold, answer), strict=True)
    ]
    if intervals[0] and intervals[1] and (_group(intervals[0]) or _group(intervals[1])):
        return spelling(intervals[0]) == spelling(intervals[1]) or _same(intervals[0], intervals[1], compare, depth + 1)
    if len(gold_sides) != len(answer_sides) or len(gold_sides) == 1:
        return False
    return any(
        all(
            _same_relation(gold_sides[i : i + 2], sign, sides[i : i + 2], signs[i], compare)
            for i, sign in enumerate(gold_signs)
        )
        for sides, signs in (
            (answer_sides, answer_signs),
            (answer_sides[::-1], [_FLIPPED.get(sign, "") for sign in answer_signs[::-1]]),
        )
    )


def _chain(text: str) -> tuple[list[str], list[str]]:
    """Split `a < b = c` into its sides and its signs."""
    sides = _split(text, _RELATION)
    signs = [sign[0] for sign in _RELATION.finditer(text)]
    return (sides, signs) if len(signs) == len(sides) - 1 else ([text], [])


def _same_equations(gold: list[str], answer: list[str], compare: Compare, depth: int) -> bool:
    names = [
        sides[0].replace(" ", "") if len(sides) > 1 and _LEADING_NAME.fullmatch(sides[0]) else "" for sides in (gold, answer)
    ]
    values = [sides[1:] if name else sides for sides, name in zip((gold, answer), names, strict=True)]
    if len(values[0]) == 1 and not (names[0] and names[1] and names[0] != names[1]):
        # every step of the answer's chain must be the value: "7·2 = 14" is 14, "13 = 14" is nothing
        if all(_same(values[0][0], value, compare, depth + 1) for value in values[1]):
            return True
        if read_quantity(values[0][0]):  # "2x = 10" is not yet "x = 5"
            return False
    return len(gold) == len(answer) == 2 and _same_relation(gold, "=", answer, "=", compare)


def _same_relation(gold: list[str], gold_sign: str, answer: list[str], answer_sign: str, compare: Compare) -> bool:
    if gold_sign != answer_sign or len(gold) != 2 or len(answer) != 2:
        return False
    relation = "proportional" if gold_sign in ("=", r"\ne") else "positive"
    differences = [f"({sides[0]})-({sides[1]})" for sides in (gold, answer)]
    return _same_formula(relation, differences[0], differences[1], compare)


def _interval(sides: list[str], signs: list[str]) -> str | None:
    """Return the interval that an inequality about one letter describes, None if it is none."""
    if signs and signs[0] in (">", r"\ge"):
        sides, signs = sides[::-1], [_FLIPPED.get(sign, "") for sign in signs[::-1]]
    if not signs or any(sign not in ("<", r"\le") for sign in signs):
        return None
    letters = [i for i, side in enumerate(sides) if re.fullmatch(r"[A-Za-z]|\\[a-z]+", side) and side != r"\pi"]
    if len(sides) == 3 and letters == [1]:
        low, high, left, right = sides[0], sides[2], signs[0], signs[1]
    elif len(sides) == 2 and letters == [0]:
        low, high, left, right = r"-\infty", sides[1], "<", signs[0]
    elif len(sides) == 2 and letters == [1]:
        low, high, left, right = sides[0], r"\infty", signs[0], "<"
    else:
        return None
    return f"{'(' if left == '<' else '['}{low},{high}{')' if right == '<' else ']'}"


def _same_formula(relation: str, gold: str, answer: str, compare: Compare) -> bool:
    """Compare two formulas: exactly where both are rational, else by `compare`."""
    try:
        expressions = parse(gold), parse(answer)
        if symbols(expressions[0]) != symbols(expressions[1]):
            return False
        values = [rational_value(expression) for expression in expressions]
    except (ValueError, RecursionError):  # not a formula, or one too large to work out
        return False
    if relation == "equal" and values[0] is not None and values[1] is not None:
        return values[0] == values[1]
    return compare(relation, expressions[0], expressions[1])
