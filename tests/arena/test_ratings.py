"""Bradley–Terry against an independent implementation and known values; Elo."""

import math
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest

from algos.arena.ratings import MEAN, PRIOR_SD, SCALE, Comparison, Elo, bradley_terry, comparisons, expected


def simulate(strengths: dict[str, float], games: int, rng: np.random.Generator) -> list[Comparison]:
    names = list(strengths)
    return [
        Comparison(one, other, float(rng.random() < expected(strengths[one], strengths[other])))
        for _ in range(games)
        for i, one in enumerate(names)
        for other in names[i + 1 :]
    ]


def test_two_players_have_the_closed_form() -> None:
    results = [Comparison("a", "b", 1.0)] * 30 + [Comparison("b", "a", 1.0)] * 10
    ratings = bradley_terry(["a", "b"], results, prior_sd=1e6)
    assert ratings["a"].value - ratings["b"].value == pytest.approx(400 * math.log10(3), abs=1e-3)
    assert ratings["a"].value + ratings["b"].value == pytest.approx(2 * MEAN)
    # the log odds of 30 : 10 have the variance 1/30 + 1/10; the distance from the mean is half of them
    assert ratings["a"].high - ratings["a"].value == pytest.approx(1.96 * SCALE / 2 * math.sqrt(1 / 30 + 1 / 10), rel=1e-3)


def test_agrees_with_choix() -> None:
    choix = pytest.importorskip("choix", reason='an independent implementation to compare with: pip install "choix"')
    rng = np.random.default_rng(0)
    names = [f"p{number}" for number in range(7)]
    results = simulate(dict(zip(names, rng.normal(1500, 300, 7), strict=True)), 9, rng)
    won = [
        (names.index(r.player), names.index(r.rival)) if r.result else (names.index(r.rival), names.index(r.player))
        for r in results
    ]
    alpha = (SCALE / PRIOR_SD) ** 2 / 2
    theirs = choix.opt_pairwise(len(names), won, alpha=alpha, tol=1e-10)
    ours = bradley_terry(names, results)
    assert [ours[name].value for name in names] == pytest.approx(MEAN + SCALE * (theirs - theirs.mean()), abs=0.02)


def test_a_draw_is_half_a_win_and_half_a_loss() -> None:
    drawn = bradley_terry("abc", [Comparison("a", "b", 0.5)] * 2 + [Comparison("b", "c", 1.0)])
    halved = bradley_terry("abc", [Comparison("a", "b", 1.0), Comparison("a", "b", 0.0), Comparison("b", "c", 1.0)])
    assert {p: e.value for p, e in drawn.items()} == pytest.approx({p: e.value for p, e in halved.items()})


def test_who_always_wins_is_finite_and_unsure_and_who_never_played_is_average() -> None:
    few = bradley_terry("abc", [Comparison("a", "b", 1.0)] * 3)
    many = bradley_terry("abc", [Comparison("a", "b", 1.0)] * 3000)
    assert few["a"].value > few["c"].value > few["b"].value
    assert MEAN < few["a"].value < many["a"].value < 4000
    assert few["c"].value == pytest.approx(MEAN)
    assert few["c"].high - few["c"].low > 500


@pytest.mark.parametrize("spread", [50.0, 300.0])
def test_intervals_cover_the_truth(spread: float) -> None:
    rng = np.random.default_rng(1)
    covered = []
    for _ in range(60):
        values = rng.normal(MEAN, spread, 5)
        truth = dict(zip("abcde", values - values.mean() + MEAN, strict=True))
        found = bradley_terry("abcde", simulate(truth, 25, rng))
        covered += [found[name].low <= truth[name] <= found[name].high for name in truth]
    assert 0.91 <= np.mean(covered) <= 0.985


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_intervals_cover_the_truth_and_are_narrower_where_much_is_drawn(share: float) -> None:
    rng = np.random.default_rng(3)
    truth = dict(zip("abcde", MEAN + np.linspace(-40, 40, 5), strict=True))

    def play(one: str, other: str) -> Comparison:
        if rng.random() < share:
            return Comparison(one, other, 0.5)
        decided = (expected(truth[one], truth[other]) - share / 2) / (1 - share)
        return Comparison(one, other, float(rng.random() < decided))

    covered, widths = [], []
    for _ in range(80):
        results = [play(one, other) for one, other in combinations("abcde", 2) for _ in range(30)]
        found = bradley_terry("abcde", results)
        covered += [found[name].low <= truth[name] <= found[name].high for name in truth]
        widths += [found[name].high - found[name].low for name in truth]
    decided = bradley_terry("abcde", [Comparison(a, b, n % 2) for a, b in combinations("abcde", 2) for n in range(30)])
    assert 0.91 <= np.mean(covered) <= 0.985
    assert np.mean(widths) == pytest.approx(math.sqrt(1 - share) * (decided["a"].high - decided["a"].low), rel=0.05)


def test_what_depends_on_the_problem_makes_the_intervals_wider() -> None:
    """On every problem somebody is lucky, in all contests on it: their number says less than that of the problems."""
    rng = np.random.default_rng(4)
    names = "abcdef"
    covered, naive = [], []
    for _ in range(60):
        results = []
        for problem in range(25):
            luck = dict(zip(names, rng.normal(0, 200, len(names)), strict=True))
            for one, other in combinations(names, 2):
                chance = expected(luck[one], luck[other])
                results += [Comparison(one, other, float(rng.random() < chance), block=problem) for _ in range(4)]
        found = bradley_terry(names, results)
        alone = bradley_terry(names, [replace(result, block=None) for result in results])
        covered += [found[name].low <= MEAN <= found[name].high for name in names]
        naive += [alone[name].low <= MEAN <= alone[name].high for name in names]
    assert np.mean(naive) < 0.8
    assert 0.9 <= np.mean(covered) <= 0.99


def test_blocks_change_nothing_much_where_everything_is_independent() -> None:
    rng = np.random.default_rng(5)
    plain = simulate(dict.fromkeys("abcd", MEAN), 60, rng)
    blocks = [replace(result, block=number // 6) for number, result in enumerate(plain)]
    widths = [np.mean([e.high - e.low for e in bradley_terry("abcd", results).values()]) for results in (plain, blocks)]
    assert 1 <= widths[1] / widths[0] < 1.15


def test_draws_alone_leave_some_doubt() -> None:
    found = bradley_terry("ab", [Comparison("a", "b", 0.5)] * 10)
    assert 20 < found["a"].high - found["a"].value < 60


def test_extreme_results_converge() -> None:
    """A chain in which everyone beats the next one a thousand times: whole Newton steps would overshoot."""
    names = [f"p{number}" for number in range(12)]
    results = [Comparison(a, b, 1.0, 1000.0) for a, b in pairwise(names)]
    found = [bradley_terry(names, results, prior_sd=1e5)[name].value for name in names]
    assert found == sorted(found, reverse=True)
    assert np.isfinite(found).all()


def test_placement_becomes_pairs_that_weigh_as_much_as_the_players_less_one() -> None:
    found = comparisons({"a": 1.0, "b": 0.0, "c": 1.0})
    assert [(r.player, r.rival, r.result) for r in found] == [("a", "b", 1.0), ("a", "c", 0.5), ("b", "c", 0.0)]
    assert sum(r.weight for r in found) == pytest.approx(2)
    assert comparisons({"a": 0.0, "b": 1.0}) == [Comparison("a", "b", 0.0, 1.0)]


def test_elo_moves_towards_the_truth_and_keeps_the_sum() -> None:
    rng = np.random.default_rng(2)
    elo = Elo()
    assert elo.leader is None
    for result in simulate({"strong": 1700.0, "weak": 1400.0}, 800, rng):
        elo.update([result])
    assert elo.rating("strong") + elo.rating("weak") == pytest.approx(2 * MEAN)
    assert elo.rating("strong") - elo.rating("weak") == pytest.approx(300, abs=120)
    assert elo.leader == "strong"


def test_elo_counts_a_contest_of_three_against_the_ratings_before_it() -> None:
    elo = Elo(k=30.0)
    elo.update(comparisons({"a": 2.0, "b": 1.0, "c": 0.0}))
    assert [elo.rating(p) for p in "abc"] == pytest.approx([1520.0, 1500.0, 1480.0])
