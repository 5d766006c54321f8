"""Waiting times, walks, urns and order statistics. Formulas, checked by a linear system, a recursion or enumeration."""

# ruff: noqa: D103 (the question says what a template is about)

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb, factorial, floor
from random import Random

import sympy

from agon_env.tasks.sample.template import Draft, latex, solve, template

CHANCE = template("Probability")


@CHANCE
def waiting_for_a_pattern(rng: Random) -> Draft:
    n = rng.randint(4, 5)
    pattern = "".join(rng.choice("HT") for _ in range(n))
    p = rng.choice([Fraction(1, 2), Fraction(1, 3), Fraction(2, 3), Fraction(1, 4)])
    chance = {"H": p, "T": 1 - p}

    def weight(word: str) -> Fraction:
        value = Fraction(1)
        for letter in word:
            value /= chance[letter]
        return value

    # Conway: every prefix that is also a suffix adds the inverse of its probability
    answer = sum((weight(pattern[:k]) for k in range(1, n + 1) if pattern.endswith(pattern[:k])), Fraction())
    rows = [[Fraction(int(i == j)) for j in range(n)] for i in range(n)]
    for i in range(n):
        for letter, q in chance.items():
            word = pattern[:i] + letter
            k = next(k for k in range(len(word), -1, -1) if pattern[:k] == word[len(word) - k :])
            if k < n:
                rows[i][k] -= q
    check = solve(rows, [1] * n)[0]
    question = (
        rf"A coin shows heads with probability \( {latex(p)} \). It is tossed until the pattern {pattern} "
        rf"appears in consecutive "
        "tosses for the first time. What is the expected number of tosses?"
    )
    return Draft(question, answer, check, 6.0 if p == Fraction(1, 2) else 6.5)


@CHANCE
def gamblers_duration(rng: Random) -> Draft:
    n = rng.randint(5, 8)
    k = rng.randint(1, n - 1)
    p = rng.choice([Fraction(1, 3), Fraction(2, 3), Fraction(2, 5), Fraction(3, 5), Fraction(1, 4), Fraction(3, 4)])
    r = (1 - p) / p
    ruin = (r**k - r**n) / (1 - r**n)
    answer = (n * (1 - ruin) - k) / (2 * p - 1)  # Wald's identity
    rows = [[Fraction(int(i == j)) for j in range(n - 1)] for i in range(n - 1)]
    for i in range(n - 1):
        if i + 1 < n - 1:
            rows[i][i + 1] -= p
        if i:
            rows[i][i - 1] -= 1 - p
    check = solve(rows, [1] * (n - 1))[k - 1]
    question = (
        rf"A walk on the integers starts at \({k}\); each step is \(+1\) with probability \( {latex(p)} \) and "
        rf"\(-1\) otherwise. "
        rf"Find the expected number of steps until it reaches \(0\) or \({n}\)."
    )
    return Draft(question, answer, check, 6.0)


@CHANCE
def coupons_in_pairs(rng: Random) -> Draft:
    n = rng.randint(5, 8)
    # inclusion and exclusion over the coupons still missing, two different ones a draw
    answer = sum(
        ((-1) ** (j + 1) * comb(n, j) / (1 - Fraction(comb(n - j, 2), comb(n, 2))) for j in range(1, n + 1)),
        Fraction(),
    )
    expected = [Fraction(0)] * (n + 1)
    for missing in range(1, n + 1):
        stay = Fraction(comb(n - missing, 2), comb(n, 2))
        one = Fraction(missing * (n - missing), comb(n, 2))
        two = Fraction(comb(missing, 2), comb(n, 2))
        later = one * expected[missing - 1] + (two * expected[missing - 2] if missing > 1 else 0)
        expected[missing] = (1 + later) / (1 - stay)
    question = (
        rf"A packet holds two different stickers, a random pair out of \({n}\) kinds. What is the expected "
        rf"number of packets needed "
        "to collect all kinds?"
    )
    return Draft(question, answer, expected[n], 7.0)


@CHANCE
def cube_hitting_time(rng: Random) -> Draft:
    d = rng.randint(3, 7)
    k = rng.randint(1, d)
    # steps from distance j to j - 1 form a chain of first passages
    passage = [Fraction(0)] * (d + 1)
    for j in range(d, 0, -1):
        passage[j] = Fraction(d, j) + (Fraction(d - j, j) * passage[j + 1] if j < d else 0)
    rows = [[Fraction(int(i == j)) for j in range(d)] for i in range(d)]
    for j in range(1, d + 1):
        if j > 1:
            rows[j - 1][j - 2] -= Fraction(j, d)
        if j < d:
            rows[j - 1][j] -= Fraction(d - j, d)
    check = solve(rows, [1] * d)[k - 1]
    question = (
        rf"A bug walks on the vertices of the \({d}\)-dimensional cube and moves along a random edge in every "
        rf"step. It starts at "
        rf"distance \({k}\) from a vertex \(v\) (the least number of edges to it). Find the expected number of steps until it "
        r"first visits \(v\)."
    )
    return Draft(question, sum(passage[1 : k + 1], Fraction()), check, 7.5)


@CHANCE
def dice_order_statistic(rng: Random) -> Draft:
    n, s = rng.randint(3, 5), rng.choice([4, 6, 8])
    k = rng.randint(2, n)
    # the sum over m of P(the k-th smallest is at least m)
    answer = sum(
        (
            sum(
                (comb(n, j) * Fraction(m - 1, s) ** j * Fraction(s - m + 1, s) ** (n - j) for j in range(k)),
                Fraction(),
            )
            for m in range(1, s + 1)
        ),
        Fraction(),
    )
    rolls = [sorted(roll)[k - 1] for roll in product(range(1, s + 1), repeat=n)]
    place = {2: "second", 3: "third", 4: "fourth", 5: "fifth"}[k]
    question = (
        rf"\({n}\) fair dice with faces \( 1, \dots, {s} \) are rolled, and the results are put in increasing "
        rf"order. What is the "
        rf"expected value of the {place} smallest?"
    )
    return Draft(question, answer, Fraction(sum(rolls), len(rolls)), 6.0)


@CHANCE
def sum_of_uniforms(rng: Random) -> Draft:
    n = rng.randint(4, 6)
    t = Fraction(rng.choice([t for t in range(3, 2 * n - 2) if t != n]), 2)
    answer = Fraction(1, factorial(n)) * sum(((-1) ** k * comb(n, k) * (t - k) ** n for k in range(floor(t) + 1)), Fraction())

    def density(m: int, x: Fraction) -> Fraction:
        if m == 1:
            return Fraction(int(0 <= x < 1))
        return (x * density(m - 1, x) + (m - x) * density(m - 1, x - 1)) / (m - 1)

    # the density of one more variable is the difference of two values of the distribution function
    check = sum((density(n + 1, t - k) for k in range(floor(t) + 1)), Fraction())
    question = (
        rf"Let \( U_1, \dots, U_{n} \) be independent and uniform on \( [0,1] \). Find the probability that "
        rf"\( U_1 + \cdots + U_{n} \le {latex(t)} \)."
    )
    return Draft(question, answer, check, 7.0)


@CHANCE
def polya_urn(rng: Random) -> Draft:
    red, blue, n = rng.randint(1, 4), rng.randint(1, 4), rng.randint(5, 8)
    k = rng.randint(1, n - 1)
    answer = Fraction(comb(red + k - 1, k) * comb(blue + n - k - 1, n - k), comb(red + blue + n - 1, n))
    chances = {0: Fraction(1)}
    for step in range(n):
        following: dict[int, Fraction] = {}
        for drawn, chance in chances.items():
            p = Fraction(red + drawn, red + blue + step)
            following[drawn + 1] = following.get(drawn + 1, Fraction()) + chance * p
            following[drawn] = following.get(drawn, Fraction()) + chance * (1 - p)
        chances = following
    question = (
        rf"An urn holds \({red}\) red and \({blue}\) blue balls. A random ball is drawn and put back together "
        rf"with one more ball of "
        rf"its colour; this is done \({n}\) times. What is the probability that exactly \({k}\) of the drawn balls are red?"
    )
    return Draft(question, answer, chances[k], 6.0)


@CHANCE
def cycle_cover_time(rng: Random) -> Draft:
    n = rng.randint(7, 20)
    j = rng.randint(5, n)
    # each new vertex is found from the end of an arc of m visited ones: gambler's ruin takes m steps
    answer = sum(range(1, j))
    check = Fraction()
    for m in range(1, j):
        rows = [[Fraction(int(a == b)) - Fraction(int(abs(a - b) == 1), 2) for b in range(m)] for a in range(m)]
        check += solve(rows, [1] * m)[0]
    question = (
        rf"A symmetric random walk moves on a cycle of \({n}\) vertices. What is the expected number of steps "
        rf"until it has visited "
        rf"\({j}\) different vertices, the starting vertex included?"
    )
    return Draft(question, answer, check, 6.5)


@CHANCE
def absorbing_chain(rng: Random) -> Draft:
    denominator = rng.choice([4, 5, 6, 8])
    while True:
        rows = [[rng.randint(0, denominator // 2) for _ in range(3)] for _ in range(3)]
        if all(sum(row) < denominator and row.count(0) < 2 for row in rows):
            break
    moves = [[Fraction(x, denominator) for x in row] for row in rows]
    answer = solve([[Fraction(int(i == j)) - moves[i][j] for j in range(3)] for i in range(3)], [1] * 3)[0]
    state, check = [1.0, 0.0, 0.0], 0.0
    for _ in range(4000):
        check += sum(state)
        state = [sum(state[i] * float(moves[i][j]) for i in range(3)) for j in range(3)]
    table = r" \\ ".join(" & ".join(latex(x) for x in row) for row in moves)
    question = (
        r"A Markov chain has the states \(1, 2, 3\) and an absorbing state \(0\). The probabilities of moving among "
        rf"\(1, 2, 3\) are the entries of \( \begin{{pmatrix}} {table} \end{{pmatrix}} \) (row \(i\): from "
        rf"state \(i\)); the rest "
        r"of each row leads to \(0\). Starting in state \(1\), what is the expected number of steps until absorption?"
    )
    return Draft(question, answer, check, 6.0)


@CHANCE
def empty_boxes_variance(rng: Random) -> Draft:
    balls, boxes = rng.randint(3, 6), rng.randint(3, 6)
    one = Fraction(boxes - 1, boxes) ** balls
    two = Fraction(boxes - 2, boxes) ** balls
    answer = boxes * one + boxes * (boxes - 1) * two - (boxes * one) ** 2
    chances = {0: Fraction(1)}  # occupied boxes → probability
    for _ in range(balls):
        following: dict[int, Fraction] = {}
        for occupied, chance in chances.items():
            hit = Fraction(occupied, boxes)
            following[occupied] = following.get(occupied, Fraction()) + chance * hit
            following[occupied + 1] = following.get(occupied + 1, Fraction()) + chance * (1 - hit)
        chances = following
    mean = sum((p * k for k, p in chances.items()), Fraction())
    check = sum((p * (k - mean) ** 2 for k, p in chances.items()), Fraction())
    question = (
        rf"\({balls}\) distinct balls are thrown independently and uniformly into \({boxes}\) boxes. Find the variance of the "
        "number of empty boxes."
    )
    return Draft(question, answer, check, 6.5)


@CHANCE
def maximum_of_exponentials(rng: Random) -> Draft:
    rates = sorted(rng.sample(range(1, 8), 3))
    a, b, c = rates
    # inclusion and exclusion over the minima
    answer = (
        sum((Fraction(1, r) for r in rates), Fraction())
        - Fraction(1, a + b)
        - Fraction(1, a + c)
        - Fraction(1, b + c)
        + Fraction(1, a + b + c)
    )
    t = sympy.Symbol("t", positive=True)
    tail = sympy.expand(1 - sympy.prod([1 - sympy.exp(-r * t) for r in rates]))
    check = sympy.integrate(tail, (t, 0, sympy.oo))
    question = (
        rf"Three independent lamps have exponential lifetimes with rates \( {a}, {b}, {c} \). What is the "
        rf"expected time until the "
        "last of them has failed?"
    )
    return Draft(question, answer, check, 5.5)
