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

import itertools
import re
from collections.abc import Callable, Sequence
from fractions import Fraction

from agon_env.verifiers.brackets import group, split, top_level
from agon_env.verifiers.constants import with_constant_of
from agon_env.verifiers.exact import read_number, read_quantity, split_unit
from agon_env.verifiers.expression import Expr, parse, rational_value, symbols
from agon_env.verifiers.integers import read_congruence, without_parameter
from agon_env.verifiers.latex import normalise, spelling
from agon_env.verifiers.matrices import Matrix, read_matrix
from agon_env.verifiers.measures import in_one_unit, measured
from agon_env.verifiers.numerals import meets_numeral, meets_ratio
from agon_env.verifiers.ranges import FLIPPED, OR, REALS, RELATION, chain, read_range
from agon_env.verifiers.tokens import GREEK
from agon_env.verifiers.units import read_unit
from agon_env.verifiers.words import DENIALS, read_words, same_words

Compare = Callable[[str, Expr, Expr], bool]
"""`(relation, gold, answer)`: decides "equal", "proportional" or "positive" between two formulas."""

_CONNECTOR = re.compile(rf"\\text\s*\{{\s*,?\s*and\s*\}}|(?<![A-Za-z\\])and(?![A-Za-z])|;|{OR.pattern}")
_COMMA = re.compile(",")
_APPROX = re.compile(r"\\approx(?![A-Za-z])")
_LETTER_UNIT = re.compile(r"(\d[\d.,]*)\s*([A-Za-z])")
_PLUS_MINUS = re.compile(r"\\pm(?![A-Za-z])")
_MINUS_PLUS = re.compile(r"\\mp(?![A-Za-z])")
_INDEX = r"(?:_\w|_\{\w+\})"
_NO_NAME = r"\\(?:pi|infty|emptyset)$|[ei]$"
_SYMBOL = rf"(?:[A-Za-z]+|\\(?:{'|'.join(sorted(GREEK))}|ell)(?![A-Za-z])){_INDEX}?'*"
_LEADING_NAME = re.compile(
    rf"(?!{_NO_NAME})(?:{_SYMBOL}(?:\([^()]*\))?|\([A-Za-z](?:,\s*[A-Za-z])*\)"
    rf"|\\text\s*\{{(?![^{{}}]*\b(?i:{DENIALS})\b)[A-Za-z ]+\}}"
    r"|m?\\angle\s*[A-Z]+|\|\s*[A-Z]{2}\s*\||\\overline\s*\{\s*[A-Z]{2}\s*\}|\[[A-Z]{3,6}\])"
)
"""What an equation may give the value of: `x`, `x_1`, `f(3)`, `(x, y)`, a word, an angle, a length, an area; no constant."""


def same(gold: str, answer: str, compare: Compare) -> bool:
    """Return whether `answer` is the answer that `gold` names; both as they were written."""
    return _same(normalise(gold), normalise(answer), compare, 0)


def _same(gold: str, answer: str, compare: Compare, depth: int) -> bool:
    if not gold or not answer or depth > 8:
        return False
    if spelling(gold) == spelling(answer):
        return True
    if (text := same_words(gold, answer)) is not None:
        return text
    if depth == 0 and (meets_numeral(gold, answer) or meets_ratio(gold, answer)):  # not of a part, or beside a unit
        return True
    if r"\approx" in answer and r"\approx" not in gold:
        return _same_rounded(gold, answer, compare, depth)
    if (congruences := (read_congruence(gold), read_congruence(answer))) and congruences[0] and congruences[1]:
        return congruences[0] == congruences[1]
    gold, answer = without_parameter(*_with_unit(gold, answer))
    values = _value(gold), _value(answer)
    if (gold not in values and answer not in values) or r"\in" in gold + answer:
        values = gold, answer  # two names may differ, and a number has no members
    if amounts := in_one_unit(*values):
        return _same_formula("equal", *amounts, compare)
    quantities = read_quantity(values[0]), read_quantity(values[1])
    if quantities[0] and quantities[1]:
        return quantities[1].agrees(quantities[0])
    # the commas of a number group its digits
    gold, answer = (text.replace(",", "") if found else text for text, found in zip((gold, answer), quantities, strict=True))
    (gold_value, gold_unit), (answer_value, answer_unit) = split_unit(gold), split_unit(answer)
    if (gold_unit or answer_unit) and max(len(_units(_plus_minus(text))) for text in (gold, answer)) < 2:
        understood = gold_unit == answer_unit or not answer_unit or (not gold_unit and answer_unit != "%")
        return understood and _same(gold_value, answer_value, compare, depth + 1)
    gold, answer = _renamed(gold), _renamed(answer)
    if (ranges := _same_ranges(gold, answer, compare, depth)) is not None:
        return ranges
    if (listed := _same_lists(gold, answer, compare, depth)) is not None:
        return listed
    named = [
        text.partition("=")[0].strip() for text in (gold, answer) if read_matrix(text) is None and read_matrix(_value(text))
    ]
    if len({*named}) == 1:
        gold, answer = _value(gold), _value(answer)
    if (matrices := (read_matrix(gold), read_matrix(answer))) != (None, None):
        return bool(matrices[0] and matrices[1]) and _same_matrices(matrices[0], matrices[1], compare, depth)  # type: ignore[arg-type]
    if (related := _relations(gold, answer, compare, depth)) is not None:
        return related
    groups = group(gold), group(answer)
    if groups[0] or groups[1]:
        return bool(groups[0] and groups[1]) and _same_groups(groups[0], groups[1], compare, depth)  # type: ignore[arg-type]
    return _same_formula("equal", gold, answer, compare)


def _same_rounded(gold: str, answer: str, compare: Compare, depth: int) -> bool:
    r"""Compare `\sqrt{2} \approx 1.41` as the exact value that it states; the decimal must be near to that."""
    signs = [*top_level(answer, _APPROX)]
    if len(signs) != 1:
        return False
    exact, rounded = answer[: signs[0].start()].strip(), answer[signs[0].end() :]
    value, shown = split_unit(_value(exact))[0], split_unit(rounded.strip())[0]
    places = len(shown.partition(".")[2])
    # cut off, perhaps, where there are some places to cut off at
    tolerance = Fraction(1, 10**places if places > 1 else 2 * 10**places)
    return _same(gold, exact, compare, depth + 1) and read_number(shown) is not None and near(value, shown, tolerance, compare)


def near(gold: str, answer: str, tolerance: Fraction, compare: Compare) -> bool:
    """Return whether two formulas without symbols are at most `tolerance` apart."""
    numbers = read_number(gold), read_number(answer)
    if numbers[0] is not None and numbers[1] is not None:
        return abs(numbers[0] - numbers[1]) <= tolerance
    try:
        expressions = parse(gold), parse(answer)
    except (ValueError, RecursionError):
        return False
    if symbols(expressions[0]) | symbols(expressions[1]):
        return False
    return compare("within", ("pair", expressions[0], ("num", str(tolerance))), expressions[1])


def _with_unit(gold: str, answer: str) -> tuple[str, str]:
    """Spell "3 h" out as a quantity where the other side has that unit, or one of its kind."""
    units = split_unit(gold)[1], split_unit(answer)[1]
    return (_in_unit(gold, units[1]) if not units[0] else gold), (_in_unit(answer, units[0]) if not units[1] else answer)


def _in_unit(text: str, unit: str) -> str:
    found = _LETTER_UNIT.fullmatch(text)
    letter = read_unit(found[2], "") if found else ""
    return rf"{found[1]} \text{{{found[2]}}}" if found and letter and measured(letter) == measured(unit) else text


def _renamed(text: str) -> str:
    text = {"empty set": r"\{\}", "all real numbers": REALS}.get(read_words(text), text)
    text = re.sub(r"\\emptyset(?![A-Za-z])", r"\\{\\}", text)
    text = re.sub(r"\\mathbb\s*\{R\}(?![A-Za-z_^])", lambda _: REALS, text)
    if found := re.fullmatch(r"([\[\](])([^\[\]()]*,[^\[\]()]*)([\[\])])", text):  # ]a, b[ is (a, b)
        opening, inside, closing = found.groups()
        return {"]": "("}.get(opening, opening) + inside + {"[": ")"}.get(closing, closing)
    return text


def _same_ranges(gold: str, answer: str, compare: Compare, depth: int) -> bool | None:
    """Compare sets of real numbers of which one at least is written as a condition; None where that does not fit."""
    ranges = read_range(gold), read_range(answer)
    if ranges == (None, None):
        return None
    letters = {found.letter for found in ranges if found and found.letter}
    groups = [group(found.intervals if found else text) for found, text in zip(ranges, (gold, answer), strict=True)]
    if not groups[0] or not groups[1]:
        return None
    return len(letters) < 2 and _same_groups(groups[0], groups[1], compare, depth)


def _same_lists(gold: str, answer: str, compare: Compare, depth: int) -> bool | None:
    """Compare answers of which one at least names several values; None when neither does."""
    parts = [_plus_minus(gold), _plus_minus(answer)]
    if all(len(each) == 1 for each in parts):
        return None
    if not all(parts):
        return False  # a lone "or"
    parts = [_spread(each) for each in parts]
    names = [_names(each) for each in parts]
    for i, text in enumerate((gold, answer)):
        if len(parts[i]) > 1:
            continue
        found = group(_value(text))
        if found and found[0] == r"\{\}":
            parts[i] = _signs(found[1])
        elif found and found[0] == "()" and len(names[1 - i]) > 1 and len(found[1]) == len(parts[1 - i]):
            # "x = 3, y = -4" is the pair (3, -4)
            ordered = [part.split("=", 1)[1] for _, part in sorted(zip(_all_names(parts[1 - i]), parts[1 - i], strict=True))]
            if "=" in text and (named := group(text.partition("=")[0])):
                if {*named[1]} != names[1 - i]:
                    return False
                found = found[0], [part for _, part in sorted(zip(named[1], found[1], strict=True))]
            pairs = (found[1], ordered) if i == 0 else (ordered, found[1])
            return all(_same(a, b, compare, depth + 1) for a, b in zip(*pairs, strict=True))
    if len({any(top_level(text, OR)) for text in (gold, answer)}) > 1 and (
        max(map(len, names)) > 1 or any(_is_claim(part) for each in parts for part in each)
    ):
        return False  # "x = 2 or y = 3" is no pair, and "A or B" is not both
    if any(len(mine) > 1 and not theirs for mine, theirs in (names, names[::-1])):
        return False  # which value belongs to which name?
    units = [_units(each) for each in parts]
    if max(map(len, units)) > 1 and units[0] != units[1]:
        return False  # "9 chickens and 21 rabbits": which value counts what?
    if len(names[0]) == 1 and {*_all_names(parts[0])} == names[0] == names[1] and len(parts[0]) > 1:
        # "x = 1 or x = 3" may be told as "x_1 = 1, x_2 = 3"
        indexed = _all_names(parts[1])
        if len({*indexed}) == len(indexed):
            parts = [[_value(part) for part in each] for each in parts]
    return _unordered(parts[0], parts[1], compare, depth)


def _spread(parts: list[str]) -> list[str]:
    """Return `a = 0, b = 0` for `a = b = 0`."""
    sides, signs = chain(parts[0])
    if len(parts) == 1 and len(sides) > 2 and {*signs} == {"="} and all(map(_LEADING_NAME.fullmatch, sides[:-1])):
        return [f"{name}={sides[-1]}" for name in sides[:-1]]
    return parts


def _is_claim(part: str) -> bool:
    """Return whether a part of a list is no value: an inequality, a word, the letter of a choice."""
    return bool({*chain(part)[1]} - {"=", r"\in"} or read_words(part) or re.fullmatch(r"\(?[A-Z]\)?", part))


def _all_names(parts: Sequence[str]) -> list[str]:
    """Return the name in front of the "=" of each part; [] unless every part has one."""
    sides = [part.split("=") for part in parts]
    names = [each[0].strip() for each in sides if len(each) == 2 and _LEADING_NAME.fullmatch(each[0].strip())]
    return names if len(names) == len(parts) else []


def _names(parts: Sequence[str]) -> set[str]:
    """Return the names that the parts give values to; the indices of roots do not tell names apart."""
    return {re.sub(rf"{_INDEX}$", "", name) for name in _all_names(parts)}


def _units(parts: Sequence[str]) -> set[str]:
    return {split_unit(part)[1] for part in parts} - {""}


def _value(text: str) -> str:
    r"""Return what follows `x =` or `x \in`, or the text itself."""
    sides, signs = chain(text)
    return sides[1] if signs in (["="], [r"\in"]) and _LEADING_NAME.fullmatch(sides[0]) else text


def _plus_minus(text: str) -> list[str]:
    """Split alternatives: a list at the top level, and both signs of ±."""
    parts = [part for piece in split(text, _CONNECTOR) for part in split(piece, _COMMA)]
    signed: list[str] = []
    for part in parts:
        # in "x = \pm 1, y = \mp 1" the signs of two parts go together, which no list of values says
        opposite = len(parts) == 1 and _MINUS_PLUS.search(part)
        signs = len(_PLUS_MINUS.findall(part))
        if (signs or opposite) and not part.startswith(r"\{") and signs <= 3:
            # without a \mp, the signs of \pm a \pm b are chosen one by one
            for chosen in "+-" if opposite else itertools.product("+-", repeat=signs):
                one = part
                for sign in chosen * signs if opposite else chosen:
                    one = _PLUS_MINUS.sub(sign, one, count=1)
                signed.append(_MINUS_PLUS.sub("-" if chosen == "+" else "+", one).strip().removeprefix("+"))
        else:
            signed.append(part)
    # "x = 1, 2" names the values of x
    name = signed[0].split("=")[0].strip() if signed and signed[0].count("=") == 1 else ""
    if len(signed) > 1 and _LEADING_NAME.fullmatch(name) and not any(RELATION.search(part) for part in signed[1:]):
        signed[1:] = [f"{name}={part}" for part in signed[1:]]
    return signed


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


def _same_matrices(gold: Matrix, answer: Matrix, compare: Compare, depth: int) -> bool:
    return (gold.kind, gold.shape) == (answer.kind, answer.shape) and all(
        _same(a, b, compare, depth + 1) for a, b in zip(gold.cells, answer.cells, strict=True)
    )


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
    return [signed for part in parts for signed in _plus_minus(part) or [part]]


def _relations(gold: str, answer: str, compare: Compare, depth: int) -> bool | None:
    """Compare equations and inequalities; None when neither text is one."""
    (gold_sides, gold_signs), (answer_sides, answer_signs) = chain(gold), chain(answer)
    if not gold_signs and not answer_signs:
        return None
    if any(
        r"\in" in signs and (read_quantity(sides[0]) or read_quantity(sides[-1]))
        for sides, signs in (chain(gold), chain(answer))
    ):
        return False  # a number has no members and is given by none
    if set(gold_signs) | set(answer_signs) <= {"=", r"\in"}:
        members = r"\in" in gold_signs + answer_signs
        return _same_equations(gold_sides, answer_sides, compare, depth, is_symmetric=not members)
    if len(gold_sides) != len(answer_sides) or len(gold_sides) == 1:
        return False
    return any(
        all(
            _same_relation(gold_sides[i : i + 2], sign, sides[i : i + 2], signs[i], compare)
            for i, sign in enumerate(gold_signs)
        )
        for sides, signs in (
            (answer_sides, answer_signs),
            (answer_sides[::-1], [FLIPPED.get(sign, "") for sign in answer_signs[::-1]]),
        )
    )


def _same_equations(gold: list[str], answer: list[str], compare: Compare, depth: int, *, is_symmetric: bool) -> bool:
    gold, answer = (sides[::-1] if len(sides) == 2 and read_quantity(sides[0]) else sides for sides in (gold, answer))  # 5 = x
    names = [
        sides[0].replace(" ", "") if len(sides) > 1 and _LEADING_NAME.fullmatch(sides[0]) else "" for sides in (gold, answer)
    ]
    if len(gold) == len(answer) == 2 and not any(names) and re.fullmatch("[ei]", gold[0]):
        names = [sides[0] if sides[0] == gold[0] else "" for sides in (gold, answer)]  # what the gold names is no constant
    elif len(gold) == 2 and len(answer) == 1 and re.fullmatch("[ei]", gold[0]):
        names[0] = gold[0]
    if names[0] and not names[1] and len(answer) > 1 and all(map(read_quantity, answer)):
        return False  # "0 = 0" says nothing of y
    values = [sides[1:] if name else sides for sides, name in zip((gold, answer), names, strict=True)]
    if len(values[0]) == 1 and not (names[0] and names[1] and names[0] != names[1]):
        # every step of the answer's chain must be the value: "7·2 = 14" is 14, "13 = 14" is nothing
        if all(_same(values[0][0], value, compare, depth + 1) for value in values[1]):
            return True
        known = read_quantity(values[0][0])
        # "2x = 10" is not yet "x = 5", but "2y = 0" is the line y = 0
        if known and not (names[0] and known.value == 0 and "0" in answer):
            return False
    return is_symmetric and len(gold) == len(answer) == 2 and _same_relation(gold, "=", answer, "=", compare)


def _same_relation(gold: list[str], gold_sign: str, answer: list[str], answer_sign: str, compare: Compare) -> bool:
    if gold_sign != answer_sign or len(gold) != 2 or len(answer) != 2:
        return False
    relation = "proportional" if gold_sign in ("=", r"\ne") else "positive"
    differences = [f"({sides[0]})-({sides[1]})" for sides in (gold, answer)]
    return _same_formula(relation, differences[0], differences[1], compare)


def _same_formula(relation: str, gold: str, answer: str, compare: Compare) -> bool:
    """Compare two formulas: exactly where both are rational, else by `compare`."""
    try:
        expressions = parse(gold), parse(answer)
        if relation == "equal":
            expressions = expressions[0], with_constant_of(*expressions)
        if symbols(expressions[0]) != symbols(expressions[1]):
            return False
        values = [rational_value(expression) for expression in expressions]
    except (ValueError, RecursionError):  # not a formula, or one too large to work out
        return False
    if relation == "equal" and values[0] is not None and values[1] is not None:
        return values[0] == values[1]
    return compare(relation, expressions[0], expressions[1])
