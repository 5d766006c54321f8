"""Epochs, minibatches, and what is computed once before them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from learner_fixtures import tiny_base, tiny_rows

from algos.learner import LocalLearner
from algos.learning.optim import OptimConfig
from algos.learning.update import correct_sampler, minibatches, update_policy
from algos.losses import LossConfig
from algos.types import Batch

SEED = (0, 3)


def weights(policy):
    return [parameter.detach().clone() for parameter in policy.parameters()]


def learner_of(*, loss=None, **optim):
    base, alice = tiny_base("alice")
    return LocalLearner(base, loss=loss or LossConfig(), optim=OptimConfig(**optim)), alice


def on_policy(learner, policy, n=6):
    rows = tiny_rows(n)
    scored = learner.logprobs(policy, rows)
    return [replace(row, old_logprobs=old) for row, old in zip(rows, scored, strict=True)]


def update(learner, policy, rows, seed=SEED):
    return update_policy(learner, policy, rows, temperature=1.0, seed=seed)


@given(rows=st.integers(0, 40), epochs=st.integers(1, 4), parts=st.integers(1, 6), seed=st.integers(0, 9))
def test_every_row_is_used_once_in_each_epoch(rows, epochs, parts, seed):
    plan = list(minibatches(rows, epochs=epochs, parts=parts, seed=[seed]))
    assert len(plan) == epochs * parts
    for epoch in range(epochs):
        part_of = plan[epoch * parts : (epoch + 1) * parts]
        assert sorted(index for part in part_of for index in part) == list(range(rows))
        sizes = [len(part) for part in part_of]
        assert max(sizes) - min(sizes) <= 1
    assert plan == list(minibatches(rows, epochs=epochs, parts=parts, seed=[seed]))


def test_minibatches_are_drawn_anew_and_by_the_seed():
    plan = list(minibatches(20, epochs=2, parts=2, seed=SEED))
    assert plan[:2] != plan[2:]
    assert plan != list(minibatches(20, epochs=2, parts=2, seed=(0, 4)))
    assert list(minibatches(3, epochs=1, parts=1, seed=SEED)) == [[0, 1, 2]]  # one part keeps the order


def test_once_through_is_one_gradient_and_one_step():
    learner, alice = learner_of()
    stats = update(learner, alice, rows := on_policy(learner, alice))
    other, same = learner_of()
    expected = other.forward_backward(same, Batch(tuple(rows))) | other.optim_step(same)
    assert stats == expected
    assert all(torch.equal(a, b) for a, b in zip(weights(alice), weights(same), strict=True))


def test_more_epochs_leave_the_old_policy_behind():
    learner, alice = learner_of(learning_rate=1e-2, epochs=3, minibatches=2)
    stats = update(learner, alice, on_policy(learner, alice))
    assert stats["approx_kl"] > 1e-4
    assert stats["ratio_max"] > 1.01
    assert (stats["rows"], stats["rows_computed"]) == (6, 18)
    assert learner._optimizer(alice).steps == 6
    twin, again = learner_of(learning_rate=1e-2, epochs=3, minibatches=2)
    assert update(twin, again, on_policy(twin, again)) == stats
    third, other = learner_of(learning_rate=1e-2, epochs=3, minibatches=2)
    assert update(third, other, on_policy(third, other), seed=(1, 3)) != stats


def test_the_schedule_goes_on_without_rows():
    learner, alice = learner_of(epochs=2, minibatches=2)
    before = weights(alice)
    assert update(learner, alice, [])["rows"] == 0
    assert learner._optimizer(alice).steps == 4
    assert all(torch.equal(a, b) for a, b in zip(weights(alice), before, strict=True))
    assert update(learner, alice, on_policy(learner, alice, n=2))["rows"] == 2  # fewer rows than parts
    assert learner._optimizer(alice).steps == 8


def test_the_reference_is_computed_once_for_all_epochs(monkeypatch):
    learner, alice = learner_of(loss=LossConfig(kl_coef=0.1), epochs=3)
    scored = []
    logprobs = learner.logprobs
    rows = on_policy(learner, alice)
    monkeypatch.setattr(
        learner, "logprobs", lambda who, rows, **kw: scored.append((who, len(rows))) or logprobs(who, rows, **kw)
    )
    assert update(learner, alice, rows)["kl_ref"] > 0
    assert [(who, n) for who, n in scored if n] == [(None, 6)]


def test_references_of_several_epochs_are_those_at_the_temperature():
    once, twice = (learner_of(loss=LossConfig(kl_coef=0.1), learning_rate=0.0, epochs=epochs) for epochs in (1, 2))
    perturbed = [update_policy(*moved(*each), tiny_rows(6), temperature=0.5, seed=SEED) for each in (once, twice)]
    assert perturbed[0]["kl_ref"] == pytest.approx(perturbed[1]["kl_ref"], rel=1e-4)


def moved(learner, policy):
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.05)
    return learner, policy


# --- the sampler is not quite the learner ---


def corrected(level, rows, *, cap=2.0):
    learner, alice = learner_of(loss=LossConfig(sampler_correction=level, sampler_cap=cap))
    return learner, alice, *correct_sampler(learner, alice, rows, temperature=1.0)


def noisy(rows, scale=0.2):
    """As sampled by an engine whose log-probabilities are off."""
    rng = np.random.default_rng(0)
    return [replace(row, old_logprobs=tuple(rng.normal(row.old_logprobs, scale))) for row in rows]


def test_the_learner_scores_and_the_samplers_log_probabilities_go_into_the_weight():
    learner, alice = learner_of()
    exact = on_policy(learner, alice)
    _, _, rows, stats = corrected("token", noisy(exact))
    for row, before, sampled in zip(rows, exact, noisy(exact), strict=True):
        assert row.old_logprobs == pytest.approx(before.old_logprobs, abs=1e-5)
        expected = np.minimum(np.exp(np.subtract(before.old_logprobs, sampled.old_logprobs)), 2)
        assert row.weights == pytest.approx(tuple(expected), rel=1e-4)
    gap = np.concatenate([np.subtract(s.old_logprobs, e.old_logprobs) for s, e in zip(noisy(exact), exact, strict=True)])
    assert stats["sampler_kl"] == pytest.approx(gap.mean(), abs=1e-4)
    assert stats["sampler_capped"] == 0


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_a_sampler_that_is_the_learner_changes_nothing(level):
    learner, alice = learner_of()
    rows = on_policy(learner, alice)
    plain = update(learner, alice, rows)
    other, same = learner_of(loss=LossConfig(sampler_correction=level))
    stats = update(other, same, rows)
    assert stats["sampler_weight"] == pytest.approx(1, abs=1e-4)
    assert stats["sampler_kl"] == pytest.approx(0, abs=1e-5)
    assert stats["grad_norm"] == pytest.approx(plain["grad_norm"], rel=1e-3)


def test_the_ratio_starts_at_one_though_the_sampler_was_off():
    learner, alice = learner_of()
    rows = noisy(on_policy(learner, alice), scale=1.0)
    assert update(learner, alice, rows)["ratio_max"] > 1.5
    other, same = learner_of(loss=LossConfig(sampler_correction="token", sampler_cap=1.1))
    stats = update(other, same, rows)
    assert stats["ratio_max"] == pytest.approx(1, abs=1e-4)
    assert 0 < stats["sampler_capped"] < 1


def test_the_sampler_is_compared_at_its_temperature():
    learner, alice = moved(*learner_of(loss=LossConfig(sampler_correction="token")))
    rows = [
        replace(row, old_logprobs=old)
        for row, old in zip(tiny_rows(6), learner.logprobs(alice, tiny_rows(6), temperature=0.5), strict=True)
    ]
    _, stats = correct_sampler(learner, alice, rows, temperature=0.5)
    assert (stats["sampler_kl"], stats["sampler_weight"]) == (pytest.approx(0, abs=1e-5), pytest.approx(1, abs=1e-4))
