"""Polynomials, recurrences, finite fields and groups. Identities, checked by enumeration or numeric roots."""

# ruff: noqa: D103 (the question says what a template is about)

from __future__ import annotations

from functools import reduce
from itertools import permutations, product
from math import gcd, lcm, prod
from random import Random

import mpmath
import sympy
from sympy.functions.combinatorial.numbers import mobius

from agon_env.tasks.sample.template import Draft, choose, determinant, distinct, polynomial, template

ALGEBRA = template("Algebra")
ABSTRACT = template("Abstract Algebra")


@ALGEBRA
def power_sum_of_roots(rng: Random) -> Draft:
    a, b, c = (rng.choice([-3, -2, -1, 1, 2, 3]) for _ in range(3))
    k = rng.randint(5, 9)
    # Newton: p_n = -(a p_{n-1} + b p_{n-2} + c p_{n-3})
    sums = [3, -a, a * a - 2 * b]
    while len(sums) <= k:
        sums.append(-(a * sums[-1] + b * sums[-2] + c * sums[-3]))
    companion = sympy.Matrix([[0, 0, -c], [1, 0, -b], [0, 1, -a]])
    question = (
        rf"Let \( \alpha, \beta, \gamma \) be the complex roots of \( {polynomial(1, a, b, c)} = 0 \). Determine "
        rf"\( \alpha^{{{k}}} + \beta^{{{k}}} + \gamma^{{{k}}} \)."
    )
    return Draft(question, sums[k], (companion**k).trace(), 5.5 if k < 7 else 6.0)


@ALGEBRA
def product_over_roots(rng: Random) -> Draft:
    p = [1, *(rng.randint(-4, 4) for _ in range(2)), choose(rng, -5, -3, -2, 2, 3, 5)]
    q = [1, rng.randint(-3, 3), choose(rng, -4, -3, 1, 2, 4, 5)]
    # the resultant as a Sylvester determinant
    size = len(p) + len(q) - 2
    rows = [[0] * i + p + [0] * (size - len(p) - i) for i in range(len(q) - 1)]
    rows += [[0] * i + q + [0] * (size - len(q) - i) for i in range(len(p) - 1)]
    roots = mpmath.polyroots(p, maxsteps=500, extraprec=200)
    check = reduce(lambda x, y: x * y, (mpmath.polyval(q, root) for root in roots)).real
    question = (
        rf"Let \( r_1, r_2, r_3 \) be the roots of \( {polynomial(*p)} \), and let \( Q(x) = {polynomial(*q)} "
        rf"\). Find the value "
        r"of \( Q(r_1)Q(r_2)Q(r_3) \)."
    )
    return Draft(
        question, determinant(rows), float(mpmath.nint(check)) if abs(check - mpmath.nint(check)) < 1e-6 else check, 6.0
    )


@ALGEBRA
def minimal_polynomial_value(rng: Random) -> Draft:
    a, b = rng.choice([2, 3, 5, 7]), rng.choice([2, 3, 4, 5])
    k = rng.randint(2, 4)
    x = sympy.Symbol("x")
    # (x-s)^3 = b with s^2 = a: eliminate s
    cubic = sympy.Poly((x**3 + 3 * a * x - b) ** 2 - a * (3 * x**2 + a) ** 2, x)
    conjugates = [
        sign * mpmath.sqrt(a) + mpmath.cbrt(b) * mpmath.expj(2 * mpmath.pi * j / 3) for sign in (1, -1) for j in range(3)
    ]
    check = float(mpmath.nint(reduce(lambda u, v: u * v, (k - c for c in conjugates)).real))
    question = (
        rf"Let \( P(x) \) be the minimal polynomial of \( \sqrt{{{a}}} + \sqrt[3]{{{b}}} \) over \( "
        rf"\mathbb{{Q}} \), taken monic. "
        rf"Compute \( P({k}) \)."
    )
    return Draft(question, int(cubic.eval(k)), check, 7.0)


@ALGEBRA
def remainder_of_a_power(rng: Random) -> Draft:
    a, b = distinct(rng, -3, 4, 2)
    n = rng.randint(9, 14)
    c = rng.randint(5, 8)
    slope = (a**n - b**n) // (a - b)
    answer = slope * (c - a) + a**n
    trace, norm = a + b, a * b
    u, v = 0, 1  # u x + v
    for _ in range(n):
        u, v = u * trace + v, -u * norm
    question = (
        rf"Let \( R(x) \) be the remainder of \( x^{{{n}}} \) on division by \( {polynomial(1, -trace, norm)} \). "
        rf"Find \( R({c}) \)."
    )
    return Draft(question, answer, u * c + v, 5.0)


@ALGEBRA
def cyclotomic_value(rng: Random) -> Draft:
    n = rng.choice([12, 15, 18, 20, 21, 24, 28, 30, 36, 42])
    k = rng.randint(2, 4)
    value = sympy.Integer(1)
    for d in range(1, n + 1):
        if n % d == 0:
            value *= sympy.Integer(k**d - 1) ** mobius(n // d)
    check = int(sympy.cyclotomic_poly(n, k))
    question = (
        rf"Let \( \Phi_{{{n}}} \) be the monic polynomial whose roots are exactly the primitive \({n}\)th roots of unity. "
        rf"Compute \( \Phi_{{{n}}}({k}) \)."
    )
    return Draft(question, value, check, 6.0)


@ALGEBRA
def product_of_sines(rng: Random) -> Draft:
    n, a = rng.randint(5, 16), rng.randint(2, 6)
    # prod over k of (a - cos(2 pi k/n)) with x + 1/x = 2a: (x^n + x^-n - 2) / 2^n
    previous, current = 2, 2 * a
    for _ in range(n - 1):
        previous, current = current, 2 * a * current - previous
    answer = sympy.Rational(current - 2, 2**n)
    with mpmath.workdps(40):
        check = mpmath.fprod(a - mpmath.cos(2 * mpmath.pi * k / n) for k in range(n))
    question = rf"Evaluate the product \( \prod_{{k=0}}^{{{n - 1}}} \left({a} - \cos\frac{{2\pi k}}{{{n}}}\right) \) exactly."
    return Draft(question, answer, check, 7.0)


@ABSTRACT
def irreducible_polynomials(rng: Random) -> Draft:
    q = rng.choice([2, 3, 4, 5, 7, 8, 9])
    n = rng.randint(4, 7)
    answer = sum(int(mobius(d)) * q ** (n // d) for d in range(1, n + 1) if n % d == 0) // n
    counts: dict[int, int] = {}
    for m in range(1, n + 1):  # x^(q^m) - x is the product of all irreducibles whose degree divides m
        counts[m] = (q**m - sum(d * counts[d] for d in range(1, m) if m % d == 0)) // m
    question = (
        rf"How many monic irreducible polynomials of degree \({n}\) are there over the finite field with \({q}\) elements?"
    )
    return Draft(question, answer, counts[n], 6.0 if n in (5, 7) else 6.5)


@ABSTRACT
def elements_of_an_order(rng: Random) -> Draft:
    orders = [rng.choice([4, 6, 8, 9, 10, 12, 15, 18, 20]) for _ in range(3)]
    exponent = lcm(*orders)
    d = rng.choice([d for d in range(4, exponent + 1) if exponent % d == 0 and d <= 36])
    answer = sum(int(mobius(d // k)) * prod(gcd(k, n) for n in orders) for k in range(1, d + 1) if d % k == 0)
    check = sum(1 for x in product(*map(range, orders)) if lcm(*(n // gcd(n, i) for n, i in zip(orders, x, strict=True))) == d)
    group = r" \times ".join(rf"\mathbb{{Z}}/{n}\mathbb{{Z}}" for n in orders)
    return Draft(rf"How many elements of order \({d}\) does the group \( {group} \) have?", answer, check, 5.5)


@ABSTRACT
def homomorphisms_to_symmetric(rng: Random) -> Draft:
    m, n = rng.choice([2, 3, 4, 6, 8, 9, 10, 12]), rng.randint(5, 7)
    # choose the cycle of the last point
    counts = [1]
    for size in range(1, n + 1):
        counts.append(sum(_falling(size - 1, d - 1) * counts[size - d] for d in range(1, size + 1) if m % d == 0))
    check = sum(1 for p in permutations(range(n)) if m % _permutation_order(p) == 0)
    question = (
        rf"Determine the number of group homomorphisms from the cyclic group of order \({m}\) to the symmetric "
        rf"group \( S_{n} \)."
    )
    return Draft(question, counts[n], check, 7.0)


def _falling(n: int, k: int) -> int:
    return prod(range(n - k + 1, n + 1))


def _permutation_order(p: tuple[int, ...]) -> int:
    order, seen = 1, set()
    for start in range(len(p)):
        length, at = 0, start
        while at not in seen:
            seen.add(at)
            at, length = p[at], length + 1
        order = lcm(order, length or 1)
    return order


@ABSTRACT
def subgroups_of_a_product(rng: Random) -> Draft:
    m, n = sorted(rng.choice([4, 6, 8, 9, 10, 12]) for _ in range(2))
    answer = sum(gcd(a, b) for a in range(1, m + 1) if m % a == 0 for b in range(1, n + 1) if n % b == 0)
    elements = list(product(range(m), range(n)))
    # every subgroup has a generator (0, c) of its part over 0, and one element over its least first coordinate
    subgroups = set()
    for (i, j), c in product(elements, range(n)):
        subgroups.add(frozenset((i * s % m, (j * s + c * t) % n) for s in range(lcm(m, n)) for t in range(n)))
    question = rf"Find the number of subgroups of \( \mathbb{{Z}}/{m}\mathbb{{Z}} \times \mathbb{{Z}}/{n}\mathbb{{Z}} \)."
    return Draft(question, answer, len(subgroups), 8.0)


@ABSTRACT
def conjugate_pairs(rng: Random) -> Draft:
    n = rng.randint(5, 6)
    parts = rng.choice([p for p in _partitions(n) if 1 < len(p) < n])
    # the centraliser of a permutation of this cycle type
    answer = prod(c**k * int(sympy.factorial(k)) for c in set(parts) for k in [parts.count(c)])
    points, start = [], 0
    for c in parts:
        points += [*range(start + 1, start + c), start]
        start += c
    sigma = tuple(points)
    check = sum(1 for p in permutations(range(n)) if all(p[sigma[i]] == sigma[p[i]] for i in range(n)))
    shape = ", ".join(map(str, parts))
    question = (
        rf"Let \( \sigma \in S_{n} \) be a permutation with disjoint cycles of lengths \( {shape} \). How many elements of "
        rf"\( S_{n} \) commute with \( \sigma \)?"
    )
    return Draft(question, answer, check, 5.5)


def _partitions(n: int, largest: int | None = None) -> list[tuple[int, ...]]:
    if n == 0:
        return [()]
    return [(k, *rest) for k in range(min(n, largest or n), 0, -1) for rest in _partitions(n - k, k)]
