"""The weights that correct for a sampler which is not quite the learner. Trap T41 of the reported faults."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algos.importance import importance_weights

LOGP = st.floats(-30, 0)


def test_by_hand():
    """Ratios 2, 1/2 and 3, whose product is 3."""
    old, sampler = np.log([0.4, 0.2, 0.9]).tolist(), np.log([0.2, 0.4, 0.3]).tolist()
    arguments = {"old_logp_T": old, "sampler_logp_T": sampler}
    assert importance_weights(**arguments, level="token", cap=2.5) == pytest.approx((2, 0.5, 2.5))
    assert importance_weights(**arguments, level="sequence", cap=5) == pytest.approx((3, 3, 3))
    assert importance_weights(**arguments, level="sequence", cap=2) == (2, 2, 2)


def test_the_same_log_probabilities_weigh_nothing():
    for level in ("token", "sequence"):
        assert importance_weights(old_logp_T=[-1.0, -2.0], sampler_logp_T=[-1.0, -2.0], level=level, cap=2) == (1, 1)
        assert importance_weights(old_logp_T=[], sampler_logp_T=[], level=level, cap=2) == ()


def test_t41_long_sequences_neither_overflow_nor_vanish():
    for gap in (5.0, -5.0):
        weights = importance_weights(old_logp_T=[gap - 6] * 4000, sampler_logp_T=[-6.0] * 4000, level="sequence", cap=math.inf)
        assert all(0 < weight < math.inf for weight in weights)


@given(pairs=st.lists(st.tuples(LOGP, LOGP), max_size=20), cap=st.floats(0.1, 10))
def test_weights_are_positive_and_capped(pairs, cap):
    old, sampler = [a for a, _ in pairs], [b for _, b in pairs]
    for level in ("token", "sequence"):
        weights = importance_weights(old_logp_T=old, sampler_logp_T=sampler, level=level, cap=cap)
        assert len(weights) == len(pairs)
        assert all(0 < weight <= cap for weight in weights)


def test_the_weight_makes_the_sampler_estimate_the_policy():
    """Over a vocabulary of four the weighted mean under the sampler is the mean under the policy."""
    policy, sampler, reward = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.4, 0.1, 0.2, 0.3]), np.array([1.0, -2.0, 0.5, 3.0])
    weights = importance_weights(old_logp_T=np.log(policy), sampler_logp_T=np.log(sampler), level="token", cap=math.inf)
    assert (sampler * weights * reward).sum() == pytest.approx((policy * reward).sum())
    assert (sampler * reward).sum() != pytest.approx((policy * reward).sum())


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="scored 1 tokens, but the sampler 2"):
        importance_weights(old_logp_T=[-1.0], sampler_logp_T=[-1.0, -1.0], level="token", cap=2)
