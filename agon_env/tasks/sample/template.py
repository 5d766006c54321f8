"""`Draft` and `template`: how a kind of problem is written down."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any, TypeAlias

import mpmath
import sympy

Exact: TypeAlias = "int | Fraction | sympy.Expr"


@dataclass(frozen=True)
class Draft:
    """One problem before it is checked."""

    question: str
    answer: Exact
    """The answer, exactly."""
    check: Exact | float | mpmath.mpf
    """The same value, found in another way; a float stands for a numeric one, good to nine digits."""
    difficulty: float


@dataclass(frozen=True)
class Template:
    """A kind of problem."""

    name: str
    topic: str
    sample: str
    """The embedded sample that it is for."""
    draw: Callable[[Random], Draft]


TEMPLATES: dict[str, Template] = {}
"""All kinds of problem, in the order in which they are defined."""


def template(topic: str, *, sample: str = "deepmath") -> Callable[[Callable[[Random], Draft]], Callable[[Random], Draft]]:
    """Register a function of a random source as a kind of problem."""

    def register(draw: Callable[[Random], Draft]) -> Callable[[Random], Draft]:
        if draw.__name__ in TEMPLATES:
            raise ValueError(f"two templates are called {draw.__name__}")
        TEMPLATES[draw.__name__] = Template(draw.__name__, topic, sample, draw)
        return draw

    return register


def agrees(draft: Draft) -> bool:
    """Return whether the two ways to the answer met."""
    answer = exact(draft.answer)
    if isinstance(draft.check, float | mpmath.mpf):
        value, check = complex(answer.evalf(25)), complex(draft.check)
        return math.isclose(value.real, check.real, rel_tol=1e-9, abs_tol=1e-12) and abs(value.imag) < 1e-12
    return bool(sympy.simplify(answer - exact(draft.check)) == 0)


def exact(value: Exact) -> Any:
    """Return a value as a sympy number."""
    return sympy.Rational(value.numerator, value.denominator) if isinstance(value, int | Fraction) else value


def latex(value: Exact) -> str:
    r"""Return a value in LaTeX, with `\ln` for the natural logarithm."""
    text = str(sympy.latex(exact(value), ln_notation=True)).replace(r"\left(", "(").replace(r"\right)", ")")
    return re.sub(r"\\ln\{\((.*?) \)\}", r"\\ln(\1)", text).replace("- ", "-", int(text.startswith("- ")))


def choose(rng: Random, *values: Any) -> Any:
    """Return one of `values`."""
    return values[rng.randrange(len(values))]


def distinct(rng: Random, low: int, high: int, count: int) -> list[int]:
    """Return `count` different integers from `low` to `high`, in increasing order."""
    return sorted(rng.sample(range(low, high + 1), count))


def polynomial(*coefficients: int, x: str = "x") -> str:
    """Return a polynomial in LaTeX, from its leading coefficient to its constant term."""
    symbol = sympy.Symbol(x)
    return str(sympy.latex(sympy.Poly(list(coefficients), symbol).as_expr()))


def matrix(rows: Any) -> str:
    r"""Return a matrix in LaTeX."""
    return r"\begin{pmatrix}" + r" \\ ".join(" & ".join(map(str, row)) for row in rows) + r"\end{pmatrix}"


def determinant(rows: Any) -> int:
    """Return the determinant of an integer matrix by fraction-free elimination."""
    work = [list(row) for row in rows]
    size, sign, previous = len(work), 1, 1
    for k in range(size - 1):
        if not work[k][k]:
            swap = next((i for i in range(k + 1, size) if work[i][k]), None)
            if swap is None:
                return 0
            work[k], work[swap], sign = work[swap], work[k], -sign
        for i in range(k + 1, size):
            for j in range(k + 1, size):
                work[i][j] = (work[i][j] * work[k][k] - work[i][k] * work[k][j]) // previous
        previous = work[k][k]
    return int(sign * work[-1][-1])


def solve(rows: Any, right: Any) -> list[Fraction]:
    """Return the solution of a regular linear system by Gaussian elimination over the rationals."""
    work = [[Fraction(x) for x in row] + [Fraction(b)] for row, b in zip(rows, right, strict=True)]
    size = len(work)
    for k in range(size):
        pivot = next(i for i in range(k, size) if work[i][k])
        work[k], work[pivot] = work[pivot], work[k]
        work[k] = [x / work[k][k] for x in work[k]]
        for i in range(size):
            if i != k and work[i][k]:
                work[i] = [x - work[i][k] * y for x, y in zip(work[i], work[k], strict=True)]
    return [row[-1] for row in work]
