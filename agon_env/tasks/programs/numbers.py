"""Kinds of problem about single numbers."""

from __future__ import annotations

import itertools
import math
from random import Random

from agon_env.tasks.programs.kind import Draft, integers, kind

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


@kind("numbers")
def count_multiples(rng: Random) -> Draft:
    """Integers up to n that are divisible by exactly one of two numbers."""
    a, b = rng.sample(range(2, 16), 2)
    return Draft(
        f"the number of integers from 1 to n (both included) that are divisible by {a} or by {b}, but not by both",
        (("n", "int"),),
        "int",
        f"    return sum((i % {a} == 0) != (i % {b} == 0) for i in range(1, n + 1))\n",
        lambda n: n // a + n // b - 2 * (n // math.lcm(a, b)),
        [(0,), (1,), (a,), (a * b,), *((n,) for n in integers(rng, 4, 50, 3000))],
        1,
    )


@kind("numbers")
def digit_sum_in_base(rng: Random) -> Draft:
    """Sum of digits in another base."""
    base = rng.choice([2, 3, 5, 7, 9, 12, 16, 20])
    return Draft(
        f"the sum of the digits of the non-negative integer n when it is written in base {base}",
        (("n", "int"),),
        "int",
        f"    total = 0\n    while n:\n        total += n % {base}\n        n //= {base}\n    return total\n",
        lambda n: n - (base - 1) * sum(n // base**i for i in range(1, 80)),
        [(0,), (1,), (base,), (base**3 - 1,), *((n,) for n in integers(rng, 4, 100, 10**9))],
        1,
    )


@kind("numbers")
def to_base(rng: Random) -> Draft:
    """A number as text in another base."""
    base = rng.choice([2, 3, 5, 7, 11, 13, 16, 36])
    return Draft(
        f"the non-negative integer n written in base {base}, as text. Digits above 9 are the lower-case letters a, b, "
        f"c, and so on",
        (("n", "int"),),
        "text",
        f'    digits = ""\n    while True:\n        digits = "{DIGITS}"[n % {base}] + digits\n        n //= {base}\n'
        "        if n == 0:\n            return digits\n",
        lambda n: "".join(DIGITS[n // base**i % base] for i in reversed(range(next(k for k in range(1, 80) if n < base**k)))),
        [(0,), (base - 1,), (base,), *((n,) for n in integers(rng, 5, 100, 10**8))],
        1.5,
    )


@kind("numbers")
def steps_to_one(rng: Random) -> Draft:
    """Steps of a Collatz-like rule, with a bound."""
    factor, limit = rng.choice([3, 5, 7]), rng.choice([50, 100, 200])

    def check(n: int) -> int:
        for steps in range(limit + 1):
            if n == 1:
                return steps
            n = n // 2 if n % 2 == 0 else factor * n + 1
        return -1

    return Draft(
        f"how many steps it takes to get from the positive integer n to 1, where a step halves an even number and "
        f"turns an odd "
        f"number m into {factor}*m + 1; -1 if more than {limit} steps would be needed",
        (("n", "int"),),
        "int",
        f"    steps = 0\n    while n != 1 and steps < {limit}:\n        n = {factor} * n + 1 if n % 2 else n // 2\n"
        "        steps += 1\n    return steps if n == 1 else -1\n",
        check,
        [(1,), (2,), (3,), (64,), *((n,) for n in integers(rng, 5, 5, 300))],
        1.5,
    )


@kind("numbers")
def nth_with_digit_property(rng: Random) -> Draft:
    """The n-th number with a property of its digit sum."""
    modulus, rest = rng.choice([(3, 1), (5, 2), (7, 0), (6, 4), (9, 5), (4, 3)])
    return Draft(
        f"the n-th smallest positive integer (counted from 1) whose decimal digits have a sum that leaves the "
        f"remainder {rest} "
        f"when divided by {modulus}",
        (("n", "int"),),
        "int",
        f"    value = 0\n    while n:\n        value += 1\n        if sum(map(int, str(value))) % {modulus} == {rest}:\n"
        "            n -= 1\n    return value\n",
        lambda n: [v for v in range(1, 12000) if sum(ord(c) - 48 for c in f"{v}") % modulus == rest][n - 1],
        [(1,), (2,), (3,), *((n,) for n in integers(rng, 5, 10, 1000))],
        2,
    )


@kind("numbers")
def exponent_in_product(rng: Random) -> Draft:
    """The exponent of a prime in a factorial or a product."""
    p, step = rng.choice([(2, 1), (3, 1), (5, 1), (2, 2), (3, 2), (5, 3), (7, 2)])
    described = "1 * 2 * 3 * ... * n" if step == 1 else f"1 * {1 + step} * {1 + 2 * step} * ... * (1 + {step}*(n - 1))"

    def check(n: int) -> int:
        product, power = math.prod(1 + step * i for i in range(n)), 0
        while product % p == 0:
            product, power = product // p, power + 1
        return power

    return Draft(
        f"the greatest k such that {p}**k divides the product of n factors {described}. For n = 0 the product is 1",
        (("n", "int"),),
        "int",
        f"    k = 0\n    for i in range(n):\n        factor = 1 + {step} * i\n        while factor % {p} == 0:\n"
        f"            factor //= {p}\n            k += 1\n    return k\n",
        check,
        [(0,), (1,), (p,), (p * p + 1,), *((n,) for n in integers(rng, 4, 20, 300))],
        2.5,
    )


@kind("numbers")
def count_pairs_by_gcd(rng: Random) -> Draft:
    """Pairs with a given greatest common divisor."""
    g = rng.randint(1, 6)
    return Draft(
        f"the number of pairs (i, j) with 1 <= i < j <= n whose greatest common divisor is exactly {g}",
        (("n", "int"),),
        "int",
        f"    from math import gcd\n    return sum(gcd(i, j) == {g} for j in range(1, n + 1) for i in range(1, j))\n",
        lambda n: sum(sum(math.gcd(i, j) == 1 for i in range(1, j)) for j in range(1, n // g + 1)),
        [(0,), (1,), (g,), (2 * g,), *((n,) for n in integers(rng, 4, 20, 150))],
        2.5,
    )


@kind("numbers")
def last_digits_of_recurrence(rng: Random) -> Draft:
    """A linear recurrence modulo a number, for large n."""
    a, b, m = rng.randint(1, 4), rng.randint(1, 4), rng.choice([97, 1000, 1009, 9973])

    def check(n: int) -> int:
        def times(p: tuple[int, ...], q: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(sum(p[2 * i + k] * q[2 * k + j] for k in (0, 1)) % m for i in (0, 1) for j in (0, 1))

        power: tuple[int, ...] = (1, 0, 0, 1)
        square: tuple[int, ...] = (a % m, b % m, 1, 0)
        while n:
            power, square, n = times(power, square) if n & 1 else power, times(square, square), n >> 1
        return power[2] % m

    return Draft(
        f"f(n) modulo {m}, where f(0) = 0, f(1) = 1, and f(k) = {a}*f(k-1) + {b}*f(k-2) for k >= 2",
        (("n", "int"),),
        "int",
        f"    x, y = 0, 1\n    for _ in range(n):\n        x, y = y, ({a} * y + {b} * x) % {m}\n    return x % {m}\n",
        check,
        [(0,), (1,), (2,), (3,), *((n,) for n in integers(rng, 4, 50, 20000))],
        2,
    )


@kind("numbers")
def count_digit_strings(rng: Random) -> Draft:
    """Codes of n symbols without a forbidden neighbourhood."""
    symbols, run = rng.choice([(2, 2), (2, 3), (3, 2), (3, 3), (4, 2), (4, 3)])
    letters = "abcd"[:symbols]

    def check(n: int) -> int:
        if n <= 7:
            return sum(
                not any(letter * run in "".join(code) for letter in letters) for code in itertools.product(letters, repeat=n)
            )
        counts = [symbols**k - symbols * (k == run) for k in range(run + 1)]
        while len(counts) <= n:
            counts.append((symbols - 1) * sum(counts[-i] for i in range(1, run)))
        return counts[n]

    return Draft(
        f"the number of texts of length n over the letters {', '.join(letters)} in which no letter stands {run} or "
        f"more times in a "
        "row. For n = 0 there is one such text, the empty one",
        (("n", "int"),),
        "int",
        f"    ending = [1] + [0] * {run - 1}\n    if n == 0:\n        return 1\n    ending = [{symbols}] + [0] * {run - 2}\n"
        f"    for _ in range(n - 1):\n        ending = [{symbols - 1} * sum(ending)] + ending[:-1]\n    return sum(ending)\n",
        check,
        [(0,), (1,), (2,), (3,), (5,), (7,), *((n,) for n in integers(rng, 3, 10, 60))],
        3.5,
    )
