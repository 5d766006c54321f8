"""The learner: two adapters on one base. Traps T1-T7, T14, T30, T37, T38, T48 and T62 of the reported faults."""

from dataclasses import replace

import pytest
import torch
from learner_fixtures import FAMILIES, plain_logprobs, tiny_base, tiny_model, tiny_rows
from peft import PeftModel
from safetensors.torch import load_file, save_file

from agents.sampling import Request, SamplingParams
from algos.learner import LocalLearner, NoGradient, NonFiniteUpdate, OptimConfig
from algos.learning.logprobs import Head
from algos.learning.tinker import TinkerLearner
from algos.losses import LossConfig, count_normalizer
from algos.types import Batch

LOSSES = [
    LossConfig(loss_type="grpo"),
    LossConfig(loss_type="dr_grpo", max_tokens=9),
    LossConfig(loss_type="dapo", clip_high=0.28),
    LossConfig(loss_type="bnpo"),
    LossConfig(loss_type="grpo", kl_coef=0.1),
    LossConfig(loss_type="dapo", kl_coef=0.1, kl_estimator="k1", kl_weighted=False),
    LossConfig(loss_type="cispo", clip_high=4.0),
    LossConfig(loss_type="gspo", dual_clip=3.0),
]
IDS = [f"{loss.loss_type}-kl{loss.kl_coef}" for loss in LOSSES]


def gradient(policy):
    return [None if p.grad is None else p.grad.clone() for p in policy.parameters()]


def weights(policy):
    return [p.detach().clone() for p in policy.parameters()]


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def on_policy(learner, policy, rows, *, temperature=1.0):
    """The rows as if `policy` had just sampled them."""
    scored = learner.logprobs(policy, rows, temperature=temperature)
    return tuple(replace(row, old_logprobs=old) for row, old in zip(rows, scored, strict=True))


def batch_for(learner, policy, *, n=6, seed=0):
    return Batch(on_policy(learner, policy, tiny_rows(n, seed=seed)))


@pytest.mark.parametrize("loss", LOSSES, ids=IDS)
def test_micro_batches_equal_the_whole_batch(loss):
    base, alice = tiny_base("alice")
    rows = tuple(tiny_rows(7, ref=bool(loss.kl_coef)))
    results = {}
    for budget in (1, 25, 10_000):
        learner = LocalLearner(base, loss=loss, optim=OptimConfig(token_budget=budget, logit_chunk=3))
        stats = learner.forward_backward(alice, Batch(rows))
        results[budget] = gradient(alice), stats
        learner._optimizer(alice).drop_gradient()
    whole, whole_stats = results[10_000]
    assert sum(g.abs().sum() for g in whole) > 0
    for budget in (1, 25):
        pieces, stats = results[budget]
        for ours, expected in zip(pieces, whole, strict=True):
            torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)
        assert stats == pytest.approx(whole_stats, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("loss", LOSSES[:4], ids=IDS[:4])
def test_calls_on_parts_of_a_batch_add_up(loss):
    base, alice = tiny_base("alice")
    learner, rows = LocalLearner(base, loss=loss), tuple(tiny_rows(6))
    learner.forward_backward(alice, Batch(rows))
    whole = gradient(alice)
    learner._optimizer(alice).drop_gradient()
    normalizer = count_normalizer(loss.loss_type, [len(row.completion_ids) for row in rows])
    for part in (rows[:1], rows[1:4], rows[4:]):
        learner.forward_backward(alice, Batch(part, normalizer=normalizer))
    for ours, expected in zip(gradient(alice), whole, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)


def test_training_one_policy_leaves_the_other_and_the_base_as_they_are():
    base, alice, bob = tiny_base("alice", "bob")
    learner = LocalLearner(base, optim=OptimConfig(weight_decay=0.1))
    frozen = base.checksum()
    for learns, idle in ((alice, bob), (bob, alice), (alice, bob)):
        moved, kept = weights(learns), weights(idle)
        learner.forward_backward(learns, batch_for(learner, learns))
        assert all(g is None for g in gradient(idle))
        learner.optim_step(learns)
        assert same(weights(idle), kept)
        assert not same(weights(learns), moved)
    assert base.checksum() == frozen


def test_two_policies_learn_as_each_would_alone():
    """Interleaved accumulation, own clipping, own momentum: as if the other were not there."""
    options = {"optim": OptimConfig(max_grad_norm=0.01)}

    def run(*names):
        base, *policies = tiny_base("alice", "bob")
        learner = LocalLearner(base, **options)
        chosen = [policy for policy in policies if policy.name in names]
        for step in range(3):
            for policy in chosen:
                learner.forward_backward(policy, Batch(tuple(tiny_rows(4, seed=step + len(policy.name)))))
            for policy in chosen:
                learner.optim_step(policy)
        return {policy.name: weights(policy) for policy in chosen}

    both = run("alice", "bob")
    assert same(both["alice"], run("alice")["alice"])
    assert same(both["bob"], run("bob")["bob"])


def test_optimisers_share_no_parameter_and_cover_all():
    base, alice, bob = tiny_base("alice", "bob")
    learner = LocalLearner(base)
    for policy in (alice, bob):
        learner.optim_step(policy)
    ids = [{id(p) for p in learner._optimizers[name].parameters.values()} for name in ("alice", "bob")]
    assert not ids[0] & ids[1]
    assert ids[0] | ids[1] == {id(p) for name, p in base.model.named_parameters() if "lora_" in name}


def test_a_policy_made_after_the_first_step_learns_too():
    base, alice = tiny_base("alice")
    learner = LocalLearner(base)
    learner.forward_backward(alice, batch_for(learner, alice))
    learner.optim_step(alice)
    kept, carol = weights(alice), base.policy("carol", rank=2)
    before = weights(carol)
    learner.forward_backward(carol, batch_for(learner, carol))
    learner.optim_step(carol)
    assert not same(weights(carol), before)
    assert same(weights(alice), kept)


def test_the_learner_chooses_the_adapter_whatever_was_active():
    base, alice, bob = tiny_base("alice", "bob")
    learner = LocalLearner(base)
    batch = batch_for(learner, alice)
    learner.forward_backward(alice, batch)
    expected = gradient(alice)
    learner._optimizer(alice).drop_gradient()
    for active in ("bob", None):
        with base.use(active):
            learner.forward_backward(alice, batch)
            assert base.active == active
        assert same(gradient(alice), expected)
        assert all(g is None for g in gradient(bob))
        learner._optimizer(alice).drop_gradient()


def test_first_update_has_ratio_one_and_a_gradient():
    base, alice = tiny_base("alice")
    learner = LocalLearner(base)
    stats = learner.forward_backward(alice, batch_for(learner, alice))
    assert stats["ratio_mean"] == pytest.approx(1, abs=1e-5)
    assert stats["ratio_max"] == pytest.approx(1, abs=1e-5)
    assert stats["approx_kl"] == pytest.approx(0, abs=1e-6)
    assert stats["clipfrac_low"] == stats["clipfrac_high"] == 0
    assert learner.optim_step(alice)["grad_norm"] > 0


def test_what_is_praised_becomes_likelier():
    base, alice = tiny_base("alice", trained=False)
    learner = LocalLearner(base, optim=OptimConfig(learning_rate=1e-2))
    rows = tiny_rows(4, seed=5)
    good, bad = [replace(rows[0], advantage=1.0)], [replace(rows[1], advantage=-1.0)]
    before = [sum(learner.logprobs(alice, side)[0]) for side in (good, bad)]
    for _ in range(5):
        learner.forward_backward(alice, Batch(on_policy(learner, alice, good + bad)))
        learner.optim_step(alice)
    after = [sum(learner.logprobs(alice, side)[0]) for side in (good, bad)]
    assert after[0] > before[0]
    assert after[1] < before[1]


# --- rows that carry no signal ---


@pytest.mark.parametrize("loss", LOSSES[:4], ids=IDS[:4])
def test_rows_with_advantage_zero_are_counted_and_not_computed(loss, monkeypatch):
    base, alice = tiny_base("alice")
    learner = LocalLearner(base, loss=loss)
    rows = tiny_rows(4)
    with_zeros = (rows[0], replace(rows[1], advantage=0.0), rows[2], replace(rows[3], advantage=0.0))
    computed, call = [], Head.__call__
    with monkeypatch.context() as patch:
        patch.setattr(Head, "__call__", lambda head, hidden_ND: computed.append(len(hidden_ND)) or call(head, hidden_ND))
        stats = learner.forward_backward(alice, Batch(with_zeros))
    assert sum(computed) == len(rows[0].completion_ids) + len(rows[2].completion_ids)
    assert (stats["rows"], stats["rows_computed"]) == (4, 2)
    ours = gradient(alice)
    learner._optimizer(alice).drop_gradient()
    normalizer = count_normalizer(loss.loss_type, [len(row.completion_ids) for row in rows])
    learner.forward_backward(alice, Batch((rows[0], rows[2]), normalizer=normalizer))
    assert same(ours, gradient(alice))


@pytest.mark.parametrize(
    "rows", [(), (replace(tiny_rows(1)[0], advantage=0.0),), (replace(tiny_rows(1)[0], completion_ids=(), old_logprobs=()),)]
)
def test_a_batch_without_signal_moves_nothing(rows):
    base, alice = tiny_base("alice")
    learner, before = LocalLearner(base, optim=OptimConfig(weight_decay=0.1)), weights(alice)
    stats = learner.forward_backward(alice, Batch(rows))
    assert stats == {"loss": 0, "tokens": 0, "rows": len(rows), "rows_computed": 0}
    assert learner.optim_step(alice)["grad_norm"] == 0
    assert same(weights(alice), before)


# --- the reference ---


def test_kl_to_the_base_is_zero_at_the_start_and_grows():
    base, alice = tiny_base("alice", trained=False)
    learner = LocalLearner(base, loss=LossConfig(kl_coef=0.05), optim=OptimConfig(learning_rate=1e-2))
    kl = []
    for _ in range(3):
        kl.append(learner.forward_backward(alice, batch_for(learner, alice))["kl_ref"])
        learner.optim_step(alice)
    assert kl[0] == 0
    assert 0 < kl[1] < kl[2]


def test_missing_reference_is_filled_in_from_the_bare_base():
    base, alice = tiny_base("alice")
    learner = LocalLearner(base, loss=LossConfig(kl_coef=0.5))
    batch = Batch(on_policy(learner, alice, tiny_rows(6), temperature=0.7), temperature=0.7)
    stats = learner.forward_backward(alice, batch)
    filled = gradient(alice)
    learner._optimizer(alice).drop_gradient()
    scored = learner.logprobs(None, batch.rows, temperature=0.7)
    given = Batch(tuple(replace(row, ref_logprobs=ref) for row, ref in zip(batch.rows, scored, strict=True)), temperature=0.7)
    assert learner.forward_backward(alice, given) == stats
    assert same(filled, gradient(alice))
    assert stats["kl_ref"] > 0


def test_with_kl_rows_without_advantage_are_computed():
    base, alice = tiny_base("alice")
    learner = LocalLearner(base, loss=LossConfig(kl_coef=0.5))
    rows = tuple(replace(row, advantage=0.0) for row in batch_for(learner, alice).rows)
    assert learner.forward_backward(alice, Batch(rows))["rows_computed"] == len(rows)
    assert learner.optim_step(alice)["grad_norm"] > 0


def test_logprobs_keep_the_order_and_are_those_of_the_policy():
    base, alice, _ = tiny_base("alice", "bob")
    rows = tiny_rows(7)
    learner = LocalLearner(base, optim=OptimConfig(token_budget=20, logit_chunk=4))
    bare, requires_grad = tiny_model(), {name: p.requires_grad for name, p in base.model.named_parameters()}
    with base.use("bob"):
        ours = {"alice": learner.logprobs(alice, rows, temperature=0.8), None: learner.logprobs(None, rows, temperature=0.8)}
        assert base.active == "bob"
    assert {name: p.requires_grad for name, p in base.model.named_parameters()} == requires_grad
    for index, row in enumerate(rows):
        torch.testing.assert_close(torch.tensor(ours[None][index]), plain_logprobs(bare, row, temperature=0.8).detach())
        with base.use("alice"), torch.no_grad():
            expected = plain_logprobs(base.model, row, temperature=0.8)
        torch.testing.assert_close(torch.tensor(ours["alice"][index]), expected)
    assert ours["alice"] != ours[None]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_scores_equal_what_the_sampler_said(temperature):
    base, alice = tiny_base("alice")
    learner = LocalLearner(base)
    prompts = [row.prompt_ids for row in tiny_rows(5)]
    params = SamplingParams(max_tokens=6, temperature=temperature)
    (completions,) = learner.sample([Request(alice, prompts, params, seeds=range(5))])
    rows = [
        replace(tiny_rows(1)[0], prompt_ids=prompt, completion_ids=c.token_ids, old_logprobs=c.logprobs, advantage=1.0)
        for prompt, c in zip(prompts, completions, strict=True)
    ]
    for scored, completion in zip(learner.logprobs(alice, rows, temperature=temperature), completions, strict=True):
        assert scored == pytest.approx(completion.logprobs, abs=1e-4)
    stats = learner.forward_backward(alice, Batch(tuple(rows), temperature=temperature))
    assert stats["ratio_max"] == pytest.approx(1, abs=1e-3)


# --- errors ---


def test_non_finite_loss_steps_nothing_and_drops_what_was_accumulated():
    base, alice, bob = tiny_base("alice", "bob")
    learner = LocalLearner(base)
    batch = batch_for(learner, alice)
    learner.forward_backward(bob, batch_for(learner, bob))
    kept = gradient(bob)
    learner.forward_backward(alice, batch)
    spoilt = alice.parameters()[-1]
    value = spoilt.detach().clone()
    spoilt.data.fill_(float("nan"))
    with pytest.raises(NonFiniteUpdate, match="'alice'"):
        learner.forward_backward(alice, batch)
    spoilt.data.copy_(value)
    assert all(g is None for g in gradient(alice))
    assert same(gradient(bob), kept)
    before = weights(alice)
    learner.optim_step(alice)
    assert same(weights(alice), before)


def test_a_nan_that_the_loss_does_not_show_is_not_stepped(monkeypatch):
    """torch's causal attention turns NaN in the queries of short texts into 0; the gradient still has it."""
    monkeypatch.setattr("agents.kernels.library.LIBRARY", None)  # else the loss would show it
    base, alice = tiny_base("alice")
    learner = LocalLearner(base)
    batch = batch_for(learner, alice)
    alice.parameters()[0].data.fill_(float("nan"))
    learner.forward_backward(alice, batch)
    with pytest.raises(NonFiniteUpdate, match="norm of the gradient"):
        learner.optim_step(alice)
    assert all(g is None for g in gradient(alice))


def test_an_adapter_that_gets_no_gradient_is_an_error_not_a_silent_zero():
    base, alice = tiny_base("alice")
    learner = LocalLearner(base)
    batch = batch_for(learner, alice)
    for parameter in alice.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(NoGradient, match="'alice'"):
        learner.forward_backward(alice, batch)


def test_the_bare_base_and_strangers_are_refused():
    base, alice = tiny_base("alice")
    learner = LocalLearner(base)
    with pytest.raises(ValueError, match="never trained"):
        learner.optim_step(base.policy())
    with pytest.raises(ValueError, match="another base"):
        LocalLearner(tiny_base("alice")[0]).optim_step(alice)


@pytest.mark.parametrize("kind", [LocalLearner, TinkerLearner])
def test_settings_that_lack_a_length_are_refused_at_once(kind):
    base, _ = tiny_base("alice")
    with pytest.raises(ValueError, match="set max_tokens"):
        kind(base, loss=LossConfig(loss_type="dr_grpo"))
    with pytest.raises(ValueError, match="total_steps"):
        kind(base, optim=OptimConfig(schedule="cosine"))


# --- files ---


def test_stats_are_plain_floats():
    base, alice = tiny_base("alice")
    learner = LocalLearner(base, loss=LossConfig(kl_coef=0.1))
    stats = learner.forward_backward(alice, batch_for(learner, alice)) | learner.optim_step(alice)
    assert {type(value) for value in stats.values()} == {float}
    assert stats.keys() >= {
        "loss",
        "approx_kl",
        "clipfrac_low",
        "clipfrac_high",
        "ratio_mean",
        "ratio_max",
        "entropy",
        "kl_ref",
        "grad_norm",
    }


def test_resumed_training_equals_uninterrupted_training(tmp_path):
    def step(learner, policy, number):
        learner.forward_backward(policy, Batch(tuple(tiny_rows(4, seed=number))))
        learner.optim_step(policy)

    options = {"optim": OptimConfig(schedule="linear", warmup_steps=1), "total_steps": 5}
    base, alice = tiny_base("alice")
    learner = LocalLearner(base, **options)
    for number in range(4):
        if number == 2:
            learner.save(alice, tmp_path / "alice")
            save_file(learner.state_dict(alice), tmp_path / "optim.safetensors")
        step(learner, alice, number)

    again, policy = tiny_base("alice", trained=False)
    resumed = LocalLearner(again, **options)
    again.load_adapter("alice", tmp_path / "alice")
    resumed.load_state_dict(policy, load_file(tmp_path / "optim.safetensors"))
    for number in (2, 3):
        step(resumed, policy, number)
    assert same(weights(policy), weights(alice))
    ours, theirs = resumed.state_dict(policy), learner.state_dict(alice)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_state_of_another_policy_is_refused():
    base, alice, bob = tiny_base("alice", "bob")
    learner = LocalLearner(base)
    learner.forward_backward(alice, batch_for(learner, alice))
    learner.optim_step(alice)
    with pytest.raises(ValueError, match="none of this policy's parameters"):
        learner.load_state_dict(bob, learner.state_dict(alice))


def test_saved_adapter_loads_with_peft(tmp_path):
    base, alice = tiny_base("alice")
    learner, rows = LocalLearner(base), tiny_rows(3)
    learner.save(alice, tmp_path / "alice")
    model = PeftModel.from_pretrained(tiny_model(), tmp_path / "alice").eval()
    for row, ours in zip(rows, learner.logprobs(alice, rows), strict=True):
        torch.testing.assert_close(torch.tensor(ours), plain_logprobs(model, row).detach())


@pytest.mark.parametrize("recompute", [False, True])
def test_t48_no_dropout_comes_between_sampler_and_learner(recompute):
    base, alice = tiny_base("alice")
    for module in base.model.modules():
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.5
    learner = LocalLearner(base, optim=OptimConfig(recompute=recompute))
    stats = learner.forward_backward(alice, batch_for(learner, alice))
    assert stats["ratio_max"] == pytest.approx(1, abs=1e-5)
    base.model.train()
    scores = [learner.logprobs(alice, tiny_rows(3)) for _ in range(2)]
    assert scores[0] != scores[1]  # so there was dropout to be kept out


@pytest.mark.parametrize("family", FAMILIES)
def test_recomputed_layers_give_the_same_gradient_and_keep_less(family):
    results = {}
    for recompute in (False, True):
        base, alice, _ = tiny_base("alice", "bob", family=family)
        modes = [module.training for module in base.model.modules()]
        learner, kept = LocalLearner(base, optim=OptimConfig(recompute=recompute)), []
        with torch.autograd.graph.saved_tensors_hooks(lambda x, kept=kept: kept.append(x.numel()) or x, lambda x: x):
            learner.forward_backward(alice, Batch(tuple(tiny_rows(3, longest=20))))
        assert [module.training for module in base.model.modules()] == modes
        results[recompute] = gradient(alice), len(kept)
    for ours, expected in zip(results[True][0], results[False][0], strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)
    assert results[True][1] < results[False][1] / 2
