"""Problems for schools in the manner of MATH, level 1 to 5. Formulas, checked by counting or by numbers."""

# ruff: noqa: D103 (the question says what a template is about)

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import comb, gcd, isqrt, pi
from random import Random

import mpmath
import sympy

from agon_env.tasks.sample.template import Draft, distinct, polynomial, template

ALGEBRA = template("Algebra", sample="math")
INTERMEDIATE = template("Intermediate Algebra", sample="math")
PREALGEBRA = template("Prealgebra", sample="math")
GEOMETRY = template("Geometry", sample="math")
NUMBERS = template("Number Theory", sample="math")
COUNTING = template("Counting & Probability", sample="math")
PRECALCULUS = template("Precalculus", sample="math")


@PREALGEBRA
def sum_of_fractions(rng: Random) -> Draft:
    (a, b, c), (p, q, r) = (rng.randint(1, 9) for _ in range(3)), rng.sample(range(2, 13), 3)
    common = p * q * r
    question = rf"Compute $\frac{{{a}}}{{{p}}} + \frac{{{b}}}{{{q}}} - \frac{{{c}}}{{{r}}}$. Give a fraction in lowest terms."
    value = Fraction(a, p) + Fraction(b, q) - Fraction(c, r)
    return Draft(question, value, Fraction(a * q * r + b * p * r - c * p * q, common), 1)


@PREALGEBRA
def mean_of_the_rest(rng: Random) -> Draft:
    values = [rng.randint(40, 100) for _ in range(rng.randint(4, 7))]
    wanted = Fraction(sum(values) + rng.randint(60, 100), len(values) + 1)
    question = (
        f"The scores of a student on {len(values)} tests are ${', '.join(map(str, values))}$. Which score on the next test "
        rf"makes the mean of all tests ${sympy.latex(sympy.Rational(wanted.numerator, wanted.denominator))}$?"
    )
    found = next(x for x in range(0, 200) if Fraction(sum(values) + x, len(values) + 1) == wanted)
    return Draft(question, wanted * (len(values) + 1) - sum(values), found, 1)


@ALGEBRA
def value_of_a_composition(rng: Random) -> Draft:
    a, b, c, d, x = (rng.randint(2, 9) for _ in range(5))
    poly = sympy.Symbol("x")
    f, g = a * poly**2 - b, c * poly + d
    question = f"Let $f(x) = {a}x^2 - {b}$ and $g(x) = {c}x + {d}$. What is $f(g({x}))$?"
    return Draft(question, a * (c * x + d) ** 2 - b, f.subs(poly, g.subs(poly, x)), 2)


@ALGEBRA
def sum_of_the_squares_of_roots(rng: Random) -> Draft:
    p, q = rng.randint(3, 15), rng.randint(1, 12)
    with mpmath.workdps(30):
        check = mpmath.fsum(root**2 for root in mpmath.polyroots([1, -p, q], extraprec=60)).real
    question = f"Let $r$ and $s$ be the roots of ${polynomial(1, -p, q)} = 0$. Find $r^2 + s^2$."
    return Draft(question, p * p - 2 * q, check, 3)


@ALGEBRA
def two_linear_equations(rng: Random) -> Draft:
    x, y = rng.randint(-9, 9), rng.randint(-9, 9)
    a, b, c, d = rng.sample(range(2, 12), 4)
    if a * d == b * c:
        d += 1
    e, f = a * x + b * y, c * x + d * y
    question = f"If ${a}x + {b}y = {e}$ and ${c}x + {d}y = {f}$, what is $xy$?"
    det = a * d - b * c
    return Draft(question, x * y, Fraction(e * d - b * f, det) * Fraction(a * f - e * c, det), 2)


@INTERMEDIATE
def remainder_on_division(rng: Random) -> Draft:
    coefficients = [rng.randint(1, 4), *(rng.randint(-6, 6) for _ in range(4))]
    root = rng.choice([-3, -2, 2, 3])
    value = 0
    for coefficient in coefficients:
        value = value * root + coefficient
    question = (
        f"Find the remainder when ${polynomial(*coefficients)}$ is divided by $x {'-' if root > 0 else '+'} {abs(root)}$."
    )
    return Draft(question, value, sum(c * root ** (4 - k) for k, c in enumerate(coefficients)), 3)


@INTERMEDIATE
def telescoping_sum(rng: Random) -> Draft:
    n, k = rng.randint(8, 60), rng.randint(1, 4)
    question = rf"Evaluate $\sum_{{k=1}}^{{{n}}} \frac{{1}}{{(k+{k - 1})(k+{k})}}$.".replace("(k+0)", "k")
    return Draft(
        question, Fraction(1, k) - Fraction(1, n + k), sum(Fraction(1, (i + k - 1) * (i + k)) for i in range(1, n + 1)), 4
    )


@INTERMEDIATE
def nested_roots(rng: Random) -> Draft:
    a, b = distinct(rng, 2, 15, 2)
    while isqrt(a) ** 2 == a or isqrt(b) ** 2 == b or isqrt(a * b) ** 2 == a * b:
        a, b = distinct(rng, 2, 15, 2)
    question = rf"Simplify $\sqrt{{{a + b} + 2\sqrt{{{a * b}}}}}$ to a sum of two square roots."
    with mpmath.workdps(40):
        check = mpmath.sqrt(a + b + 2 * mpmath.sqrt(a * b))
    return Draft(question, sympy.sqrt(a) + sympy.sqrt(b), check, 4)


@GEOMETRY
def sector(rng: Random) -> Draft:
    radius, angle = rng.randint(3, 18), rng.choice([30, 40, 45, 60, 72, 80, 120, 135, 150])
    question = (
        rf"A circle has radius ${radius}$. What is the area of a sector with a central angle of ${angle}^\circ$? "
        r"Express your answer in terms of $\pi$."
    )
    return Draft(question, sympy.pi * sympy.Rational(angle * radius**2, 360), radius**2 / 2 * (angle / 180 * pi), 2)


@GEOMETRY
def heron(rng: Random) -> Draft:
    a, b = rng.randint(5, 14), rng.randint(5, 14)
    c = rng.randint(abs(a - b) + 2, a + b - 2)
    s = Fraction(a + b + c, 2)
    area = sympy.sqrt(sympy.Rational(s.numerator, s.denominator) * (s - a) * (s - b) * (s - c))
    with mpmath.workdps(40):
        cosine = mpmath.mpf(a * a + b * b - c * c) / (2 * a * b)
        check = a * b * mpmath.sqrt(1 - cosine**2) / 2
    return Draft(f"What is the area of a triangle with the sides ${a}$, ${b}$ and ${c}$?", area, check, 4)


@GEOMETRY
def distance_of_a_point(rng: Random) -> Draft:
    a, b, c = rng.randint(1, 9), rng.randint(1, 9), rng.randint(-20, 20)
    x, y = rng.randint(-9, 9), rng.randint(-9, 9)
    offset = abs(a * x + b * y + c)
    line = f"{a}x + {b}y {'+' if c >= 0 else '-'} {abs(c)} = 0".replace("1x", "x").replace(" 1y", " y")
    with mpmath.workdps(40):
        t = mpmath.mpf(a * x + b * y + c) / (a * a + b * b)  # the foot of the perpendicular is (x - ta, y - tb)
        check = mpmath.hypot(t * a, t * b)
    question = f"How far is the point $({x}, {y})$ from the line ${line}$?"
    return Draft(question, sympy.Integer(offset) / sympy.sqrt(a * a + b * b), check, 3)


@NUMBERS
def divisors_of_a_number(rng: Random) -> Draft:
    exponents = [rng.randint(1, 4), rng.randint(0, 3), rng.randint(0, 2), rng.randint(0, 1)]
    n, count = 1, 1
    for prime, exponent in zip((2, 3, 5, 7), exponents, strict=True):
        n, count = n * prime**exponent, count * (exponent + 1)
    question = f"How many positive divisors does ${n}$ have?"
    return Draft(question, count, sum(1 for d in range(1, n + 1) if n % d == 0), 2)


@NUMBERS
def base_conversion_sum(rng: Random) -> Draft:
    base = rng.choice([5, 6, 7, 8, 9])
    digits = [[rng.randrange(1, base), *(rng.randrange(base) for _ in range(2))] for _ in range(2)]
    values = [(d[0] * base + d[1]) * base + d[2] for d in digits]
    written = ["".join(map(str, d)) for d in digits]
    question = f"Add ${written[0]}_{base}$ and ${written[1]}_{base}$. Give the sum in base 10."
    return Draft(question, sum(values), sum(int(text, base) for text in written), 2)


@NUMBERS
def chinese_remainders(rng: Random) -> Draft:
    moduli = rng.choice([(3, 5, 7), (4, 5, 9), (5, 7, 8), (7, 9, 11), (5, 8, 11)])
    a, b, c = moduli
    n = rng.randrange(a * b * c)
    rests = [n % m for m in moduli]
    m = a * b * c
    value = sum(r * (m // p) * pow(m // p, -1, p) for r, p in zip(rests, moduli, strict=True)) % m
    question = (
        f"What is the smallest non-negative integer that leaves the remainders ${rests[0]}$, ${rests[1]}$ and ${rests[2]}$ on "
        f"division by ${a}$, ${b}$ and ${c}$?"
    )
    return Draft(question, value, next(x for x in range(m) if [x % p for p in moduli] == rests), 4)


@COUNTING
def committees(rng: Random) -> Draft:
    women, men, size = rng.randint(4, 7), rng.randint(4, 7), rng.randint(3, 5)
    least = rng.randint(1, size - 1)
    total = sum(comb(women, k) * comb(men, size - k) for k in range(least, size + 1))
    people = [1] * women + [0] * men
    counted = sum(1 for chosen in combinations(people, size) if sum(chosen) >= least)
    question = (
        f"A club has ${women}$ women and ${men}$ men. In how many ways can a committee of ${size}$ be chosen that has at least "
        f"${least}$ {'woman' if least == 1 else 'women'}?"
    )
    return Draft(question, total, counted, 4)


@COUNTING
def dice_sum(rng: Random) -> Draft:
    dice = rng.randint(2, 4)
    target = rng.randint(dice + 2, 6 * dice - 2)
    ways = [1]
    for _ in range(dice):
        ways = [sum(ways[s - f] for f in range(1, 7) if 0 <= s - f < len(ways)) for s in range(len(ways) + 6)]
    counted = sum(1 for roll in product(range(1, 7), repeat=dice) if sum(roll) == target)
    question = f"${dice}$ fair dice are rolled. What is the probability that the sum is ${target}$? Give a common fraction."
    return Draft(question, Fraction(ways[target], 6**dice), Fraction(counted, 6**dice), 3)


@COUNTING
def grid_paths(rng: Random) -> Draft:
    right, up = rng.randint(4, 8), rng.randint(3, 7)
    x, y = rng.randint(1, right - 1), rng.randint(1, up - 1)
    paths = [[0] * (up + 1) for _ in range(right + 1)]
    for i, j in product(range(right + 1), range(up + 1)):
        free = (i, j) != (x, y)
        paths[i][j] = (1 if i == j == 0 else (paths[i - 1][j] if i else 0) + (paths[i][j - 1] if j else 0)) if free else 0
    question = (
        f"A path on the grid goes from $(0,0)$ to $({right},{up})$ in unit steps to the right or up. How many such paths do "
        f"not pass through $({x},{y})$?"
    )
    through = comb(x + y, x) * comb(right + up - x - y, right - x)
    return Draft(question, comb(right + up, up) - through, paths[right][up], 4)


@PRECALCULUS
def modulus_of_a_power(rng: Random) -> Draft:
    a, b, n = rng.randint(1, 6), rng.randint(1, 6), rng.randint(2, 5)
    re, im = 1, 0
    for _ in range(n):
        re, im = re * a - im * b, re * b + im * a
    question = rf"Find $|({a} + {b}i)^{n}|$.".replace(" 1i", " i")
    with mpmath.workdps(40):
        check = mpmath.hypot(re, im)
    return Draft(question, sympy.sqrt(a * a + b * b) ** n, check, 3)


@PRECALCULUS
def triangle_from_vectors(rng: Random) -> Draft:
    u, v = ([rng.randint(-5, 5) for _ in range(3)] for _ in range(2))
    cross = (u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0])
    if not any(cross):
        return triangle_from_vectors(rng)
    dot = sum(a * b for a, b in zip(u, v, strict=True))
    gram = sum(a * a for a in u) * sum(b * b for b in v) - dot * dot
    corners = [f"({', '.join(map(str, w))})" for w in (u, v)]
    question = f"What is the area of the triangle with the vertices $(0, 0, 0)$, ${corners[0]}$ and ${corners[1]}$?"
    return Draft(question, sympy.sqrt(sum(c * c for c in cross)) / 2, sympy.sqrt(gram) / 2, 5)


@NUMBERS
def lattice_points_on_a_segment(rng: Random) -> Draft:
    x, y = rng.randint(-10, 10), rng.randint(-10, 10)
    dx, dy = rng.randint(6, 60), rng.randint(6, 60)
    on_it = sum(1 for i in range(dx + 1) if (i * dy) % dx == 0)
    question = f"How many points with integer coordinates are on the segment from $({x}, {y})$ to $({x + dx}, {y + dy})$?"
    return Draft(question, gcd(dx, dy) + 1, on_it, 3)
