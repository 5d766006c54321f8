"""The critic: its loss, and what it may and may not move. Traps T11, T55 and T56 of the reported faults."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from learner_fixtures import tiny_base, tiny_rows

from agents.adapter_files import AdapterSpec
from agents.errors import AdapterError
from algos.learner import LocalLearner, NonFiniteUpdate, OptimConfig
from algos.learning.values import HEAD_FILE, Critic, CriticConfig, update_critic, value_loss
from algos.types import Batch, ValueRow

SPEC = AdapterSpec(rank=2)


def critics(*names, family="qwen3", optim=None, **config):
    """A base, its learner, policies, and a critic for each that has learned a little already."""
    base, *policies = tiny_base(*names, family=family)
    learner = LocalLearner(base, optim=optim)
    made = [Critic(learner, p, spec=SPEC, seed=n, config=CriticConfig(**config)) for n, p in enumerate(policies)]
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for critic in made:
            for parameter in critic.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    return base, learner, policies, made


def value_rows(n=5, *, after=(1, 3), seed=0):
    """Rows with returns for every token, and for the state after the last one where `after` says so."""
    rng = np.random.default_rng(seed)
    rows = []
    for index, row in enumerate(tiny_rows(n, seed=seed)):
        states = len(row.completion_ids) + (index in after)
        values, returns = rng.normal(size=(2, states)).tolist()
        rows.append(ValueRow(row.prompt_ids, row.completion_ids, tuple(values), tuple(returns)))
    return rows


def plain_values(critic, prompt_ids, completion_ids, states):
    """One row alone, from the model's own hidden states."""
    base = critic.learner.base
    ids = torch.tensor([[*prompt_ids, *completion_ids]])
    with torch.no_grad(), base.use(critic.adapter):
        hidden = base.model(input_ids=ids, output_hidden_states=True).hidden_states[-1][0]
    first = len(prompt_ids) - 1
    return (hidden[first : first + states] @ critic.head_D + critic.head_bias).tolist()


def bytes_of(*parameters):
    return [parameter.detach().clone() for group in parameters for parameter in group]


def equal(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


# --- the loss ---


def test_value_loss_by_hand():
    """G = 1 for all. 0 → 0.5 is clipped at 0.2: (0.2 − 1)² counts. 0.9 → 0.95 is within. 1.5 → 0.5 gets worse: no clip."""
    value = torch.tensor([0.5, 0.95, 0.5], requires_grad=True)
    loss, stats = value_loss(value, torch.tensor([0.0, 0.9, 1.5]), torch.ones(3), clip=0.2, normalizer=3.0)
    assert loss.item() == pytest.approx((0.64 + 0.0025 + 0.25) / 6)
    assert stats["value_clipfrac"].item() == pytest.approx(1 / 3)
    loss.backward()
    assert value.grad.tolist() == pytest.approx([0.0, -0.05 / 3, -0.5 / 3])


@pytest.mark.parametrize("clip", [0.2, None])
def test_value_loss_equals_numpy_and_pieces_add_up(clip):
    value, old, target = np.random.default_rng(0).normal(size=(3, 12)).astype(np.float32)
    error = (value - target) ** 2
    if clip is not None:
        error = np.maximum(error, (old + np.clip(value - old, -clip, clip) - target) ** 2)
    tensors = [torch.from_numpy(x) for x in (value, old, target)]
    loss, stats = value_loss(*tensors, clip=clip, normalizer=12.0)
    assert loss.item() == pytest.approx(0.5 * error.mean(), rel=1e-5)
    parts = [value_loss(*(x[part] for x in tensors), clip=clip, normalizer=12.0) for part in (slice(5), slice(5, 12))]
    assert sum(part.item() for part, _ in parts) == pytest.approx(loss.item(), rel=1e-5)
    assert sum(each["value_clipfrac"].item() for _, each in parts) == pytest.approx(stats["value_clipfrac"].item())


@pytest.mark.parametrize("recompute", [False, True])
def test_t55_micro_batches_change_neither_loss_nor_gradient(recompute):
    rows, found = value_rows(), []
    for optim in (OptimConfig(token_budget=8, recompute=recompute), OptimConfig(token_budget=10_000)):
        _, _, _, (critic,) = critics("alice", optim=optim)
        stats = critic.forward_backward(rows)
        found.append((stats, [parameter.grad.clone() for parameter in critic.parameters()]))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-4)
    for small, whole in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(small, whole, rtol=1e-4, atol=1e-6)


# --- the values ---


@pytest.mark.parametrize("family", ["qwen3", "gemma4"])  # packed, padded
def test_values_are_those_of_the_states_before_each_token(family):
    _, _, _, (critic,) = critics("alice", family=family)
    rows = tiny_rows(4)
    rows[1] = replace(rows[1], prompt_ids=rows[0].prompt_ids)  # packed, they share it
    after = [False, True, True, False]
    found = critic.values([row.prompt_ids for row in rows], [row.completion_ids for row in rows], after=after)
    for row, extra, values in zip(rows, after, found, strict=True):
        states = len(row.completion_ids) + extra
        assert list(values) == pytest.approx(plain_values(critic, row.prompt_ids, row.completion_ids, states), abs=1e-5)


def test_a_new_critic_expects_0_and_leaves_the_random_numbers_alone():
    base, alice = tiny_base("alice")
    before = torch.get_rng_state()
    critic = Critic(LocalLearner(base), alice, spec=SPEC, seed=0)
    assert torch.equal(torch.get_rng_state(), before)
    assert critic.values([(1, 2)], [(3, 4)], after=[True]) == [(0.0, 0.0, 0.0)]


# --- who moves, and who does not ---


def test_t56_a_critic_moves_neither_policies_nor_the_base_nor_another_critic():
    base, learner, (alice, bob), (critic, other) = critics("alice", "bob")
    rows, checksum = tiny_rows(3), base.checksum()
    scores = [learner.logprobs(policy, rows) for policy in (alice, bob)]
    kept = bytes_of(alice.parameters(), bob.parameters(), other.parameters())
    before = bytes_of(critic.parameters())
    update_critic(critic, value_rows(), seed=(0,))
    assert not any(torch.equal(a, b) for a, b in zip(before, critic.parameters(), strict=True))
    assert equal(kept, bytes_of(alice.parameters(), bob.parameters(), other.parameters()))
    assert [learner.logprobs(policy, rows) for policy in (alice, bob)] == scores
    assert base.checksum() == checksum


def test_t56_a_policy_moves_no_critic():
    _, learner, (alice, _), made = critics("alice", "bob")
    before = bytes_of(*(critic.parameters() for critic in made))
    learner.forward_backward(alice, Batch(tuple(tiny_rows(3))))
    learner.optim_step(alice)
    assert equal(before, bytes_of(*(critic.parameters() for critic in made)))


def test_gradients_of_policy_and_critic_may_be_pending_together():
    """Each is what it is alone."""
    _, learner, (alice,), (critic,) = critics("alice")
    critic.forward_backward(value_rows())
    expected = [parameter.grad.clone() for parameter in critic.parameters()]
    learner.forward_backward(alice, Batch(tuple(tiny_rows(3))))
    assert equal(expected, [parameter.grad for parameter in critic.parameters()])


def test_no_player_has_the_adapter_of_a_critic():
    base, _, _, (critic,) = critics("alice")
    assert critic.adapter == "alice-value"
    with pytest.raises(AdapterError, match="already"):
        base.policy("alice-value")


# --- learning, files ---


def test_t11_head_and_adapter_learn_and_survive_their_files(tmp_path):
    optim = OptimConfig(learning_rate=0.5)  # the policy's; the critic has its own
    rows = value_rows()
    _, learner, (alice,), (critic,) = critics("alice", optim=optim, learning_rate=1e-2, value_clip=None)
    losses = [update_critic(critic, rows, seed=(step,))["value_loss"] for step in range(8)]
    assert losses[-1] < 0.8 * losses[0]
    critic.save(tmp_path / "critic")
    learner.save(alice, tmp_path / "alice")
    assert not (tmp_path / "alice" / HEAD_FILE).exists()
    _, _, _, (again,) = critics("alice", optim=optim, learning_rate=1e-2, value_clip=None)
    again.load(tmp_path / "critic")
    assert equal(bytes_of(critic.parameters()), bytes_of(again.parameters()))
    for each in (critic, again):
        update_critic(each, rows, seed=(9,))
    assert equal(bytes_of(critic.parameters()), bytes_of(again.parameters()))


def test_epochs_and_minibatches_are_those_of_the_policy():
    _, _, _, (critic,) = critics("alice", optim=OptimConfig(epochs=3, minibatches=2))
    stats = update_critic(critic, value_rows(), seed=(0,))
    assert critic._optimizer.steps == 6
    assert stats.keys() == {"value_loss", "value_clipfrac", "value_grad_norm", "explained_variance"}
    assert all(type(value) is float for value in stats.values())
    assert update_critic(critic, [], seed=(0,)) == {"value_grad_norm": 0.0}
    assert critic._optimizer.steps == 12


def test_explained_variance_is_that_of_the_values_before_the_update():
    _, _, _, (critic,) = critics("alice")
    rows = value_rows()
    perfect = [replace(row, values=row.returns) for row in rows]
    ignorant = [replace(row, values=(0.3,) * len(row.returns)) for row in rows]
    assert update_critic(critic, perfect, seed=(0,))["explained_variance"] == 1.0
    assert update_critic(critic, ignorant, seed=(0,))["explained_variance"] == pytest.approx(0.0)
    assert "explained_variance" not in update_critic(critic, [replace(rows[0], values=(0.0,), returns=(1.0,))], seed=(0,))


def test_a_loss_that_is_not_finite_steps_nothing():
    _, _, _, (critic,) = critics("alice")
    before, rows = bytes_of(critic.parameters()), value_rows()
    with pytest.raises(NonFiniteUpdate, match="alice-value"):
        critic.forward_backward([*rows, replace(rows[0], returns=(float("nan"),) * len(rows[0].returns))])
    assert all(parameter.grad is None for parameter in critic.parameters())
    assert equal(before, bytes_of(critic.parameters()))


@pytest.mark.parametrize(("field", "value"), [("learning_rate", -1.0), ("value_clip", 0.0)])
def test_impossible_settings_are_refused(field, value):
    with pytest.raises(ValueError, match=field):
        CriticConfig(**{field: value})
