"""Advantages. Traps T27, T32-T36 and T44 of the reported faults, and the null property of competition without exchange."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agon_env.rewards import make_rule, total
from algos.advantages import group_advantages

FINITE = st.floats(-100, 100, allow_nan=False)
REWARDS = st.lists(st.one_of(st.none(), FINITE, st.sampled_from([0.0, 1.0])), min_size=1, max_size=24)


@pytest.mark.parametrize(
    ("normalize", "expected"),
    [
        ("std", [1, -1, 1, -1, math.sqrt(2), -math.sqrt(0.5), -math.sqrt(0.5)]),
        ("mean", [0.5, -0.5, 0.5, -0.5, 2 / 3, -1 / 3, -1 / 3]),
        ("leave_one_out", [2 / 3, -2 / 3, 2 / 3, -2 / 3, 1, -1 / 2, -1 / 2]),
    ],
)
def test_hand_worked(normalize, expected):
    result = group_advantages([1, 0, 1, 0, 1, 0, 0], ["a"] * 4 + ["b"] * 3, normalize=normalize)
    np.testing.assert_allclose(result.values, expected, rtol=1e-12)
    assert result.kept.all()
    assert (result.groups, result.dropped) == (2, 0)


def test_std_is_the_population_one():
    rewards = [0.1, 0.4, 0.9, 0.2]
    centred = np.array(rewards) - np.mean(rewards)
    result = group_advantages(rewards, [0] * 4)
    np.testing.assert_allclose(result.values, centred / np.std(rewards, ddof=0), atol=1e-12)
    assert not np.allclose(result.values, centred / np.std(rewards, ddof=1))
    np.testing.assert_allclose(group_advantages([0.0, 1.0], [0, 0]).values, [-1, 1], rtol=1e-12)


@pytest.mark.parametrize("rewards", [[0.1 + 0.2, 0.3, 0.3], [1.0] * 5, [0.7, 0.7 + 9e-7]])
@pytest.mark.parametrize("normalize", ["std", "mean", "leave_one_out"])
def test_group_without_spread_is_dropped_with_exact_zeros(rewards, normalize):
    result = group_advantages(rewards, ["a"] * len(rewards), normalize=normalize)
    assert (result.values == 0).all()
    assert not result.kept.any()
    assert result.dropped == 1


def test_tolerance_is_on_the_range():
    assert group_advantages([0.0, 2e-6], [0, 0]).kept.all()
    assert not group_advantages([0.0, 2e-6], [0, 0], tolerance=1e-5).kept.any()


def test_group_of_one_gets_zero():
    result = group_advantages([1.0, 0.0, 1.0], ["alone", "pair", "pair"])
    np.testing.assert_array_equal(result.values, [0, -1, 1])
    np.testing.assert_array_equal(result.kept, [False, True, True])
    assert result.dropped == 1


def test_missing_reward_stays_out_of_the_baseline():
    result = group_advantages([1.0, None, 0.0, None], ["a", "a", "a", "b"])
    np.testing.assert_array_equal(result.values, [1, 0, -1, 0])
    np.testing.assert_array_equal(result.kept, [True, False, True, False])
    assert (result.groups, result.dropped) == (2, 1)


def test_zero_inside_a_kept_group_is_kept():
    result = group_advantages([0.0, 0.5, 1.0], [0, 0, 0])
    assert result.values[1] == 0
    assert result.kept[1]


@pytest.mark.parametrize("normalize", ["std", "mean", "leave_one_out"])
@given(data=st.data(), rewards=REWARDS)
def test_order_of_rows_changes_nothing(normalize, data, rewards):
    groups = data.draw(st.lists(st.sampled_from(["a", ("b", 1), 3]), min_size=len(rewards), max_size=len(rewards)))
    order = data.draw(st.permutations(range(len(rewards))))
    straight = group_advantages(rewards, groups, normalize=normalize)
    shuffled = group_advantages([rewards[i] for i in order], [groups[i] for i in order], normalize=normalize)
    np.testing.assert_array_equal(shuffled.values, straight.values[list(order)])
    np.testing.assert_array_equal(shuffled.kept, straight.kept[list(order)])
    assert (shuffled.groups, shuffled.dropped) == (straight.groups, straight.dropped)


@given(rewards=REWARDS)
def test_always_finite_and_standardised(rewards):
    result = group_advantages(rewards, [0] * len(rewards))
    assert np.isfinite(result.values).all()
    if result.kept.any():
        kept = result.values[result.kept]
        assert abs(kept.mean()) < 1e-6
        assert kept.std() == pytest.approx(1)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([1.0], []), {}, "every reward needs a group"),
        (([float("nan"), 1.0], [0, 0]), {}, "row 0 is nan"),
        (([1.0, float("inf")], [0, 0]), {}, "row 1 is inf"),
        (([1.0], [0]), {"normalize": "batch"}, "normalize must be"),
    ],
)
def test_bad_input_is_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        group_advantages(*arguments, **options)


def test_no_rows():
    result = group_advantages([], [])
    assert result.values.shape == (0,)
    assert (result.groups, result.dropped) == (0, 0)


SCORES = st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=16)


@given(scores=SCORES, rival=st.sampled_from([0.0, 1.0]) | st.floats(0, 1), bonus=st.floats(0, 10))
def test_competition_without_exchange_is_null(scores, rival, bonus):
    """0/1 scores, one rival score for the whole group: the reward is an increasing affine map of the outcome.

    Its slope is 1 + λ where the rival failed, 1 where it did not (1 + λ·(1 − r) in between), and dividing by
    the standard deviation removes it. Centring alone keeps it.
    """
    rule = make_rule("competitive", bonus=bonus)
    rewards = [total(rule({"drafter": score, "challenger": rival})["drafter"]) for score in scores]
    groups = ["x"] * len(scores)
    competitive, plain = group_advantages(rewards, groups), group_advantages(scores, groups)
    np.testing.assert_allclose(competitive.values, plain.values, atol=1e-9)
    np.testing.assert_array_equal(competitive.kept, plain.kept)
    slope = 1 + bonus * (1 - rival)
    centred = group_advantages(rewards, groups, normalize="mean").values
    np.testing.assert_allclose(centred, slope * group_advantages(scores, groups, normalize="mean").values, atol=1e-9)


def test_with_exchange_competition_is_not_null():
    rule = make_rule("competitive", bonus=0.5)
    own, rival = [1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]
    rewards = [total(rule({"drafter": s, "challenger": r})["drafter"]) for s, r in zip(own, rival, strict=True)]
    competitive, plain = group_advantages(rewards, [0] * 4).values, group_advantages(own, [0] * 4).values
    assert competitive[0] > plain[0] > competitive[1]


def expected_gradient(size, *, p, rival_fails, bonus):
    """The exact expectation of Σ A·∂log π/∂p in the isolated cell, over a group of `size` and over its hidden drafts.

    A policy that is right with probability p; each rollout meets a draft of its own, which fails with probability
    `rival_fails` whatever the rollout does; advantages are centred alone.
    """
    rule, total_gradient = make_rule("competitive", bonus=bonus), 0.0
    for own in product((0.0, 1.0), repeat=size):
        for rivals in product((0.0, 1.0), repeat=size):
            chance = math.prod(p if s else 1 - p for s in own) * math.prod(
                1 - rival_fails if r else rival_fails for r in rivals
            )
            rewards = [total(rule({"drafter": r, "challenger": s})["challenger"]) for s, r in zip(own, rivals, strict=True)]
            values = group_advantages(rewards, ["x"] * size, normalize="mean").values
            score = [1 / p if s else -1 / (1 - p) for s in own]
            total_gradient += chance * float(values @ np.array(score))
    return total_gradient


@settings(max_examples=40)
@given(size=st.integers(2, 4), p=st.floats(0.05, 0.95), rival_fails=st.floats(0, 1), bonus=st.floats(0, 5))
def test_the_isolated_cell_has_grpos_gradient_up_to_a_factor(size, p, rival_fails, bonus):
    """In expectation 1 + λ·P(rival fails): a hidden rival is noise, and a larger step."""
    plain = expected_gradient(size, p=p, rival_fails=1.0, bonus=0.0)
    assert plain == pytest.approx(size - 1)  # (n − 1)·dp/dp: the group's own mean takes one share away
    isolated = expected_gradient(size, p=p, rival_fails=rival_fails, bonus=bonus)
    assert isolated == pytest.approx((1 + bonus * rival_fails) * plain, rel=1e-6)


@given(scores=st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_zero_sum_rewards_sum_to_zero_whatever_the_number_of_players(scores):
    paid = make_rule("zero_sum")({f"role {number}": score for number, score in enumerate(scores)})
    assert sum(total(components) for components in paid.values()) == pytest.approx(0, abs=1e-9)


@given(a=st.floats(0, 1), b=st.floats(0, 1), bonus=st.floats(0, 5))
def test_rivalry(a, b, bonus):
    """The margin sums to 0 over the pair; swapping players swaps rewards; a tie pays no bonus."""
    competitive, zero_sum = make_rule("competitive", bonus=bonus), make_rule("zero_sum")
    for rule in (competitive, zero_sum, make_rule("outcome")):
        pair, swapped = rule({"d": a, "c": b}), rule({"d": b, "c": a})
        assert (pair["d"], pair["c"]) == (swapped["c"], swapped["d"])
    margins = zero_sum({"d": a, "c": b})
    assert total(margins["d"]) + total(margins["c"]) == pytest.approx(0)
    assert competitive({"d": a, "c": a})["d"]["bonus"] == 0
