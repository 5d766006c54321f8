"""Kinds of problem about lists of integers."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

from agon_env.tasks.programs.kind import Draft, Type, integers, kind, lists

NUMBERS: tuple[tuple[str, Type], ...] = (("numbers", "ints"),)


def _tests(rng: Random, low: int, high: int, *, sizes: tuple[int, ...] = (1, 2, 5, 8, 12, 20, 30)) -> list[tuple[Any, ...]]:
    return [(numbers,) for numbers in lists(rng, sizes, low, high)]


@kind("lists")
def best_window(rng: Random) -> Draft:
    """The extreme sum of neighbours."""
    k, best = rng.randint(2, 5), rng.choice(["greatest", "least"])
    function = {"greatest": "max", "least": "min"}[best]
    pick = max if best == "greatest" else min
    return Draft(
        f"the {best} sum of {k} neighbouring elements of numbers, which has at least {k} elements",
        NUMBERS,
        "int",
        f"    return {function}(sum(numbers[i : i + {k}]) for i in range(len(numbers) - {k} + 1))\n",
        lambda numbers: pick(sum(window) for window in zip(*(numbers[i:] for i in range(k)), strict=False)),
        _tests(rng, -50, 50, sizes=(k, k + 1, k + 3, 10, 20, 40)),
        1.5,
    )


@kind("lists")
def best_run(rng: Random) -> Draft:
    """The greatest sum of a contiguous part, with a bound on its length."""
    least = rng.randint(1, 4)
    return Draft(
        f"the greatest possible sum of at least {least} neighbouring elements of numbers, which has at least {least} elements",
        NUMBERS,
        "int",
        "    best = None\n    for i in range(len(numbers)):\n        total = 0\n        for j in range(i, len(numbers)):\n"
        f"            total += numbers[j]\n            if j - i + 1 >= {least} and (best is None or total > best):\n"
        "                best = total\n    return best\n",
        lambda numbers: max(sum(numbers[i:j]) for j in range(len(numbers) + 1) for i in range(j - least + 1)),
        _tests(rng, -40, 30, sizes=(least, least + 1, 6, 10, 20, 40)),
        2.5,
    )


@kind("lists")
def count_pairs_with_sum(rng: Random) -> Draft:
    """Pairs of positions whose sum has a property."""
    modulus = rng.randint(2, 9)
    rest = rng.randrange(modulus)
    return Draft(
        f"the number of pairs of positions i < j such that (numbers[i] + numbers[j]) % {modulus} == {rest} (with the "
        f"remainder from 0 "
        f"to {modulus - 1}, as in Python)",
        NUMBERS,
        "int",
        "    count = 0\n    for j in range(len(numbers)):\n        for i in range(j):\n"
        f"            count += (numbers[i] + numbers[j]) % {modulus} == {rest}\n    return count\n",
        lambda numbers: sum((a + b) % modulus == rest for a, b in itertools.combinations(numbers, 2)),
        [([],), *_tests(rng, -100, 100)],
        2,
    )


@kind("lists")
def longest_chain(rng: Random) -> Draft:
    """The longest subsequence with a step condition."""
    step = rng.randint(1, 5)

    def check(numbers: list[int]) -> int:
        best: list[int] = []
        for i, value in enumerate(numbers):
            best.append(1 + max((best[j] for j in range(i) if value - numbers[j] >= step), default=0))
        return max(best, default=0)

    return Draft(
        f"the length of the longest subsequence of numbers (elements in their order, not necessarily neighbours) in "
        f"which each element "
        f"exceeds the one before it by at least {step}; 0 for an empty list",
        NUMBERS,
        "int",
        "    ends = {}\n    for value in numbers:\n"
        f"        length = 1 + max((n for end, n in ends.items() if end + {step} <= value), default=0)\n"
        "        ends[value] = max(ends.get(value, 0), length)\n    return max(ends.values(), default=0)\n",
        check,
        [([],), *_tests(rng, 0, 40)],
        3.5,
    )


@kind("lists")
def rotate_and_combine(rng: Random) -> Draft:
    """Combine a list with its own rotation."""
    k, sign = rng.randint(1, 4), rng.choice(["+", "-"])
    return Draft(
        f"a list of the same length whose element at position i is numbers[i] {sign} the element {k} places further "
        f"on, where counting "
        "starts again at the first element after the last one. The list is not empty",
        NUMBERS,
        "ints",
        f"    n = len(numbers)\n    return [numbers[i] {sign} numbers[(i + {k}) % n] for i in range(n)]\n",
        lambda numbers: [
            a + b if sign == "+" else a - b
            for a, b in zip(numbers, itertools.islice(itertools.cycle(numbers), k, None), strict=False)
        ],
        _tests(rng, -20, 20, sizes=(1, 2, 3, 5, 8, 13)),
        1.5,
    )


@kind("lists")
def sort_by_key(rng: Random) -> Draft:
    """Sort by an unusual key, ties by value."""
    modulus, order = rng.randint(3, 11), rng.choice(["increasing", "decreasing"])
    sign = "" if order == "increasing" else "-"
    return Draft(
        f"the elements of numbers (non-negative integers) sorted by their remainder when divided by {modulus}, from "
        f"the least to the "
        f"greatest; elements with the same remainder stand in {order} order",
        NUMBERS,
        "ints",
        f"    return sorted(numbers, key=lambda x: (x % {modulus}, {sign}x))\n",
        lambda numbers: [
            x
            for rest in range(modulus)
            for x in sorted((y for y in numbers if y % modulus == rest), reverse=order == "decreasing")
        ],
        _tests(rng, 0, 99),
        2,
    )


@kind("lists")
def remove_neighbours(rng: Random) -> Draft:
    """A stack: neighbours with a property vanish."""
    total = rng.randint(5, 12)

    def check(numbers: list[int]) -> list[int]:
        rest = list(numbers)
        i = 0
        while i + 1 < len(rest):
            if rest[i] + rest[i + 1] == total:
                del rest[i : i + 2]
                i = max(i - 1, 0)
            else:
                i += 1
        return rest

    return Draft(
        f"what is left of numbers when, reading from the left, an element is put on a stack unless it and the top of "
        f"the stack have the "
        f"sum {total}: then both vanish. The result lists the stack from bottom to top",
        NUMBERS,
        "ints",
        f"    stack = []\n    for x in numbers:\n        if stack and stack[-1] + x == {total}:\n            stack.pop()\n"
        "        else:\n            stack.append(x)\n    return stack\n",
        check,
        [([],), *_tests(rng, 1, total - 1, sizes=(2, 5, 10, 20, 40, 60))],
        2.5,
    )


@kind("lists")
def ways_to_pay(rng: Random) -> Draft:
    """Coin change: number of ways."""
    coins = sorted(rng.sample([1, 2, 3, 4, 5, 7, 10, 12, 20], 3))

    def check(amount: int) -> int:
        a, b, c = coins
        return sum((amount - i * c - j * b) % a == 0 for i in range(amount // c + 1) for j in range((amount - i * c) // b + 1))

    shown = ", ".join(map(str, coins))
    return Draft(
        f"in how many ways the amount can be paid with coins of {shown}, of which there is no shortage; the order of "
        f"the coins does not "
        "count. There is one way to pay 0",
        (("amount", "int"),),
        "int",
        f"    ways = [1] + [0] * amount\n    for coin in ({shown}):\n        for total in range(coin, amount + 1):\n"
        "            ways[total] += ways[total - coin]\n    return ways[amount]\n",
        check,
        [(0,), (1,), (coins[0],), *((n,) for n in integers(rng, 5, 10, 300))],
        3,
    )


@kind("lists")
def fewest_coins(rng: Random) -> Draft:
    """Coin change: fewest coins, where greed fails."""
    coins = rng.choice([(1, 3, 4), (1, 5, 8), (2, 5, 6), (3, 7, 8), (4, 9, 11), (1, 7, 10), (5, 6, 9)])
    shown = ", ".join(map(str, coins))

    def check(amount: int) -> int:
        reached, count = {0}, 0
        while amount not in reached:
            reached, count = {r + c for r in reached for c in coins if r + c <= amount}, count + 1
            if not reached:
                return -1
        return count

    return Draft(
        f"the least number of coins of {shown} that make up the amount exactly, -1 if none do",
        (("amount", "int"),),
        "int",
        f"    best = [0] + [None] * amount\n    for total in range(1, amount + 1):\n"
        f"        known = [best[total - c] for c in ({shown}) if c <= total and best[total - c] is not None]\n"
        "        best[total] = 1 + min(known) if known else None\n    return -1 if best[amount] is None else best[amount]\n",
        check,
        [(0,), (1,), (2,), (12,), *((n,) for n in integers(rng, 5, 10, 200))],
        3,
    )


@kind("lists")
def first_reaching(rng: Random) -> Draft:
    """Where a running total first reaches a bound."""
    power = rng.choice([1, 2, 3])
    term = "" if power == 1 else f"**{power}"

    def check(numbers: list[int], bound: int) -> int:
        totals = itertools.accumulate((x**power for x in numbers), initial=0)
        return next((count for count, total in enumerate(totals) if total >= bound), -1)

    return Draft(
        f"the number of elements, counted from the left, after which the sum of numbers[i]{term} is for the first "
        f"time at least bound; -1 if "
        "that never happens. If bound is 0 or less, the result is 0",
        (("numbers", "ints"), ("bound", "int")),
        "int",
        f"    total = 0\n    if bound <= 0:\n        return 0\n    for count, x in enumerate(numbers, 1):\n"
        f"        total += x{term}\n"
        "        if total >= bound:\n            return count\n    return -1\n",
        check,
        [
            ([], 0),
            ([], 1),
            ([3, 4], -2),
            *((numbers, rng.randint(1, 9**power * 6)) for numbers in lists(rng, (3, 5, 8, 12, 20, 30), 0, 9)),
        ],
        1.5,
    )


@kind("lists")
def best_apart(rng: Random) -> Draft:
    """The best choice with a distance between the chosen."""
    gap = rng.randint(1, 4)

    def check(numbers: list[int]) -> int:
        best = [0] * (len(numbers) + gap + 1)
        for i in reversed(range(len(numbers))):
            best[i] = max(best[i + 1], numbers[i] + best[i + gap + 1])
        return best[0]

    distance = f"at least {gap} other elements stand" if gap > 1 else "at least one other element stands"
    return Draft(
        f"the greatest sum of elements of numbers (non-negative integers) that can be chosen so that between any two "
        f"of the chosen "
        f"{distance}; 0 if nothing is chosen",
        NUMBERS,
        "int",
        "    best = [0]\n    for i, x in enumerate(numbers):\n"
        f"        best.append(max(best[i], x + best[max(i - {gap}, 0)]))\n    return best[-1]\n",
        check,
        [([],), *_tests(rng, 0, 60)],
        3.5,
    )


@kind("lists")
def josephus(rng: Random) -> Draft:
    """The order in which people leave a circle."""
    k = rng.randint(2, 7)

    def check(n: int) -> int:
        survivor = 0
        for size in range(2, n + 1):
            survivor = (survivor + k) % size
        return survivor + 1

    return Draft(
        f"who is left last: n people with the numbers 1 to n stand in a circle; counting starts at 1, each time {k} "
        f"people have been counted, the last of them leaves, "
        "and counting goes on with the next one, until one is left",
        (("n", "int"),),
        "int",
        f"    circle = list(range(1, n + 1))\n    at = 0\n    while len(circle) > 1:\n"
        f"        at = (at + {k - 1}) % len(circle)\n"
        "        del circle[at]\n    return circle[0]\n",
        check,
        [(1,), (2,), (3,), *((n,) for n in integers(rng, 5, 5, 400))],
        2.5,
    )
