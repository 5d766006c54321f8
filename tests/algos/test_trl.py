"""Losses and advantages against TRL's, on the same tokens and the same tiny model."""

import inspect
from collections import defaultdict
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
import torch
from learner_fixtures import tiny_model, tiny_rows

from algos.advantages import group_advantages
from algos.importance import importance_weights
from algos.learning.batching import pad_rows
from algos.learning.logprobs import token_logprobs
from algos.losses import TOKEN_MEANS, LossType, count_normalizer, policy_loss

pytest.importorskip("trl", minversion="1.16", reason="TRL is the other side of this comparison")
from trl import GRPOTrainer
from trl.trainer.utils import add_fused_lm_head

LOSS_TYPES = get_args(LossType)
TEMPERATURE, CLIP_LOW, CLIP_HIGH, MAX_TOKENS = 0.8, 0.2, 0.28, 9


class Accelerator:
    """One process."""

    num_processes = 1
    sync_gradients = True

    def autocast(self):
        return nullcontext()

    def gather(self, x):
        return x

    def reduce(self, x, reduction):
        return x


def trl_trainer(model, *, loss_type, beta=0.0, kl_weighted=True, accumulation=1, delta=None, corrected=False):
    """What `GRPOTrainer._compute_loss` reads of a trainer; the method itself is TRL's."""
    add_fused_lm_head(model, temperature=TEMPERATURE, outputs=("log_probs", "entropy"))
    sequence = loss_type == "gspo"  # TRL's name for it is a level
    trainer = SimpleNamespace(
        accelerator=Accelerator(),
        args=SimpleNamespace(delta=delta, use_bias_correction_kl=kl_weighted, steps_per_generation=accumulation),
        model=SimpleNamespace(training=True),
        loss_type="grpo" if sequence else loss_type,
        beta=beta,
        epsilon_low=CLIP_LOW,
        epsilon_high=1 + CLIP_HIGH if loss_type == "cispo" else CLIP_HIGH,  # there it is the bound itself
        max_completion_length=MAX_TOKENS,
        importance_sampling_level="sequence" if sequence else "token",
        current_gradient_accumulation_steps=accumulation,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        use_vllm=corrected,
        vllm_importance_sampling_correction=corrected,
        aux_loss_enabled=False,
        _entropy_bonus_enabled=False,
        _metrics={"train": defaultdict(list)},
    )
    # Without the decorator that reports profiles to a real trainer.
    trainer._get_per_token_logps_and_entropies = partial(
        inspect.unwrap(GRPOTrainer._get_per_token_logps_and_entropies), trainer
    )
    return trainer


def trl_inputs(rows, *, tokens):
    """TRL pads prompts on the left and completions on the right."""
    longest = max(len(row.prompt_ids) for row in rows)
    prompts = [(0,) * (longest - len(row.prompt_ids)) + row.prompt_ids for row in rows]
    prompt_mask = [[0] * (longest - len(row.prompt_ids)) + [1] * len(row.prompt_ids) for row in rows]
    batch = pad_rows(rows)
    completions = torch.zeros(batch.mask_BT.shape, dtype=torch.long).masked_scatter(batch.mask_BT, batch.target_ids_N)
    return {
        "prompt_ids": torch.tensor(prompts),
        "prompt_mask": torch.tensor(prompt_mask),
        "completion_ids": completions,
        "completion_mask": batch.mask_BT.long(),
        "advantages": batch.advantages_B,
        "old_per_token_logps": batch.old_logp_BT,
        "ref_per_token_logps": batch.ref_logp_BT,
        "num_items_in_batch": torch.tensor(tokens),
    }


def off_policy_rows(model, n=5, *, spread=0.3):
    """Rows whose old log-probabilities lie near the model's, so that some ratios are clipped and some are not."""
    rows, generator = tiny_rows(n, ref=True, seed=4), torch.Generator().manual_seed(0)
    with torch.no_grad():
        logp_BT, _ = token_logprobs(model, pad_rows(rows), temperature=TEMPERATURE)

    def near(logp_T, row):
        noise = torch.randn(len(row.completion_ids), generator=generator)
        return tuple((logp_T[: len(noise)] + spread * noise).tolist())

    return [
        type(row)(row.prompt_ids, row.completion_ids, near(logp, row), row.advantage, near(logp, row))
        for logp, row in zip(logp_BT, rows, strict=True)
    ]


def gradient(model):
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}


def ours(rows, *, loss_type, beta=0.0, kl_weighted=True, pieces=1, dual_clip=None):
    model, size = tiny_model(), -(-len(rows) // pieces)
    normalizer = count_normalizer(loss_type, [len(row.completion_ids) for row in rows])
    total, stats = 0.0, {}
    for start in range(0, len(rows), size):
        batch = pad_rows(rows[start : start + size])
        logp_BT, entropy_BT = token_logprobs(model, batch, temperature=TEMPERATURE, chunk=3, entropy=True)
        loss, stats = policy_loss(
            logp_BT,
            batch.old_logp_BT,
            batch.advantages_B,
            batch.mask_BT,
            loss_type=loss_type,
            clip_low=CLIP_LOW,
            clip_high=CLIP_HIGH,
            dual_clip=dual_clip,
            weight_BT=batch.weight_BT,
            ref_logp_BT=batch.ref_logp_BT,
            kl_coef=beta,
            kl_weighted=kl_weighted,
            max_tokens=MAX_TOKENS,
            normalizer=normalizer,
            entropy_BT=entropy_BT,
        )
        loss.backward()
        total += loss.item()
    return total, gradient(model), stats


def assert_same_gradient(ours, theirs):
    assert ours.keys() == theirs.keys()
    assert sum(gradient.abs().sum() for gradient in theirs.values()) > 0
    for name, expected in theirs.items():
        torch.testing.assert_close(ours[name], expected, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
@pytest.mark.parametrize(("beta", "kl_weighted"), [(0.0, True), (0.1, True), (0.1, False)])
def test_loss_and_gradient_equal_trl(loss_type, beta, kl_weighted):
    if loss_type == "gspo" and beta and kl_weighted:
        pytest.skip("TRL weighs each token's KL by the sequence's ratio here, which makes its gradient that of no divergence")
    model = tiny_model()
    rows = off_policy_rows(model)
    trainer = trl_trainer(model, loss_type=loss_type, beta=beta, kl_weighted=kl_weighted)
    inputs = trl_inputs(rows, tokens=sum(len(row.completion_ids) for row in rows))
    theirs = GRPOTrainer._compute_loss(trainer, model, inputs)
    theirs.backward()
    value, our_gradient, stats = ours(rows, loss_type=loss_type, beta=beta, kl_weighted=kl_weighted)
    assert value == pytest.approx(theirs.item(), rel=1e-4, abs=1e-6)
    assert_same_gradient(our_gradient, gradient(model))
    metrics = {name: values[0] for name, values in trainer._metrics["train"].items()}
    assert stats["entropy"].item() == pytest.approx(metrics["entropy"], rel=1e-4)
    if beta and not kl_weighted:
        assert stats["kl_ref"].item() == pytest.approx(metrics["kl"], rel=1e-4)
    if loss_type == "cispo":  # TRL counts the capped tokens of positive advantage alone
        assert stats["clipfrac_high"].item() >= metrics["cispo_clip_ratio"] > 0
    elif loss_type != "gspo":  # where TRL counts sequences
        assert stats["clipfrac_low"].item() == pytest.approx(metrics["clip_ratio/low_mean"])
        assert stats["clipfrac_high"].item() == pytest.approx(metrics["clip_ratio/high_mean"])
        assert metrics["clip_ratio/region_mean"] > 0


def both(rows, *, loss_type, inputs=None, delta=None, corrected=False, kept=None):
    """The value and the gradient of TRL's loss and of ours, on the same rows."""
    model = tiny_model()
    trainer = trl_trainer(model, loss_type=loss_type, delta=delta, corrected=corrected)
    tokens = sum(len(row.completion_ids) for row in kept or rows)
    theirs = GRPOTrainer._compute_loss(trainer, model, trl_inputs(rows, tokens=tokens) | (inputs or {}))
    theirs.backward()
    value, our_gradient, _ = ours(kept or rows, loss_type=loss_type, dual_clip=delta)
    return (theirs.item(), gradient(model)), (value, our_gradient)


@pytest.mark.parametrize("loss_type", ["grpo", "dr_grpo", "dapo", "gspo"])
def test_dual_clip_equals_trls_two_sided_clipping(loss_type):
    rows = off_policy_rows(tiny_model(), spread=1.5)
    (value, expected), (our_value, found) = both(rows, loss_type=loss_type, delta=1.5)
    assert our_value == pytest.approx(value, rel=1e-4, abs=1e-6)
    assert_same_gradient(found, expected)
    without = both(rows, loss_type=loss_type)[1][0]
    assert our_value != pytest.approx(without, rel=1e-3)


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_the_correction_for_the_sampler_equals_trls(loss_type, level):
    """TRL's `{level}_truncate` with a cap of 1.2."""
    rows = off_policy_rows(tiny_model())
    sampler = [row.ref_logprobs for row in rows]  # near the old log-probabilities, and not equal to them
    weighed = [
        replace(row, weights=importance_weights(old_logp_T=row.old_logprobs, sampler_logp_T=logp, level=level, cap=1.2))
        for row, logp in zip(rows, sampler, strict=True)
    ]
    batch = pad_rows(rows)
    gap_BT = (batch.old_logp_BT - batch.ref_logp_BT) * batch.mask_BT
    ratio = (gap_BT.sum(-1, keepdim=True) if level == "sequence" else gap_BT).exp().clamp(max=1.2)
    assert 0 < (ratio == 1.2).sum() < ratio.numel()
    (value, expected), (our_value, found) = both(
        weighed, loss_type=loss_type, corrected=True, inputs={"importance_sampling_ratio": ratio}
    )
    assert our_value == pytest.approx(value, rel=1e-4, abs=1e-6)
    assert_same_gradient(found, expected)


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_rows_left_out_equal_trls_masked_ones(loss_type):
    """`mask_truncated` leaves rows out of numerator and count; TRL masks them, and still counts their sequences."""
    rows = off_policy_rows(tiny_model())
    mask = pad_rows(rows).mask_BT.long()
    mask[1] = mask[3] = 0
    kept = [row for index, row in enumerate(rows) if index not in (1, 3)]
    (value, expected), (our_value, found) = both(rows, loss_type=loss_type, kept=kept, inputs={"completion_mask": mask})
    counted = 1 if loss_type in TOKEN_MEANS else len(kept) / len(rows)
    assert our_value * counted == pytest.approx(value, rel=1e-4, abs=1e-6)
    assert_same_gradient({name: grad * counted for name, grad in found.items()}, expected)


@pytest.mark.parametrize("loss_type", ["grpo", "dr_grpo", "dapo", "cispo", "gspo"])
def test_accumulation_equals_trl(loss_type):
    """Two accumulated halves of two rows each. TRL's "bnpo" depends on the split, so it is not among them."""
    model = tiny_model()
    rows = off_policy_rows(model, n=4)
    trainer = trl_trainer(model, loss_type=loss_type, beta=0.1, kl_weighted=loss_type != "gspo", accumulation=2)
    tokens, total = sum(len(row.completion_ids) for row in rows), 0.0
    for half in (rows[:2], rows[2:]):
        loss = GRPOTrainer._compute_loss(trainer, model, trl_inputs(half, tokens=tokens))
        loss.backward()
        total += loss.item()
    value, our_gradient, _ = ours(rows, loss_type=loss_type, beta=0.1, kl_weighted=loss_type != "gspo", pieces=2)
    assert value == pytest.approx(total, rel=1e-4, abs=1e-6)
    assert_same_gradient(our_gradient, gradient(model))


def test_advantages_differ_from_trl_by_the_degree_of_freedom_alone():
    """TRL divides by the sample deviation plus 1e-4; the paper by the population deviation."""
    rewards, n = torch.tensor([0.0, 1.0, 1.0, 0.5]), 4
    trl = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    values = group_advantages(rewards.tolist(), ["x"] * n).values
    np.testing.assert_allclose(values * np.sqrt((n - 1) / n), trl.numpy(), rtol=1e-3)
