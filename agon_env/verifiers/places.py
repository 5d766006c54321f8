"""Where a constant is on the number line: enough to put the ends of intervals in order."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

from agon_env.verifiers.expression import Expr, parse, rational_value

Place: TypeAlias = Fraction | float

_INFINITE = {r"\infty": math.inf, r"+\infty": math.inf, r"-\infty": -math.inf}
_CONSTANTS = {"pi": math.pi, "e": math.e}
_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "exp": math.exp, "ln": math.log, "sin": math.sin, "cos": math.cos, "tan": math.tan, "arcsin": math.asin,
    "arccos": math.acos, "arctan": math.atan, "abs": abs,
}  # fmt: skip


def place(text: str) -> Place | None:
    r"""Return the value of a constant: exact if it is rational, else a float; None for `a` and what else has no place."""
    text = text.strip()
    if text.replace(" ", "") in _INFINITE:
        return _INFINITE[text.replace(" ", "")]
    try:
        expression = parse(text)
        exact = rational_value(expression)
        return _value(expression) if exact is None else exact
    except (ValueError, ArithmeticError, RecursionError):
        return None


def _value(expression: Expr) -> float:
    kind, *parts = expression
    if kind == "num":
        return float(Fraction(parts[0]))
    if kind == "const" and parts[0] in _CONSTANTS:
        return _CONSTANTS[parts[0]]
    if kind == "fn" and parts[0] in _FUNCTIONS:
        return _FUNCTIONS[parts[0]](_value(parts[1]))
    if kind not in ("add", "mul", "pow"):
        raise ValueError(f"{kind} has no place")
    left, right = map(_value, parts)
    if kind == "pow":
        return math.pow(left, right)  # a ValueError where it is not real
    return left + right if kind == "add" else left * right
