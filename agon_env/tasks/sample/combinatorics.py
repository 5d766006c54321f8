"""Counting: symmetry, inclusion and exclusion, paths, words, graphs. Formulas, checked by enumeration or another recursion."""

# ruff: noqa: D103 (the question says what a template is about)

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import permutations, product
from math import comb, factorial, gcd, prod
from random import Random

from agon_env.tasks.sample.template import Draft, determinant, distinct, template

COUNTING = template("Combinatorics")
GRAPHS = template("Graph Theory")


@COUNTING
def necklaces(rng: Random) -> Draft:
    n, k = rng.choice([(6, 3), (6, 4), (6, 5), (8, 3), (9, 2), (10, 2), (12, 2), (9, 3), (8, 2), (5, 5), (7, 3), (6, 2)])
    answer = sum(k ** gcd(n, i) for i in range(n)) // n
    check = len({min(word[i:] + word[:i] for i in range(n)) for word in product(range(k), repeat=n)})
    question = (
        rf"Each of \({n}\) beads on a ring is painted in one of \({k}\) colours. Two paintings are the same if "
        rf"a rotation of the "
        "ring takes one to the other. How many different paintings are there?"
    )
    return Draft(question, answer, check, 6.0)


@COUNTING
def bracelets_with_counts(rng: Random) -> Draft:
    counts = rng.choice(
        [(2, 2, 2), (4, 2, 2), (3, 3, 2), (4, 4), (6, 3), (3, 3, 3), (4, 3, 2), (6, 4), (5, 3), (2, 2, 4), (6, 2), (5, 4)]
    )
    n = sum(counts)
    turns = [tuple((i + r) % n for i in range(n)) for r in range(n)]
    symmetries = turns + [tuple(-i % n for i in turn) for turn in turns]
    answer = sum(_fixed(_cycle_lengths(symmetry), counts) for symmetry in symmetries) // (2 * n)
    seen = set()
    for word in set(_arrangements(counts)):
        turned = [word[i:] + word[:i] for i in range(n)]
        seen.add(min(turned + [other[::-1] for other in turned]))
    names = ["red", "blue", "green"]
    beads = ", ".join(rf"\({count}\) {name}" for count, name in zip(counts, names, strict=False))
    question = (
        rf"A bracelet is made of {beads} beads, which differ in colour alone. Bracelets that agree after a rotation or a "
        "reflection are the same. How many bracelets are possible?"
    )
    return Draft(question, answer, len(seen), 7.0)


def _cycle_lengths(permutation: tuple[int, ...]) -> list[int]:
    lengths, left = [], set(range(len(permutation)))
    while left:
        length, at = 0, min(left)
        while at in left:
            left.remove(at)
            at, length = permutation[at], length + 1
        lengths.append(length)
    return lengths


def _fixed(cycles: list[int], counts: tuple[int, ...]) -> int:
    """Colourings with these counts in which every cycle has one colour."""
    if not cycles:
        return 1
    first, *rest = cycles
    return sum(_fixed(rest, (*counts[:i], k - first, *counts[i + 1 :])) for i, k in enumerate(counts) if k >= first)


def _arrangements(counts: tuple[int, ...]) -> list[tuple[int, ...]]:
    if not sum(counts):
        return [()]
    return [(i, *rest) for i, k in enumerate(counts) if k for rest in _arrangements((*counts[:i], k - 1, *counts[i + 1 :]))]


@COUNTING
def partial_derangements(rng: Random) -> Draft:
    n = rng.randint(7, 8)
    m = rng.randint(3, n - 1)
    answer = sum((-1) ** j * comb(m, j) * factorial(n - j) for j in range(m + 1))
    check = sum(1 for p in permutations(range(n)) if all(p[i] != i for i in range(m)))
    question = (
        rf"In how many permutations \( \pi \) of \( \{{1, 2, \dots, {n}\}} \) is \( \pi(i) \ne i \) for every "
        rf"\( i \le {m} \)? (The other elements may be fixed or not.)"
    )
    return Draft(question, answer, check, 5.5)


@COUNTING
def surjections_with_sizes(rng: Random) -> Draft:
    k = rng.randint(3, 4)
    n = rng.randint(2 * k + 1, 13)
    # exponential generating function: (e^x - 1 - x)^k, no value taken once or never
    series = [Fraction(1)] + [Fraction(0)] * n
    for _ in range(k):
        series = [sum((series[i - j] / factorial(j) for j in range(2, i + 1)), Fraction()) for i in range(n + 1)]
    answer = series[n] * factorial(n)

    @cache
    def ways(items: int, boxes: int) -> int:
        if boxes == 0:
            return int(items == 0)
        return sum(comb(items, j) * ways(items - j, boxes - 1) for j in range(2, items + 1))

    question = (
        rf"In how many ways can \({n}\) distinct balls be put into \({k}\) distinct boxes so that every box holds at least two "
        "balls?"
    )
    return Draft(question, answer, ways(n, k), 6.0)


@COUNTING
def paths_below_a_line(rng: Random) -> Draft:
    m, c = rng.randint(6, 10), rng.randint(1, 3)
    n = rng.randint(4, m)
    # reflect at the line y = x + c + 1
    answer = comb(m + n, n) - comb(m + n, n - c - 1)
    grid = [[0] * (n + 1) for _ in range(m + 1)]
    for x, y in product(range(m + 1), range(n + 1)):
        if y <= x + c:
            grid[x][y] = 1 if x == y == 0 else (grid[x - 1][y] if x else 0) + (grid[x][y - 1] if y else 0)
    question = (
        rf"How many lattice paths from \( (0,0) \) to \( ({m},{n}) \), made of unit steps to the right and up, "
        rf"never rise above "
        rf"the line \( y = x + {c} \)?"
    )
    return Draft(question, answer, grid[m][n], 6.0)


@COUNTING
def bounded_solutions(rng: Random) -> Draft:
    k, m = rng.randint(5, 7), rng.randint(5, 9)
    n = rng.randint(k * m // 3, k * m // 2)
    answer = sum((-1) ** j * comb(k, j) * comb(n - j * (m + 1) + k - 1, k - 1) for j in range(k + 1) if n >= j * (m + 1))
    ways = [1] + [0] * n
    for _ in range(k):
        ways = [sum(ways[max(0, i - m) : i + 1]) for i in range(n + 1)]
    question = (
        rf"Find the number of integer solutions of \( x_1 + x_2 + \cdots + x_{{{k}}} = {n} \) with \( 0 \le "
        rf"x_i \le {m} \) for all \(i\)."
    )
    return Draft(question, answer, ways[n], 5.5)


@COUNTING
def words_without_a_pattern(rng: Random) -> Draft:
    pattern = "".join(rng.choice("01") for _ in range(4))
    n = rng.randint(11, 14)
    # inclusion and exclusion over clusters (Goulden and Jackson): 1 / (1 - 2x + x^4 / c(x))
    overlaps = [1 if i == 0 or pattern[i:] == pattern[:-i] else 0 for i in range(4)]
    numerator = overlaps + [0] * (n - 3)
    denominator = [overlaps[i] if i < 4 else 0 for i in range(n + 1)]
    denominator = [d - 2 * (denominator[i - 1] if i else 0) + (i == 4) for i, d in enumerate(denominator)]
    series: list[int] = []
    for i in range(n + 1):
        series.append(numerator[i] - sum(denominator[j] * series[i - j] for j in range(1, i + 1)))
    check = sum(1 for bits in range(2**n) if pattern not in format(bits, f"0{n}b"))
    question = rf"How many binary words of length \({n}\) do not contain \({pattern}\) as a block of consecutive letters?"
    return Draft(question, series[n], check, 6.5)


@COUNTING
def partitions_without_singletons(rng: Random) -> Draft:
    n, k = rng.randint(8, 13), rng.randint(2, 4)
    # blocks of at least two elements: follow the block of the last element
    table = [[1] + [0] * k] + [[0] * (k + 1) for _ in range(n)]
    for i in range(1, n + 1):
        for j in range(1, k + 1):
            table[i][j] = j * table[i - 1][j] + (i - 1) * (table[i - 2][j - 1] if i > 1 else 0)
    # inclusion and exclusion over the elements that stand alone
    check = sum((-1) ** s * comb(n, s) * _stirling(n - s, k - s) for s in range(k + 1))
    question = (
        rf"In how many ways can a set of \({n}\) elements be partitioned into exactly \({k}\) blocks, none of "
        rf"which has a single element?"
    )
    return Draft(question, table[n][k], check, 6.0)


def _stirling(n: int, k: int) -> int:
    return sum((-1) ** j * comb(k, j) * (k - j) ** n for j in range(k + 1)) // factorial(k) if k >= 0 else 0


@COUNTING
def domino_tilings(rng: Random) -> Draft:
    rows, columns = rng.choice(
        [(3, 8), (3, 10), (3, 12), (4, 5), (4, 6), (4, 7), (4, 8), (5, 6), (5, 8), (6, 6), (4, 9), (3, 14)]
    )
    # Kasteleyn's determinant, over the Gaussian integers
    black = [(r, c) for r in range(rows) for c in range(columns) if (r + c) % 2 == 0]
    white = {cell: i for i, cell in enumerate((r, c) for r in range(rows) for c in range(columns) if (r + c) % 2)}
    entries = [[0] * len(white) for _ in black]
    for i, (r, c) in enumerate(black):
        # vertical edges carry the sign of their column, so that every square has an odd number of minus signs
        for cell, weight in (((r, c + 1), 1), ((r, c - 1), 1), ((r + 1, c), (-1) ** c), ((r - 1, c), (-1) ** c)):
            if cell in white:
                entries[i][white[cell]] = weight
    question = rf"In how many ways can a \( {rows} \times {columns} \) board be tiled with \( 1 \times 2 \) dominoes?"
    return Draft(question, abs(determinant(entries)), _tilings(rows, columns), 6.5 if rows == 3 else 7.0)


def _tilings(rows: int, columns: int) -> int:
    """Fill the board cell by cell; the state says which of the next cells are covered already."""
    states = {0: 1}
    for cell in range(rows * columns):
        following: dict[int, int] = {}
        for covered, count in states.items():
            if covered & 1:
                options = [covered >> 1]
            else:
                options = [covered >> 1 | 1 << (rows - 1)]
                if (cell + 1) % rows and not covered & 2:
                    options.append((covered | 2) >> 1)
            for state in options:
                following[state] = following.get(state, 0) + count
        states = following
    return states.get(0, 0)


@GRAPHS
def spanning_trees_multipartite(rng: Random) -> Draft:
    parts = distinct(rng, 2, 5, rng.randint(2, 3))
    n = sum(parts)
    answer = n ** (len(parts) - 2) * prod((n - k) ** (k - 1) for k in parts)
    side = [i for i, k in enumerate(parts) for _ in range(k)]
    laplacian = [[n - parts[side[i]] if i == j else -int(side[i] != side[j]) for j in range(n - 1)] for i in range(n - 1)]
    graph = f"K_{{{','.join(map(str, parts))}}}"
    question = rf"How many spanning trees does the complete multipartite graph \( {graph} \) have?"
    return Draft(question, answer, determinant(laplacian), 6.5)


@GRAPHS
def spanning_trees_near_complete(rng: Random) -> Draft:
    n, k = rng.randint(6, 10), rng.randint(1, 3)
    # each edge of a matching that is taken out costs a factor (n - 2) / n
    answer = n ** (n - 2 - k) * (n - 2) ** k
    missing = {(2 * i, 2 * i + 1) for i in range(k)}
    rows = [[0] * n for _ in range(n)]
    for i in range(n):
        for j in range(n):
            if i != j and (min(i, j), max(i, j)) not in missing:
                rows[i][j] = -1
                rows[i][i] += 1
    edges = "one edge" if k == 1 else rf"\({k}\) pairwise disjoint edges"
    question = (
        rf"From the complete graph \( K_{{{n}}} \), {edges} are removed. How many spanning trees does the remaining graph have?"
    )
    return Draft(question, answer, determinant([row[1:] for row in rows[1:]]), 7.0)


@GRAPHS
def wheel_colourings(rng: Random) -> Draft:
    n, k = rng.randint(5, 8), rng.randint(4, 6)
    answer = k * ((k - 2) ** n + (-1) ** n * (k - 2))
    # walk round the rim with k - 1 colours, starting with the first of them
    ways = {c: int(c == 0) for c in range(k - 1)}
    for _ in range(n - 1):
        ways = {c: sum(count for other, count in ways.items() if other != c) for c in ways}
    check = k * (k - 1) * sum(count for c, count in ways.items() if c != 0)
    question = (
        rf"A wheel consists of a cycle of \({n}\) vertices and a hub that is joined to all of them. In how many ways can its "
        rf"\({n + 1}\) labelled vertices be coloured with \({k}\) colours so that neighbours differ?"
    )
    return Draft(question, answer, check, 6.0)


@GRAPHS
def closed_walks_on_a_cube(rng: Random) -> Draft:
    d, k = rng.randint(3, 6), rng.choice([4, 6, 8, 10])
    # the eigenvalues of the cube are d - 2i
    answer = sum(comb(d, i) * (d - 2 * i) ** k for i in range(d + 1))
    ways = [1] + [0] * d  # walks that end in each vertex at distance 0, 1, …
    for _ in range(k):
        ways = [(i * ways[i - 1] if i else 0) + ((d - i) * ways[i + 1] if i < d else 0) for i in range(d + 1)]
    question = (
        rf"The vertices of the \({d}\)-dimensional cube graph are the binary words of length \({d}\); two are joined if they "
        rf"differ in one place. How many closed walks of length \({k}\) are there, counted with their starting vertex?"
    )
    return Draft(question, answer, 2**d * ways[0], 6.5)
