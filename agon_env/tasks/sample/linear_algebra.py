"""Structured determinants, ranks over finite fields, spectra. Closed forms, checked by elimination or enumeration."""

# ruff: noqa: D103 (the question says what a template is about)

from __future__ import annotations

from itertools import product
from math import gcd, prod
from random import Random

import mpmath
import sympy

from agon_env.tasks.sample.template import Draft, choose, determinant, distinct, matrix, template

LINEAR = template("Linear Algebra")


@LINEAR
def diagonal_plus_constant(rng: Random) -> Draft:
    n, b = rng.randint(4, 7), choose(rng, -3, -2, 1, 2, 3, 4)
    diagonal = distinct(rng, 1, 9, n)
    # the matrix determinant lemma for D + b·11^T
    answer = prod(diagonal) + b * sum(prod(diagonal) // d for d in diagonal)
    rows = [[b + (diagonal[i] if i == j else 0) for j in range(n)] for i in range(n)]
    question = rf"Compute the determinant of \( {matrix(rows)} \)."
    return Draft(question, answer, determinant(rows), 5.5)


@LINEAR
def tridiagonal(rng: Random) -> Draft:
    n, a, bc = rng.randint(7, 12), rng.randint(2, 5), rng.choice([(1, 1), (1, 2), (2, 2), (1, -1), (2, -1), (3, 1)])
    b, c = bc
    previous, current = 1, a
    for _ in range(n - 1):
        previous, current = current, a * current - b * c * previous
    rows = [[{0: a, 1: b, -1: c}.get(j - i, 0) for j in range(n)] for i in range(n)]
    question = (
        rf"Let \(A\) be the \( {n} \times {n} \) matrix with \({a}\) on the main diagonal, \({b}\) on the "
        rf"diagonal just above it, "
        rf"\({c}\) on the diagonal just below it, and \(0\) elsewhere. Find \( \det A \)."
    )
    return Draft(question, current, determinant(rows), 5.5)


@LINEAR
def distance_matrix(rng: Random) -> Draft:
    n, c = rng.randint(5, 10), rng.randint(1, 5)
    # second differences leave a matrix of two's; the constant adds its share by the determinant lemma
    answer = (-1) ** (n - 1) * 2 ** (n - 2) * (n - 1 + 2 * c)
    rows = [[abs(i - j) + c for j in range(n)] for i in range(n)]
    question = (
        rf"Find the determinant of the \( {n} \times {n} \) matrix whose entry in row \(i\) and column \(j\) "
        rf"is \( |i-j| + {c} \)."
    )
    return Draft(question, answer, determinant(rows), 7.0)


@LINEAR
def gcd_power_matrix(rng: Random) -> Draft:
    n, k = rng.randint(5, 8), rng.randint(1, 2)
    # Smith: the product of Jordan's totients
    answer = prod(int(m**k * prod(1 - sympy.Rational(1, p**k) for p in sympy.primefactors(m))) for m in range(1, n + 1))
    rows = [[gcd(i, j) ** k for j in range(1, n + 1)] for i in range(1, n + 1)]
    power = "" if k == 1 else "^2"
    question = (
        rf"Evaluate the determinant of the \( {n} \times {n} \) matrix with entries \( a_{{ij}} = "
        rf"\gcd(i,j){power} \), \( 1 \le i, j \le {n} \)."
    )
    return Draft(question, answer, determinant(rows), 7.5)


@LINEAR
def minimum_matrix(rng: Random) -> Draft:
    n, p, q = rng.randint(4, 7), rng.randint(2, 4), rng.randint(1, 5)
    # subtracting neighbouring rows leaves a triangular matrix
    answer = (p + q) * p ** (n - 1)
    rows = [[p * min(i, j) + q for j in range(1, n + 1)] for i in range(1, n + 1)]
    question = rf"Let \( a_{{ij}} = {p}\min(i,j) + {q} \) for \( 1 \le i,j \le {n} \). Determine \( \det(a_{{ij}}) \)."
    return Draft(question, answer, determinant(rows), 6.0)


@LINEAR
def circulant(rng: Random) -> Draft:
    n = rng.randint(4, 6)
    row = [rng.randint(-2, 4) for _ in range(n)]
    while sum(row) == 0 or len(set(row)) < 3:
        row = [rng.randint(-2, 4) for _ in range(n)]
    rows = [row[n - i :] + row[: n - i] for i in range(n)]
    # the eigenvalues are the values of the first row's polynomial at the roots of unity
    with mpmath.workdps(40):
        check = mpmath.fprod(
            mpmath.fsum(c * mpmath.expjpi(mpmath.mpf(2) * j * k / n) for j, c in enumerate(row)) for k in range(n)
        ).real
    question = rf"Compute the determinant of the circulant matrix \( {matrix(rows)} \)."
    return Draft(question, determinant(rows), check, 6.0)


@LINEAR
def matrices_of_a_rank(rng: Random) -> Draft:
    q, m, n = rng.choice([2, 3, 4, 5, 7]), rng.randint(2, 4), rng.randint(3, 5)
    r = rng.randint(1, min(m, n) - 1)
    answer = prod((q**m - q**i) * (q**n - q**i) for i in range(r)) // prod(q**r - q**i for i in range(r))
    # add the rows one by one: inside the span so far, or outside
    counts = [1] + [0] * n
    for _ in range(m):
        counts = [counts[k] * q**k + (counts[k - 1] * (q**n - q ** (k - 1)) if k else 0) for k in range(n + 1)]
    question = rf"How many \( {m} \times {n} \) matrices of rank \({r}\) are there over the field with \({q}\) elements?"
    return Draft(question, answer, counts[r], 7.0)


@LINEAR
def matrices_with_a_trace_and_determinant(rng: Random) -> Draft:
    p = rng.choice([5, 7, 11, 13])
    t, d = rng.randint(0, p - 1), rng.randint(0, p - 1)
    # one class of p^2 + (D/p) p matrices for the discriminant D, where D = 0 gives p^2
    symbol = _legendre((t * t - 4 * d) % p, p)
    answer = p * p + symbol * p
    check = sum(1 for a, b, c in product(range(p), repeat=3) if (a * (t - a) - b * c - d) % p == 0)
    question = (
        rf"Find the number of \( 2 \times 2 \) matrices over \( \mathbb{{F}}_{{{p}}} \) with trace \({t}\) and "
        rf"determinant \({d}\)."
    )
    return Draft(question, answer, check, 7.0)


def _legendre(a: int, p: int) -> int:
    return 0 if a == 0 else 1 if pow(a, (p - 1) // 2, p) == 1 else -1


@LINEAR
def nilpotent_classes(rng: Random) -> Draft:
    n, k = rng.randint(8, 14), rng.randint(3, 5)
    # partitions of n into parts of at most k: their number of parts, or their largest part
    ways = [1] + [0] * n
    for part in range(1, k + 1):
        for i in range(part, n + 1):
            ways[i] += ways[i - part]
    question = rf"Up to similarity, how many complex \( {n} \times {n} \) matrices \(A\) satisfy \( A^{{{k}}} = 0 \)?"
    return Draft(question, ways[n], _partitions_into_at_most(n, k), 7.0)


def _partitions_into_at_most(n: int, parts: int, largest: int | None = None) -> int:
    if n == 0:
        return 1
    if parts == 0:
        return 0
    return sum(_partitions_into_at_most(n - k, parts - 1, k) for k in range(min(n, largest or n), 0, -1))


@LINEAR
def trace_of_a_power(rng: Random) -> Draft:
    n, k = rng.randint(4, 6), rng.randint(4, 6)
    u = [rng.randint(1, 3) for _ in range(n)]
    v = [rng.choice([-1, 1, 2]) for _ in range(n)]
    c = rng.randint(1, 3)
    inner = sum(x * y for x, y in zip(u, v, strict=True))
    # c·I + u v^T has the eigenvalue c + <u, v> once and c otherwise
    answer = (c + inner) ** k + (n - 1) * c**k
    rows = [[u[i] * v[j] + (c if i == j else 0) for j in range(n)] for i in range(n)]
    check = (sympy.Matrix(rows) ** k).trace()
    question = rf"Let \( A = {matrix(rows)} \). Find the trace of \( A^{{{k}}} \)."
    return Draft(question, answer, check, 6.0)


@LINEAR
def cross_ratio_cauchy(rng: Random) -> Draft:
    n = rng.randint(3, 4)
    xs, ys = distinct(rng, 1, 7, n), distinct(rng, 0, 6, n)
    pairs = [(i, j) for i in range(n) for j in range(i)]
    answer = sympy.Rational(prod((xs[i] - xs[j]) * (ys[i] - ys[j]) for i, j in pairs), prod(x + y for x in xs for y in ys))
    check = sympy.Matrix(n, n, lambda i, j: sympy.Rational(1, xs[i] + ys[j])).det()
    rows = [[rf"\frac{{1}}{{{x + y}}}" for y in ys] for x in xs]
    return Draft(rf"Evaluate the determinant of \( {matrix(rows)} \) as a fraction.", answer, check, 6.5)
