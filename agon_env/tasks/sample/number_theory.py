"""Congruences, orders, divisor sums and Diophantine counts. Theorems, checked by brute force."""

# ruff: noqa: D103 (the question says what a template is about)

from __future__ import annotations

from math import factorial, gcd, isqrt, prod
from random import Random

import sympy
from sympy.functions.combinatorial.numbers import mobius, totient
from sympy.ntheory.residue_ntheory import n_order

from agon_env.tasks.sample.template import Draft, distinct, matrix, template

NUMBERS = template("Number Theory")


@NUMBERS
def exponent_tower(rng: Random) -> Draft:
    a, b, c = rng.randint(3, 19), rng.randint(3, 12), rng.randint(5, 9)
    m = rng.choice([77, 91, 143, 187, 221, 247, 299, 323, 391, 437, 500, 625, 720, 1000])
    # the powers of a run into a cycle: find where, and reduce the exponent
    seen: dict[int, int] = {}
    powers: list[int] = []
    x = 1
    while x not in seen:
        seen[x] = len(powers)
        powers.append(x)
        x = x * a % m
    start, period = seen[x], len(powers) - seen[x]
    exponent = b**c
    answer = powers[exponent if exponent < start else start + (exponent - start) % period]
    question = rf"Find the remainder when \( {a}^{{{b}^{{{c}}}}} \) is divided by \({m}\)."
    return Draft(question, answer, pow(a, exponent, m), 5.5 if gcd(a, m) == 1 else 6.5)


@NUMBERS
def multiplicative_order(rng: Random) -> Draft:
    m = rng.choice([101, 113, 127, 143, 169, 187, 209, 221, 243, 289, 323, 343])
    a = rng.choice([a for a in range(2, 20) if gcd(a, m) == 1])
    k, x = 1, a % m
    while x != 1:
        x, k = x * a % m, k + 1
    question = rf"Determine the multiplicative order of \({a}\) modulo \({m}\)."
    return Draft(question, int(n_order(a, m)), k, 5.5)


@NUMBERS
def last_digits_of_recurrence(rng: Random) -> Draft:
    p, q = rng.randint(1, 4), rng.randint(1, 4)
    m, n = rng.choice([97, 100, 101, 103, 125, 128, 144, 1000]), rng.randint(1000, 9999)
    a0, a1 = rng.randint(0, 3), rng.randint(1, 5)
    x, y = a0, a1
    for _ in range(n - 1):
        x, y = y, (p * y + q * x) % m

    def times(left: list[int], right: list[int]) -> list[int]:
        (a, b, c, d), (e, f, g, h) = left, right
        return [(a * e + b * g) % m, (a * f + b * h) % m, (c * e + d * g) % m, (c * f + d * h) % m]

    power, base, k = [1, 0, 0, 1], [p, q, 1, 0], n - 1
    while k:
        power, base, k = times(power, base) if k & 1 else power, times(base, base), k >> 1
    step = f"{p}a_{{k+1}} + {q}a_k".replace("1a_", "a_")
    question = (
        rf"A sequence satisfies \( a_0 = {a0},\ a_1 = {a1} \) and \( a_{{k+2}} = {step} \). "
        rf"Find the remainder of \( a_{{{n}}} \) modulo \({m}\)."
    )
    return Draft(question, (power[0] * a1 + power[1] * a0) % m, y, 6.0)


@NUMBERS
def quadratic_congruence(rng: Random) -> Draft:
    primes = sorted(rng.sample([3, 5, 7, 11, 13, 17], rng.randint(2, 3)))
    twos = rng.randint(0, 4)
    n = 2**twos * prod(primes)
    root = rng.choice([x for x in range(3, n) if gcd(x, n) == 1])
    a = root * root % n
    # two square roots modulo each odd prime; 1, 1, 2, 4, 4 modulo 1, 2, 4, 8, 16
    answer = (1, 1, 2, 4, 4)[twos] * 2 ** len(primes)
    check = sum(1 for x in range(n) if (x * x - a) % n == 0)
    return Draft(
        rf"How many solutions modulo \({n}\) does the congruence \( x^2 \equiv {a} \pmod{{{n}}} \) have?", answer, check, 6.0
    )


@NUMBERS
def trailing_zeros_in_base(rng: Random) -> Draft:
    n, base = rng.randint(200, 900), rng.choice([12, 18, 24, 45, 48, 50, 60, 72, 75, 80, 90, 96, 98])

    def legendre(p: int) -> int:
        count, power = 0, p
        while power <= n:
            count, power = count + n // power, power * p
        return count

    answer = min(legendre(p) // k for p, k in sympy.factorint(base).items())
    value, check = factorial(n), 0
    while value % base == 0:
        value, check = value // base, check + 1
    return Draft(rf"With how many zeros does \( {n}! \) end when it is written in base \({base}\)?", answer, check, 5.0)


@NUMBERS
def gcd_sum(rng: Random) -> Draft:
    n = rng.choice([360, 420, 504, 540, 600, 660, 720, 756, 840, 900, 945, 990, 1008, 1080, 1260, 1500])
    answer = prod(p ** (k - 1) * ((p - 1) * k + p) for p, k in sympy.factorint(n).items())
    check = sum(gcd(k, n) for k in range(1, n + 1))
    return Draft(rf"Evaluate \( \sum_{{k=1}}^{{{n}}} \gcd(k, {n}) \).", answer, check, 6.5)


@NUMBERS
def totient_divisor_sum(rng: Random) -> Draft:
    n = rng.choice([144, 180, 200, 240, 252, 288, 300, 336, 360, 400, 432, 450, 480, 504])
    answer = prod(1 + sum(p**k * (p**k - p ** (k - 1)) for k in range(1, e + 1)) for p, e in sympy.factorint(n).items())
    check = sum(d * sum(1 for k in range(1, d + 1) if gcd(k, d) == 1) for d in range(1, n + 1) if n % d == 0)
    question = rf"Let \( \varphi \) be Euler's totient function. Compute \( \sum_{{d \mid {n}}} d\,\varphi(d) \)."
    return Draft(question, answer, check, 6.0)


@NUMBERS
def pell_equation(rng: Random) -> Draft:
    d = rng.choice([13, 19, 22, 29, 31, 41, 43, 46, 53, 58, 59, 67, 71, 73, 74, 86, 89])
    # convergents of the continued fraction of sqrt(d)
    m, denominator, a = 0, 1, isqrt(d)
    h, h1, k, k1 = a, 1, 1, 0
    while h * h - d * k * k != 1:
        m = denominator * a - m
        denominator = (d - m * m) // denominator
        a = (isqrt(d) + m) // denominator
        h, h1, k, k1 = a * h + h1, h, a * k + k1, k
    y = 1
    while isqrt(d * y * y + 1) ** 2 != d * y * y + 1:
        y += 1
    question = (
        rf"Find the smallest positive integer \(x\) for which \( x^2 - {d}y^2 = 1 \) has a solution in positive integers \(y\)."
    )
    return Draft(question, h, isqrt(d * y * y + 1), 6.5)


@NUMBERS
def frobenius_number(rng: Random) -> Draft:
    a, b, c = next(t for t in iter(lambda: distinct(rng, 7, 40, 3), None) if gcd(*t) == 1 and t[1] % t[0] and t[2] % t[0])
    # the least representable number in every class modulo a
    least = {0: 0}
    queue = [0]
    while queue:
        queue.sort()
        value = queue.pop(0)
        if value > least[value % a]:
            continue
        for step in (b, c):
            if value + step < least.get((value + step) % a, 10**9):
                least[(value + step) % a] = value + step
                queue.append(value + step)
    limit = a * b * c
    reachable = [True] + [False] * limit
    for n in range(1, limit + 1):
        reachable[n] = any(n >= step and reachable[n - step] for step in (a, b, c))
    check = max(n for n in range(limit + 1) if not reachable[n])
    question = (
        rf"What is the largest integer that cannot be written as \( {a}x + {b}y + {c}z \) with nonnegative "
        rf"integers \( x, y, z \)?"
    )
    return Draft(question, max(least.values()) - a, check, 6.5)


@NUMBERS
def primitive_characters(rng: Random) -> Draft:
    n = rng.choice([48, 60, 63, 72, 75, 80, 96, 99, 100, 108, 117, 120, 135, 144, 175, 180, 200, 225])
    answer = prod(p - 2 if k == 1 else p ** (k - 2) * (p - 1) ** 2 for p, k in sympy.factorint(n).items())
    check = sum(int(totient(d)) * int(mobius(n // d)) for d in range(1, n + 1) if n % d == 0)
    return Draft(rf"How many primitive Dirichlet characters modulo \({n}\) are there?", answer, check, 8.0)


@NUMBERS
def points_on_a_conic(rng: Random) -> Draft:
    p = rng.choice([23, 29, 31, 37, 41, 43, 47, 53])
    a, c = rng.randint(2, 6), rng.randint(1, p - 1)
    answer = p - int(sympy.legendre_symbol(-a % p, p))
    check = sum(1 for x in range(p) for y in range(p) if (x * x + a * y * y - c) % p == 0)
    question = (
        rf"Find the number of pairs \( (x, y) \) of residues modulo \({p}\) with \( x^2 + {a}y^2 \equiv {c} \pmod{{{p}}} \)."
    )
    return Draft(question, answer, check, 7.0)


@NUMBERS
def sums_of_two_squares(rng: Random) -> Draft:
    n = rng.choice([325, 425, 650, 725, 845, 850, 925, 1025, 1105, 1300, 1450, 1625, 1690, 1885, 2125, 2210, 2405, 2465])
    divisors = [d for d in range(1, n + 1) if n % d == 0]
    answer = 4 * (sum(d % 4 == 1 for d in divisors) - sum(d % 4 == 3 for d in divisors))
    side = isqrt(n)
    check = sum(x * x + y * y == n for x in range(-side, side + 1) for y in range(-side, side + 1))
    return Draft(rf"How many pairs of integers \( (x, y) \) satisfy \( x^2 + y^2 = {n} \)?", answer, check, 6.0)


@NUMBERS
def matrix_order(rng: Random) -> Draft:
    p = rng.choice([5, 7, 11, 13])
    t, d = rng.randint(1, p - 1), rng.randint(1, p - 1)
    # the companion matrix of x^2 - t x + d has the order of x in F_p[x]/(x^2 - t x + d)
    u, v, answer = 1, 0, 1  # u x + v
    while (u, v) != (0, 1):
        u, v, answer = (u * t + v) % p, -u * d % p, answer + 1
    rows = [[0, -d % p], [1, t]]
    power, check = rows, 1
    while power != [[1, 0], [0, 1]]:
        power = [[sum(power[i][k] * rows[k][j] for k in range(2)) % p for j in range(2)] for i in range(2)]
        check += 1
    question = rf"Find the order of the matrix \( {matrix(rows)} \) in the group \( GL_2(\mathbb{{F}}_{{{p}}}) \)."
    return Draft(question, answer, check, 7.5)
