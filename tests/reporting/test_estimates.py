import random

import pytest

from algos.reporting.estimates import clustered_mean, difference
from algos.statistics import Estimate, wilson


def test_of_independent_observations_it_is_the_interval_of_wilson() -> None:
    values = [1.0] * 30 + [0.0] * 70
    found = clustered_mean((value, index) for index, value in enumerate(values))
    assert found is not None
    assert found.value == pytest.approx(0.3)
    assert (found.low, found.high) == pytest.approx(wilson(0.3, 100), abs=0.002)


def test_copies_of_an_observation_say_no_more_than_one() -> None:
    once = [(float(index < 30), index) for index in range(100)]
    alone, copied = clustered_mean(once), clustered_mean(once * 8)
    assert alone is not None
    assert copied is not None
    assert copied.value == pytest.approx(alone.value)
    assert (copied.low, copied.high) == pytest.approx((alone.low, alone.high), abs=0.01)


def test_where_all_are_right_the_interval_keeps_its_width() -> None:
    found = clustered_mean((1.0, index % 5) for index in range(40))
    assert found is not None
    assert (found.low, found.high) == pytest.approx(wilson(1.0, 5))


def test_rewards_outside_of_shares_have_a_symmetric_interval() -> None:
    found = clustered_mean([(-2.0, "a"), (2.0, "b"), (4.0, "c"), (0.0, "d")])
    assert found is not None
    assert found.value == 1.0
    assert found.value - found.low == pytest.approx(found.high - found.value)
    assert found.low < -1
    assert clustered_mean([]) is None


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    """16 problems with 8 contests each, whose difficulty differs from problem to problem."""
    rng = random.Random(0)
    hits = naive_hits = 0
    for _ in range(400):
        seen = []
        for problem in range(16):
            difficulty = rng.betavariate(1.2, 1.2)
            seen += [(float(rng.random() < difficulty), problem) for _ in range(8)]
        found = clustered_mean(seen)
        assert found is not None
        hits += found.low <= 0.5 <= found.high
        low, high = wilson(found.value, len(seen))
        naive_hits += low <= 0.5 <= high
    assert 0.91 <= hits / 400 <= 0.98
    assert naive_hits / 400 < 0.85


def test_a_difference_is_that_of_newcombe() -> None:
    """The example of Newcombe 1998, table II (a): 56/70 − 48/80, method 10."""
    before, after = (Estimate(k / n, *wilson(k / n, n)) for k, n in ((48, 80), (56, 70)))
    found = difference(before, after)
    assert (found.value, found.low, found.high) == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)
    assert found.excludes_zero
