"""Are two formulas equal? The part that needs sympy, and that may hang: it runs in a worker process alone.

Formulas come as the nested tuples of `agon_env.verifiers.expression`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath
import sympy

from agon_env.verifiers.expression import MAX_BITS, Expr, TooLarge, rational_value, symbols

DIGITS = 40
"""Digits to which values are compared at a point."""
PROOF_DIGITS = 1000
"""Digits of cancellation after which two constants that no proof tells apart count as equal; more where a part is tiny."""
MAX_PROOF_DIGITS = 20_000
"""Constants that would need more digits than these count as different."""
MAX_ARGUMENT = 10_000
"""Largest argument of a factorial, gamma or zeta function that is worked out."""
FACTORED_BITS = 64
"""Size of the numbers whose roots sympy may simplify, for which it factors them."""
MAX_DEGREE = 128
"""Largest degree of such roots."""
POINTS = 8
"""Points at which formulas with symbols are compared."""

_OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": sympy.Add, "mul": sympy.Mul, "pow": sympy.Pow, "binomial": sympy.binomial, "max": sympy.Max, "min": sympy.Min,
    "root": sympy.real_root,
}  # fmt: skip
_CONSTANTS = {"pi": sympy.pi, "e": sympy.E, "i": sympy.I}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sin": sympy.sin, "cos": sympy.cos, "tan": sympy.tan, "cot": sympy.cot, "sec": sympy.sec, "csc": sympy.csc,
    "sinh": sympy.sinh, "cosh": sympy.cosh, "tanh": sympy.tanh, "exp": sympy.exp, "ln": sympy.log, "arcsin": sympy.asin,
    "arccos": sympy.acos, "arctan": sympy.atan, "factorial": sympy.factorial, "abs": sympy.Abs, "floor": sympy.floor,
    "ceil": sympy.ceiling, "zeta": sympy.zeta, "Gamma": sympy.gamma, "arcsinh": sympy.asinh, "arccosh": sympy.acosh,
    "arctanh": sympy.atanh,
}  # fmt: skip

_PRIMES = (7, 3, 11, 5, 13, 2)
_PIECES = {"abs", "floor", "ceil", "arcsin", "arccos", "arctan"}


def equal(gold: Expr, answer: Expr) -> bool:
    """Return whether two formulas have the same value, wherever both are real; False if one is too large to work out.

    Points at which a root or logarithm of the gold is not real do not count if others remain: √a√b is √(ab) for the
    numbers that it is made for.
    """
    try:
        if not symbols(gold) | symbols(answer):
            return _is_zero(_build(gold, {}) - _build(answer, {}), _proof_digits({}, gold, answer))
        points = _points(gold, answer)
        inside = [point for point in points if _in_domain(gold, point.at)]
        points = inside if len(inside) >= POINTS // 2 else points
        return (
            bool(points)
            and all(_close(*point.values) for point in points)
            and all(_is_zero(point.gold - point.answer, _proof_digits(point.at, gold, answer)) for point in points[:2])
        )
    except TooLarge:
        return False


def proportional(gold: Expr, answer: Expr, *, positive: bool = False) -> bool:
    """Return whether `gold = 0` and `answer = 0` say the same because one is a constant times the other.

    Args:
        gold: a formula.
        answer: a formula.
        positive: the constant must be positive, as it must for inequalities.
    """
    if not symbols(gold) | symbols(answer):
        return False  # 2 = 2 says nothing, and 1 = 2 even less
    try:
        points = [point for point in _points(gold, answer) if any(value != 0 for value in point.values)]
        if not points or any(value == 0 for point in points for value in point.values):
            return False
        first = points[0]
        ratio = first.values[0] / first.values[1]
        if positive and not (ratio.is_real and ratio > 0):
            return False
        return all(_close(point.values[0], point.values[1] * ratio) for point in points) and all(
            _is_zero(
                point.gold * first.answer - first.gold * point.answer,
                _proof_digits(point.at, gold, answer) + _proof_digits(first.at, gold, answer),
            )
            for point in points[1:3]
        )
    except TooLarge:
        return False


def within(gold: Expr, answer: Expr) -> bool:
    """Return whether a constant lies as near to the gold as is allowed.

    Args:
        gold: `("pair", value, tolerance)`.
        answer: a formula without symbols.
    """
    _, value, tolerance = gold
    if symbols(value) | symbols(answer):
        return False
    try:
        distance = (_build(answer, {}) - _build(value, {})).evalf(DIGITS)
    except TooLarge:
        return False
    return bool(distance.is_number and distance.is_real and abs(distance) <= _build(tolerance, {}))


def has_values(expression: Expr) -> bool:
    """Return whether a formula can be worked out: it is compared with itself without an error."""
    try:
        equal(expression, expression)
    except Exception:  # sympy raises whatever it meets: ValueError, PrecisionExhausted, RecursionError
        return False
    return True


def _build(expression: Expr, at: dict[str, Any]) -> Any:
    kind, *parts = expression
    if kind == "num":
        return sympy.Rational(parts[0])
    if kind == "sym":
        return at[parts[0]]
    if kind == "const":
        return _CONSTANTS[parts[0]]
    name = parts.pop(0) if kind == "fn" else kind
    values = [_build(part, at) for part in parts]
    if all(value.is_number for value in values):
        _bound(name, values)
    if name in ("pow", "root") and (power := _large_root(*values, real=name == "root")) is not None:
        return power
    return (_FUNCTIONS if kind == "fn" else _OPERATIONS)[name](*values)


class _LargePower(sympy.Expr):
    """A power of a large positive rational. As a power of sympy's it would be factored wherever it is used."""

    is_commutative = is_real = is_positive = True

    def _eval_evalf(self, prec: int) -> Any:
        base, exponent = self.args
        with mpmath.workprec(prec + 20 + int(base.p * base.q).bit_length().bit_length() + int(exponent.p).bit_length()):
            value = (mpmath.mpf(int(base.p)) / int(base.q)) ** (mpmath.mpf(int(exponent.p)) / int(exponent.q))
        return sympy.Float._new(value._mpf_, prec)


def _large_root(base: Any, by: Any, *, real: bool) -> Any | None:
    """Return a root of a large rational, or one of a high degree, as a value that sympy leaves alone; None for others."""
    exponent = 1 / by if real else by
    if not (base.is_Rational and exponent.is_Rational and not exponent.is_Integer):
        return None
    sizes = [sympy.Integer(abs(part)) for part in (base.p, base.q)]
    if exponent.q <= MAX_DEGREE and max(int(size).bit_length() for size in sizes) <= FACTORED_BITS:
        return None
    if base < 0 and not real:
        return _large_root(-base, by, real=False) * sympy.Pow(-1, by)
    roots = [sympy.integer_nthroot(int(size), int(exponent.q)) for size in sizes]
    if all(exact for _, exact in roots):
        root = sympy.Rational(roots[0][0], roots[1][0]) ** exponent.p
    else:
        root = _LargePower(abs(base), exponent)
    return -root if base < 0 else root


def _bound(name: str, values: list[Any]) -> None:
    """Refuse what would take too long to work out.

    Raises:
        TooLarge: a value of more than `MAX_BITS` bits, or an argument above `MAX_ARGUMENT`.
    """
    if name == "pow":
        base, exponent = values
        if base in (0, 1, -1) or (exponent.is_Rational and abs(exponent) <= 2):
            return
        size = max(abs(base.p), base.q).bit_length() if base.is_Rational else abs(sympy.log(abs(base.evalf(5)), 2).evalf(5))
        bits = abs(exponent.evalf(5)) * max(1, size)
        if bits > MAX_BITS:
            raise TooLarge("a power")
    elif name in ("exp", "sinh", "cosh", "tanh") and abs(values[0].evalf(5)) > MAX_BITS:
        raise TooLarge(name)
    elif name in ("floor", "ceil") and abs(values[0].evalf(5)) > sympy.Integer(10) ** 4000:
        raise TooLarge(name)  # Python writes no longer integers
    elif name in ("factorial", "Gamma", "zeta") and abs(values[0].evalf(5)) > MAX_ARGUMENT:
        raise TooLarge(name)
    elif name == "binomial":
        n, k = (value.evalf(5) for value in values)
        if min(abs(k), abs(n - k)) > MAX_ARGUMENT or abs(n) > 10**18:
            raise TooLarge(name)


def _is_zero(difference: Any, digits: int) -> bool:
    if difference.has(sympy.nan, sympy.zoo, sympy.oo):
        return False
    if difference.is_Rational:
        return bool(difference == 0)
    rough = difference.evalf(DIGITS)
    if rough.is_number and abs(rough) > sympy.Float(10) ** -15:
        return False
    if digits > MAX_PROOF_DIGITS:
        raise TooLarge("the digits of a proof")
    # a cancellation to so many digits leaves nothing that evalf could vouch for
    try:
        return bool(difference.evalf(5, maxn=digits, strict=True) == 0)
    except sympy.core.evalf.PrecisionExhausted:
        return True


def _proof_digits(at: dict[str, Any], *formulas: Expr) -> int:
    """Return the digits of cancellation that prove two constants equal: the more, the smaller a part of them is.

    The hyperbolic tangent of 3000 is 1 to 2605 digits, and the square root of 1 + 10^-2000 to 2000.
    """
    slow = any(_is_slow(formula) for formula in formulas)
    return (PROOF_DIGITS // 5 if slow else PROOF_DIGITS) + 8 * max(_scale(formula, at) for formula in formulas)


def _is_slow(expression: Expr) -> bool:
    """Return whether hundreds of digits of a formula take seconds."""
    kind, *parts = expression
    slow = kind == "binomial" or (kind == "fn" and parts[0] in ("factorial", "Gamma", "zeta"))
    return slow or any(_is_slow(part) for part in parts if isinstance(part, tuple))


def _scale(expression: Expr, at: dict[str, Any]) -> int:
    """Return the largest power of ten, or of a tenth, that a part of a formula has for a value."""
    value = abs(_build(expression, at).evalf(5))
    size = abs(int(sympy.log(value, 10).evalf(5))) if value.is_number and value.is_finite and value != 0 else 0
    if expression[:2] in (("fn", "tanh"), ("fn", "zeta")):
        size = max(size, int(abs(_build(expression[2], at).evalf(5))))
    return max([size, *(_scale(part, at) for part in expression[1:] if isinstance(part, tuple))])


@dataclass(frozen=True)
class _Point:
    at: dict[str, Any]
    gold: Any
    answer: Any
    """Exact values."""
    values: tuple[Any, Any]
    """Both as numbers: exact if rational."""


def _points(gold: Expr, answer: Expr) -> list[_Point]:
    """Return both values at some points. Where both are real in enough of them, only those count.

    A branch cut (the logarithm of a negative number) then speaks neither for nor against, while
    the square root of x² and x differ at negative points, where both are real. Who writes ln|x| means negative
    numbers too: there the answer must be real as well.
    """
    names = sorted(symbols(gold) | symbols(answer))
    everywhere = _takes_absolute(gold)
    real: list[_Point] = []
    other: list[_Point] = []
    for index in range(2 * POINTS):
        at = {name: _coordinate(index, column) for column, name in enumerate(names)}
        if point := _point(gold, answer, at):
            counts = point.values[0].is_real if everywhere else all(value.is_real for value in point.values)
            (real if counts else other).append(point)
    found = real if len(real) >= POINTS // 2 else real + other
    return found + _far_points(gold, answer, names)


def _point(gold: Expr, answer: Expr, at: dict[str, Any]) -> _Point | None:
    exact = [_build(formula, at) for formula in (gold, answer)]
    values = []
    for each in exact:
        value = each if each.is_Rational else each.evalf(DIGITS)
        if not value.is_number or value.has(sympy.nan, sympy.zoo, sympy.oo):
            return None
        re, im = value.as_real_imag()
        values.append(re if abs(im) <= abs(re) * sympy.Float(10) ** (10 - DIGITS) else re + sympy.I * im)
    return _Point(at, exact[0], exact[1], (values[0], values[1]))


def _coordinate(index: int, column: int) -> Any:
    """Fixed numbers between 0.1 and 4, the second half of them negative, different for every symbol.

    Most are rational, which keeps values exact; some are not, so that the sine of 101πx is not zero at all of them.
    """
    magnitude = sympy.Rational(23 + (index * 71 + column * 37 + index * column * 13) % 177, 101)
    if index % POINTS >= POINTS - 2:
        magnitude *= sympy.sqrt(_PRIMES[column % len(_PRIMES)]) / 2
    return magnitude if index < POINTS else -magnitude


def _far_points(gold: Expr, answer: Expr, names: list[str]) -> list[_Point]:
    """Return points at several scales, on both sides of every number in formulas that may change there.

    Only points at which every root and logarithm is real count.
    """
    if not _has_pieces(gold) and not _has_pieces(answer):
        return []
    marks = sorted(_numbers(gold) | _numbers(answer), key=lambda mark: (abs(mark), mark))[:12]
    near = {sign * mark + step for mark in marks for sign in (1, -1) for step in (Fraction(-1, 3), 0, Fraction(3, 7))}
    far = {Fraction(sign * scale, 10) for scale in (37, 173, 2119) for sign in (1, -1)} | {mark * 3 for mark in marks}
    choices = sorted(near | far | {Fraction(whole) for whole in range(-3, 7)})
    points = []
    for index, choice in enumerate(choices if len(names) == 1 else choices * 2):
        at = {names[index % len(names)]: sympy.Rational(choice)}
        for column, name in enumerate(names):
            at.setdefault(name, sympy.Rational(choices[(index * 7 + column * 11 + 5) % len(choices)]))
        try:
            point = _point(gold, answer, at) if _in_domain(gold, at) and _in_domain(answer, at) else None
        except TooLarge:
            continue  # a tower of powers far out
        if point and all(value.is_real for value in point.values):
            points.append(point)
    return points


def _takes_absolute(expression: Expr) -> bool:
    """Return whether a formula holds an absolute value that depends on a symbol."""
    return (expression[:2] == ("fn", "abs") and bool(symbols(expression))) or any(
        _takes_absolute(part) for part in expression[1:] if isinstance(part, tuple)
    )


def _has_pieces(expression: Expr) -> bool:
    """Return whether a formula may follow different rules in different places."""
    kind, *parts = expression
    if kind in ("max", "min") or (kind == "fn" and parts[0] in _PIECES):
        return True
    if kind == "pow" and (exponent := _rational(parts[1])) is not None and exponent.denominator != 1:
        return True
    return any(_has_pieces(part) for part in parts if isinstance(part, tuple))


def _in_domain(expression: Expr, at: dict[str, Any]) -> bool:
    """Return whether no even root and no logarithm of a formula is taken of a negative number."""
    kind, *parts = expression
    inner = None
    if kind == "fn" and parts[0] == "ln":
        inner = parts[1]
    elif kind == "pow" and ((exponent := _rational(parts[1])) is None or exponent.denominator != 1):
        inner = parts[0]
    if inner is not None and symbols(inner):
        value = _build(inner, at).evalf(15)
        if not (value.is_real and value >= 0):
            return False
    return all(_in_domain(part, at) for part in parts if isinstance(part, tuple))


def _numbers(expression: Expr) -> set[Fraction]:
    """Return the rational values of the parts of a formula."""
    value = _rational(expression)
    found = {value} if value is not None and abs(value) <= 10**12 else set()
    return found.union(*(_numbers(part) for part in expression[1:] if isinstance(part, tuple)))


def _rational(expression: Expr) -> Fraction | None:
    try:
        return rational_value(expression)
    except ValueError:  # too large, or a division by zero
        return None


def _close(a: Any, b: Any) -> bool:
    if a.is_Rational and b.is_Rational:
        return bool(a == b)
    return bool(_size(a - b) <= max(_size(a), _size(b)) * sympy.Float(10) ** (10 - DIGITS))


def _size(value: Any) -> Any:
    """Return the larger part of a complex number; its modulus may stay a formula that can't be compared."""
    return max(abs(part) for part in value.evalf(DIGITS).as_real_imag())
