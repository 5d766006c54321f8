"""Definite integrals, series, limits and residues. Closed forms, checked by numeric integration or summation."""

# ruff: noqa: D103 (the question says what a template is about)

from __future__ import annotations

from fractions import Fraction
from math import comb, factorial
from random import Random

import mpmath
import sympy

from agon_env.tasks.sample.template import Draft, choose, distinct, template

CALCULUS = template("Calculus")
ANALYSIS = template("Complex Analysis")
pi, log = sympy.pi, sympy.log


@CALCULUS
def power_over_power(rng: Random) -> Draft:
    n = choose(rng, 3, 4, 6, 8, 12)
    m = rng.randrange(0, n - 1)
    answer = pi / n / sympy.sin(pi * sympy.Rational(m + 1, n))
    check = mpmath.quad(lambda x: x**m / (1 + x**n) + x ** (n - 2 - m) / (1 + x**n), [0, 1])
    numerator = "1" if m == 0 else "x" if m == 1 else f"x^{{{m}}}"
    question = rf"Evaluate the integral \( \int_0^\infty \frac{{{numerator}}}{{1+x^{{{n}}}}}\,dx \)."
    return Draft(question, sympy.radsimp(sympy.sqrtdenest(answer)), check, 6.0 if n < 6 else 6.5)


@CALCULUS
def trigonometric_denominator(rng: Random) -> Draft:
    b = rng.randint(2, 9)
    a = b + rng.randint(1, 8)
    answer = 2 * pi * a / (a * a - b * b) ** sympy.Rational(3, 2)
    check = mpmath.quad(lambda t: (a + b * mpmath.cos(t)) ** -2, [0, mpmath.pi / 2, mpmath.pi]) * 2
    question = rf"Compute \( \int_0^{{2\pi}} \frac{{d\theta}}{{({a}+{b}\cos\theta)^2}} \)."
    return Draft(question, sympy.nsimplify(answer), check, 7.5)


@CALCULUS
def logarithmic_moment(rng: Random) -> Draft:
    a, n = rng.randint(1, 6), rng.randint(3, 6)
    answer = Fraction((-1) ** n * factorial(n), (a + 1) ** (n + 1))
    # substituting x = exp(-t)
    check = (-1) ** n * mpmath.quad(lambda t: t**n * mpmath.exp(-(a + 1) * t), [0, 5, 20, mpmath.inf])
    power = "x" if a == 1 else f"x^{{{a}}}"
    return Draft(rf"Evaluate \( \int_0^1 {power} (\ln x)^{{{n}}}\,dx \).", answer, check, 5.5)


@CALCULUS
def frullani_arctangent(rng: Random) -> Draft:
    b, a = distinct(rng, 1, 12, 2)
    answer = pi / 2 * log(sympy.Rational(a, b))

    def integrand(x: mpmath.mpf) -> mpmath.mpf:
        return (mpmath.atan(a * x) - mpmath.atan(b * x)) / x

    # the part beyond 1 is folded back by x → 1/x
    check = mpmath.quad(lambda x: integrand(x) + (mpmath.atan(x / b) - mpmath.atan(x / a)) / x, [0, 1])
    second = "x" if b == 1 else f"{b}x"
    question = rf"Find the exact value of \( \int_0^\infty \frac{{\arctan({a}x)-\arctan({second})}}{{x}}\,dx \)."
    return Draft(question, answer, check, 6.5)


@CALCULUS
def polynomial_geometric_series(rng: Random) -> Draft:
    p, q, c = rng.randint(2, 4), rng.randint(3, 7), rng.randint(1, 4)
    k = sympy.Symbol("k")
    x = sympy.Symbol("x")
    # (x d/dx)^p of the geometric series
    series = 1 / (1 - x)
    for _ in range(p):
        series = sympy.together(x * sympy.diff(series, x))
    answer = series.subs(x, sympy.Rational(1, q)) + c * sympy.Rational(1, q - 1)
    check = sum(mpmath.mpf(n**p + c) / mpmath.mpf(q) ** n for n in range(1, 120))
    question = rf"Find the sum of the series \( \sum_{{k=1}}^{{\infty}} \frac{{{sympy.latex(k**p + c)}}}{{{q}^k}} \)."
    return Draft(question, answer, check, 5.0 + p / 2 - 0.5)


@CALCULUS
def telescoping_series(rng: Random) -> Draft:
    a, b = distinct(rng, 0, 9, 2)
    answer = sum((Fraction(1, n) for n in range(a + 1, b + 1)), Fraction()) / (b - a)
    check = mpmath.nsum(lambda n: 1 / ((n + a) * (n + b)), [1, mpmath.inf])
    first = "n" if a == 0 else f"(n+{a})"
    return Draft(rf"Evaluate \( \sum_{{n=1}}^\infty \frac{{1}}{{{first}(n+{b})}} \) as a fraction.", answer, check, 5.0)


@CALCULUS
def cubic_limit(rng: Random) -> Draft:
    a, b = rng.randint(2, 9), rng.randint(2, 9)
    answer = a * (sympy.Rational(b * b, 2) - sympy.Rational(a * a, 6))
    with mpmath.workdps(60):
        x = mpmath.mpf(10) ** -10
        check = float((mpmath.sin(a * x) - a * x * mpmath.cos(b * x)) / x**3)
    question = rf"Find the limit \( \lim_{{x \to 0}} \frac{{\sin({a}x) - {a}x\cos({b}x)}}{{x^3}} \)."
    return Draft(question, answer, check, 5.0)


@CALCULUS
def simplex_moment(rng: Random) -> Draft:
    a, b, c = (rng.randint(1, 4) for _ in range(3))
    answer = Fraction(factorial(a) * factorial(b) * factorial(c), factorial(a + b + c + 3))
    # integrate over z, expand (1-x-y)^(c+1), then over y, expand again, then over x
    check = Fraction()
    for i in range(c + 2):
        inner = Fraction(comb(c + 1, i) * (-1) ** i, (c + 1) * (b + i + 1))
        for j in range(c + 2 - i):
            outer = comb(c + 1 - i, j) * (-1) ** j
            check += inner * outer * _beta_sum(a + j, b + i + 1)
    power = "".join(name if n == 1 else f"{name}^{n}" for name, n in zip("xyz", (a, b, c), strict=True))
    question = (
        rf"Let \(T\) be the tetrahedron \( x,y,z \ge 0,\ x+y+z \le 1 \). Evaluate the triple integral \( "
        rf"\iiint_T {power}\,dV \)."
    )
    return Draft(question, answer, check, 6.5)


def _beta_sum(p: int, q: int) -> Fraction:
    """The integral of x^p (1-x)^q over [0, 1], term by term."""
    return sum((Fraction(comb(q, i) * (-1) ** i, p + i + 1) for i in range(q + 1)), Fraction())


@CALCULUS
def derivative_at_zero(rng: Random) -> Draft:
    n, a, m = rng.randint(12, 30), rng.randint(2, 5), rng.randint(2, 4)
    while n % m:
        n += 1
    # x^m / (1 - a x^m)^2 = sum of k a^(k-1) x^(mk)
    k = n // m
    answer = factorial(n) // factorial(k) * k * a ** (k - 1)
    coefficients = [0] * (n + 1)
    coefficients[m] = 1
    for _ in range(2):
        for i in range(m, n + 1):
            coefficients[i] += a * coefficients[i - m]
    check = Fraction(coefficients[n] * factorial(n), factorial(k))
    question = (
        rf"Let \( f(x) = \frac{{x^{{{m}}}}}{{(1-{a}x^{{{m}}})^2}} \). Compute \( \frac{{f^{{({n})}}(0)}}{{{k}!}} \), where "
        rf"\( f^{{({n})}} \) is the \({n}\)th derivative of \(f\)."
    )
    return Draft(question, answer, check, 6.5)


@ANALYSIS
def residue_at_pole(rng: Random) -> Draft:
    a, b, m = rng.randint(2, 5), rng.randint(2, 5), rng.randint(3, 5)
    answer = sum((Fraction(a**j * b ** (m - 1 - j), factorial(j)) for j in range(m)), Fraction())
    radius = mpmath.mpf(1) / (2 * b)

    def on_circle(t: mpmath.mpf) -> mpmath.mpf:
        z = radius * mpmath.expj(t)
        return (mpmath.exp(a * z) / (z ** (m - 1) * (1 - b * z))).real

    # the integrand is periodic, so that the plain sum converges geometrically
    points = 256
    check = mpmath.fsum(on_circle(2 * mpmath.pi * i / points) for i in range(points)) / points
    question = rf"Find the residue of \( f(z) = \frac{{e^{{{a}z}}}}{{z^{{{m}}}(1-{b}z)}} \) at \( z = 0 \)."
    return Draft(question, answer, check, 6.5)


@ANALYSIS
def fourier_quartic(rng: Random) -> Draft:
    a, b = rng.randint(1, 6), rng.randint(1, 5)
    answer = pi * (1 + a * b) * sympy.exp(-a * b) / (2 * b**3)
    check = 2 * mpmath.quadosc(lambda x: mpmath.cos(a * x) / (x * x + b * b) ** 2, [0, mpmath.inf], omega=a)
    cosine = "x" if a == 1 else f"{a}x"
    question = rf"Evaluate \( \int_{{-\infty}}^{{\infty}} \frac{{\cos({cosine})}}{{(x^2+{b * b})^2}}\,dx \)."
    return Draft(question, answer, check, 7.5)


@ANALYSIS
def two_quadratics(rng: Random) -> Draft:
    a, b = distinct(rng, 1, 9, 2)
    c = rng.randint(1, 6)
    # partial fractions: (x^2 + c) / ((x^2+a^2)(x^2+b^2))
    answer = pi * (sympy.Rational(c - a * a, a) - sympy.Rational(c - b * b, b)) / (b * b - a * a)
    check = 2 * mpmath.quad(lambda x: (x * x + c) / ((x * x + a * a) * (x * x + b * b)), [0, 1, 4, 16, 64, mpmath.inf])
    question = rf"Compute \( \int_{{-\infty}}^{{\infty}} \frac{{x^2+{c}}}{{(x^2+{a * a})(x^2+{b * b})}}\,dx \)."
    return Draft(question, answer, check, 6.5)


@ANALYSIS
def zeros_in_a_disc(rng: Random) -> Draft:
    n = rng.randint(7, 11)
    k = rng.randint(2, n - 3)
    c, d = rng.randint(1, 4), rng.randint(1, 4)
    a = c + d + rng.randint(3, 9)
    # on |z| = 1 the term a z^k is the largest
    answer = k
    roots = mpmath.polyroots([1] + [0] * (n - k - 1) + [a] + [0] * (k - 2) + [c, d], maxsteps=200, extraprec=200)
    check = sum(1 for root in roots if abs(root) < 1)
    linear = "z" if c == 1 else f"{c}z"
    question = (
        rf"How many zeros, counted with multiplicity, does the polynomial \( z^{{{n}}} + {a}z^{{{k}}} + {linear} + {d} \) "
        r"have in the open unit disc \( |z| < 1 \)?"
    )
    return Draft(question, answer, check, 7.0)


@ANALYSIS
def winding_derivative(rng: Random) -> Draft:
    n, r = rng.randint(4, 9), rng.randint(2, 5)
    p = rng.randint(2, 4)
    # the coefficient of z^n in (1 + r z)^-p
    answer = (-r) ** n * comb(n + p - 1, n)
    coefficients = [Fraction(1)] + [Fraction(0)] * n
    for _ in range(p):
        for i in range(1, n + 1):
            coefficients[i] -= r * coefficients[i - 1]
    check = coefficients[n]
    question = (
        rf"Let \(C\) be the circle \( |z| = \frac{{1}}{{{2 * r}}} \), traversed once counterclockwise. Compute "
        rf"\( \frac{{1}}{{2\pi i}} \oint_C \frac{{dz}}{{z^{{{n + 1}}}(1+{r}z)^{{{p}}}}} \)."
    )
    return Draft(question, answer, check, 6.5)
