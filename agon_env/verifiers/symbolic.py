"""Are two formulas equal? The part that needs sympy, and that may hang: it runs in a worker process alone.

Formulas come as the nested tuples of `agon_env.verifiers.expression`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy

from agon_env.verifiers.expression import Expr, symbols

DIGITS = 40
"""Digits to which values are compared at a point."""
PROOF_DIGITS = 1000
"""Digits of cancellation after which two constants that no proof tells apart count as equal."""
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
    "ceil": sympy.ceiling, "zeta": sympy.zeta, "Gamma": sympy.gamma,
}  # fmt: skip


def equal(gold: Expr, answer: Expr) -> bool:
    """Return whether two formulas have the same value, wherever both are real."""
    if not symbols(gold) | symbols(answer):
        return _is_zero(_build(gold, {}) - _build(answer, {}))
    pairs = _values(gold, answer)
    return bool(pairs) and all(_close(a, b) for a, b in pairs)


def proportional(gold: Expr, answer: Expr, *, positive: bool = False) -> bool:
    """Return whether `gold = 0` and `answer = 0` say the same because one is a constant times the other.

    Args:
        gold: a formula.
        answer: a formula.
        positive: the constant must be positive, as it must for inequalities.
    """
    pairs = [(a, b) for a, b in _values(gold, answer) if a != 0 or b != 0]
    if not pairs or any(a == 0 or b == 0 for a, b in pairs):
        return False
    ratio = pairs[0][0] / pairs[0][1]
    if positive and not (ratio.is_real and ratio > 0):
        return False
    return all(_close(a, b * ratio) for a, b in pairs)


def within(gold: Expr, answer: Expr) -> bool:
    """Return whether a constant lies as near to the gold as is allowed.

    Args:
        gold: `("pair", value, tolerance)`.
        answer: a formula without symbols.
    """
    _, value, tolerance = gold
    if symbols(value) | symbols(answer):
        return False
    distance = (_build(answer, {}) - _build(value, {})).evalf(DIGITS)
    return bool(distance.is_number and distance.is_real and abs(distance) <= _build(tolerance, {}))


def _build(expression: Expr, at: dict[str, Any]) -> Any:
    kind, *parts = expression
    if kind == "num":
        return sympy.Rational(parts[0])
    if kind == "sym":
        return at[parts[0]]
    if kind == "const":
        return _CONSTANTS[parts[0]]
    if kind == "fn":
        return _FUNCTIONS[parts[0]](_build(parts[1], at))
    operation = _OPERATIONS[kind]
    return operation(*(_build(part, at) for part in parts))


def _is_zero(difference: Any) -> bool:
    if difference.has(sympy.nan, sympy.zoo, sympy.oo):
        return False
    if difference.is_Rational:
        return bool(difference == 0)
    rough = difference.evalf(DIGITS)
    if rough.is_number and abs(rough) > sympy.Float(10) ** -15:
        return False
    # a cancellation to PROOF_DIGITS digits leaves nothing that evalf could vouch for
    try:
        return bool(difference.evalf(5, maxn=PROOF_DIGITS, strict=True) == 0)
    except sympy.core.evalf.PrecisionExhausted:
        return True


def _values(gold: Expr, answer: Expr) -> list[tuple[Any, Any]]:
    """Return both values at some points. Where both are real in enough of them, only those count.

    A branch cut (the logarithm of a negative number) then speaks neither for nor against, while
    the square root of x² and x differ at negative points, where both are real.
    """
    names = sorted(symbols(gold) | symbols(answer))
    real, other = [], []
    for index in range(2 * POINTS):
        at = {name: _coordinate(index, column) for column, name in enumerate(names)}
        a, b = (_build(formula, at).evalf(DIGITS) for formula in (gold, answer))
        if not (a.is_number and b.is_number) or a.has(sympy.nan, sympy.zoo, sympy.oo) or b.has(sympy.nan, sympy.zoo, sympy.oo):
            continue
        a, b = (value.as_real_imag() for value in (a, b))
        negligible = [abs(im) <= abs(re) * sympy.Float(10) ** (10 - DIGITS) for re, im in (a, b)]
        if all(negligible):
            real.append((a[0], b[0]))
        else:
            other.append((a[0] + sympy.I * a[1], b[0] + sympy.I * b[1]))
    return real if len(real) >= POINTS // 2 else real + other


def _coordinate(index: int, column: int) -> Any:
    """Fixed rationals between 0.2 and 2, the second half of them negative, different for every symbol."""
    magnitude = sympy.Rational(23 + (index * 71 + column * 37 + index * column * 13) % 177, 101)
    return magnitude if index < POINTS else -magnitude


def _close(a: Any, b: Any) -> bool:
    scale = max(abs(a), abs(b))
    return bool(abs(a - b) <= scale * sympy.Float(10) ** (10 - DIGITS))
