"""Contest problems in the manner of the AIME: every answer is a whole number from 0 to 999. Checked by brute force."""

# ruff: noqa: D103 (the question says what a template is about)

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product
from math import comb, gcd, isqrt, lcm
from random import Random

import sympy

from agon_env.tasks.sample.template import Draft, template

CONTEST = template("Competition", sample="aime")

MOST = 999


def _within(value: int) -> bool:
    return 0 <= value <= MOST


@CONTEST
def last_three_digits(rng: Random) -> Draft:
    base, exponent = rng.randint(3, 97), rng.randint(500, 5000)
    value = 1
    for _ in range(exponent):
        value = value * base % 1000
    question = rf"Find the remainder when ${base}^{{{exponent}}} + {exponent}^{{{base}}}$ is divided by $1000$."
    other = 1
    for _ in range(base):
        other = other * exponent % 1000
    return Draft(question, (pow(base, exponent, 1000) + pow(exponent, base, 1000)) % 1000, (value + other) % 1000, 5)


@CONTEST
def fraction_of_a_probability(rng: Random) -> Draft:
    red, blue, drawn = rng.randint(4, 8), rng.randint(4, 8), rng.randint(3, 4)
    chance = Fraction(comb(red, drawn) + comb(blue, drawn), comb(red + blue, drawn))
    if not _within(chance.numerator + chance.denominator):
        return fraction_of_a_probability(rng)
    same = Fraction(0)
    for first, count in ((red, red), (blue, blue)):
        path = Fraction(first, red + blue)
        for k in range(1, drawn):
            path *= Fraction(count - k, red + blue - k)
        same += path
    question = (
        f"A bag holds ${red}$ red and ${blue}$ blue balls. ${drawn}$ balls are drawn at random without replacement. The "
        r"probability that all of them have the same color is $\tfrac{m}{n}$, where $m$ and $n$ are relatively prime positive "
        "integers. Find $m+n$."
    )
    return Draft(question, chance.numerator + chance.denominator, same.numerator + same.denominator, 4)


@CONTEST
def sequences_without_repeats(rng: Random) -> Draft:
    length = rng.randint(5, 12)
    run = rng.choice([3, 4])
    # sequences of heads and tails that end in a run of exactly j equal signs
    ends = [2] + [0] * (run - 2)
    for _ in range(length - 1):
        ends = [sum(ends), *ends[:-1]]
    if not _within(sum(ends)):
        return sequences_without_repeats(rng)
    counted = sum(
        1
        for tosses in product("HT", repeat=length)
        if not any(len(set(tosses[i : i + run])) == 1 for i in range(length - run + 1))
    )
    question = f"A coin is tossed ${length}$ times. How many sequences of tosses have no ${run}$ equal tosses in a row?"
    return Draft(question, sum(ends), counted, 5)


@CONTEST
def inclusion_exclusion(rng: Random) -> Draft:
    a, b, c = rng.sample([2, 3, 5, 6, 7, 10, 11, 13, 15], 3)
    n = rng.randint(600, 1800)

    def multiples(*numbers: int) -> int:
        return n // lcm(*numbers)

    union = (
        multiples(a) + multiples(b) + multiples(c) - multiples(a, b) - multiples(a, c) - multiples(b, c) + multiples(a, b, c)
    )
    if not _within(n - union):
        return inclusion_exclusion(rng)
    counted = sum(1 for x in range(1, n + 1) if x % a and x % b and x % c)
    question = f"How many positive integers not greater than ${n}$ are divisible by none of ${a}$, ${b}$ and ${c}$?"
    return Draft(question, n - union, counted, 4)


@CONTEST
def solutions_in_integers(rng: Random) -> Draft:
    n = rng.choice([144, 180, 240, 360, 420, 504, 720, 840, 900, 1260])
    k = rng.randint(1, 9)
    # (x - k)(y - k) = n
    answer = int(sympy.divisor_count(n))
    counted = sum(1 for x in range(k + 1, k + n + 1) if n % (x - k) == 0)
    question = (
        (
            f"Find the number of ordered pairs of integers $(x, y)$ with $x > {k}$ and $y > {k}$ that satisfy "
            f"$xy - {k}x - {k}y = {n - k * k}$."
        )
        .replace("1x", "x")
        .replace("1y", "y")
    )
    return Draft(question, answer, counted, 5)


@CONTEST
def digits_with_a_sum(rng: Random) -> Draft:
    length, total = rng.randint(3, 4), rng.randint(7, 24)
    ways = {0: 1}
    for place in range(length):
        step: dict[int, int] = {}
        for done, count in ways.items():
            for digit in range(1 if place == 0 else 0, 10):
                step[done + digit] = step.get(done + digit, 0) + count
        ways = step
    if not _within(ways.get(total, 0)):
        return digits_with_a_sum(rng)
    counted = sum(1 for x in range(10 ** (length - 1), 10**length) if sum(map(int, str(x))) == total)
    question = f"How many ${length}$-digit positive integers have digits that add up to ${total}$?"
    return Draft(question, ways.get(total, 0), counted, 4)


@CONTEST
def tangent_circles(rng: Random) -> Draft:
    a, b = rng.randint(2, 20), rng.randint(2, 20)
    # the outer common tangent of two circles that touch has the length 2 sqrt(ab): its square is asked for
    if not _within(4 * a * b):
        return tangent_circles(rng)
    question = (
        f"Two circles with the radii ${a}$ and ${b}$ touch each other from outside. A line that does not pass between them "
        "touches the circles at $P$ and $Q$. Find $PQ^2$."
    )
    return Draft(question, 4 * a * b, (a + b) ** 2 - (a - b) ** 2, 4)


@CONTEST
def recurrence_modulo(rng: Random) -> Draft:
    p, q, n = rng.randint(1, 5), rng.randint(1, 5), rng.randint(50, 400)
    x, y = 1, rng.randint(1, 9)
    start = y
    for _ in range(n - 2):
        x, y = y, (p * y + q * x) % 1000
    powers = sympy.Matrix([[p, q], [1, 0]]) ** (n - 2) * sympy.Matrix([start, 1])
    terms = " + ".join(f"{c if c > 1 else ''}a_{{n-{k}}}" for k, c in ((1, p), (2, q)))
    question = (
        f"Let $a_1 = 1$, $a_2 = {start}$, and $a_n = {terms}$ for $n \\ge 3$. Find the remainder when "
        f"$a_{{{n}}}$ is divided by $1000$."
    )
    return Draft(question, y, int(powers[0]) % 1000, 5)


@CONTEST
def squares_between(rng: Random) -> Draft:
    low = rng.randint(100, 5000)
    high = low + rng.randint(2000, 90000)
    question = f"How many perfect squares that are not perfect cubes lie strictly between ${low}$ and ${high}$?"
    sixth = [k for k in range(1, 8) if low < k**6 < high]
    answer = isqrt(high - 1) - isqrt(low) - len(sixth)
    cubes = {k**3 for k in range(1, 60)}
    return Draft(question, answer, sum(1 for k in range(1, 400) if low < k * k < high and k * k not in cubes), 3)


@CONTEST
def coprime_pairs(rng: Random) -> Draft:
    n = rng.randint(12, 55)
    answer = sum(int(sympy.totient(k)) for k in range(2, n + 1))
    if not _within(answer):
        return coprime_pairs(rng)
    counted = sum(1 for b in range(1, n + 1) for a in range(1, b) if gcd(a, b) == 1)
    question = f"How many fractions strictly between $0$ and $1$ are in lowest terms and have a denominator of at most ${n}$?"
    return Draft(question, answer, counted, 5)


@CONTEST
def subsets_without_neighbours(rng: Random) -> Draft:
    n, gap = rng.randint(8, 14), rng.randint(2, 3)
    counts = [1] * (gap + n + 1)
    for i in range(1, n + 1):
        counts[gap + i] = counts[gap + i - 1] + counts[i - 1 + gap - (gap - 1)]
    chosen = [[k for k in range(n) if mask >> k & 1] for mask in range(2**n)]
    counted = sum(1 for s in chosen if all(b - a >= gap for a, b in pairwise(s)))
    if not _within(counted):
        return subsets_without_neighbours(rng)
    question = (
        rf"How many subsets of $\{{1, 2, \ldots, {n}\}}$, the empty set included, contain no two different elements whose "
        f"difference is less than ${gap}$?"
    )
    return Draft(question, counts[gap + n], counted, 5)
