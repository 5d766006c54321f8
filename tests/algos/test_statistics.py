"""Estimates and their intervals, against known cases, by counting, and by simulation."""

from itertools import combinations
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algos.statistics import bootstrap, majority_score, paired_bootstrap, pass_at_k, wilson


@pytest.mark.parametrize(
    ("share", "n", "low", "high"), [(0.5, 10, 0.2366, 0.7634), (0.0, 20, 0.0, 0.1611), (1.0, 5, 0.5655, 1.0)]
)
def test_wilson_interval_of_known_cases(share: float, n: int, low: float, high: float) -> None:
    assert wilson(share, n) == pytest.approx((low, high), abs=1e-4)


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.data())
def test_pass_at_k_is_the_share_of_subsets_with_a_right_one(right: list[bool], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(right)))
    counted = fmean(any(chosen) for chosen in combinations(right, k))
    assert pass_at_k(len(right), sum(right), k) == pytest.approx(counted)


@pytest.mark.parametrize(("n", "correct", "k"), [(2, 1, 3), (2, 3, 1), (2, 1, 0)])
def test_pass_at_k_of_too_few_samples_is_refused(n: int, correct: int, k: int) -> None:
    with pytest.raises(ValueError, match="is not defined"):
        pass_at_k(n, correct, k)


def test_the_most_frequent_answer_wins_and_the_first_of_equals() -> None:
    assert majority_score(["5", "7", "7"], [0.0, 1.0, 1.0]) == 1.0
    assert majority_score(["5", "7"], [0.0, 1.0]) == 0.0
    assert majority_score([None, None, "7"], [0.0, 0.0, 1.0]) == 1.0  # no answer has no vote
    assert majority_score([None, None], [0.0, 0.0]) == 0.0


def test_an_interval_of_problems_covers_the_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = [
        (found := bootstrap(rng.random(80) < 0.3, resamples=400, seed=trial)).low <= 0.3 <= found.high for trial in range(200)
    ]
    assert 0.88 < fmean(covered) <= 0.99


def test_runs_that_differ_widen_the_interval() -> None:
    alike = bootstrap(np.tile([0.0, 1.0], (3, 100)))
    apart = bootstrap(np.array([np.zeros(200), np.ones(200), np.tile([0.0, 1.0], 100)]))
    assert alike.value == apart.value == 0.5
    assert apart.high - apart.low > 3 * (alike.high - alike.low)


def test_a_paired_difference_is_sharper_than_the_two_means() -> None:
    rng = np.random.default_rng(1)
    hard = rng.random(300)
    theirs = (hard < 0.5).astype(float)
    ours = (hard < 0.55).astype(float)
    found = paired_bootstrap(ours, theirs)
    assert found.value == pytest.approx(fmean(ours - theirs))
    assert found.excludes_zero
    assert not paired_bootstrap(ours, ours).excludes_zero
    assert paired_bootstrap(theirs, ours).value == -found.value


def test_unknown_scores_are_left_out() -> None:
    assert bootstrap([[1.0, np.nan], [0.0, 1.0]]).value == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="no score"):
        bootstrap([np.nan])
    with pytest.raises(ValueError, match="same runs and problems"):
        paired_bootstrap([1.0, 0.0], [1.0])


def test_unknown_scores_do_not_pull_the_interval_towards_zero() -> None:
    found = bootstrap([[1.0, np.nan, 1.0], [np.nan, np.nan, 1.0]])
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)
