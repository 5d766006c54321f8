"""Losses. Traps T27-T31, T37-T39 and T64 of the reported faults."""

import math

import pytest
import torch
import torch.distributed as dist

from algos.losses import LossConfig, count_normalizer, kl_estimate, merge_stats, policy_loss

LOSS_TYPES = ("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "gspo")
NAN, INF = float("nan"), float("inf")

# Two sequences of three positions; the last position of the second is padding. Ratios, and what follows by hand:
#   A = +1: ratios 1, 1.5 (clipped to 1.2), 0.5         → losses −1, −1.2, −0.5
#   A = −2: ratios 0.5 (clipped to 0.8), 1.5, padding   → losses 1.6, 3
RATIO = torch.tensor([[1.0, 1.5, 0.5], [0.5, 1.5, 7.0]])
MASK = torch.tensor([[1, 1, 1], [1, 1, 0]])
ADVANTAGES = torch.tensor([1.0, -2.0])
TOKEN_GRADIENT = torch.tensor([[-1.0, 0.0, -0.5], [0.0, 3.0, 0.0]])
# "cispo" weighs −A·log π by the ratio, at most 1.2; "gspo" takes the geometric means of the ratios, none of which is clipped.
CISPO = -1.2 * math.log(1.5) - 0.5 * math.log(0.5) + 2 * 0.5 * math.log(0.5) + 2 * 1.2 * math.log(1.5)
FIRST, SECOND = 0.75 ** (1 / 3), 0.75 ** (1 / 2)
BY_HAND = {
    "grpo": (0.7, TOKEN_GRADIENT * torch.tensor([[1 / 6], [1 / 4]])),
    "dr_grpo": (1.9 / 8, TOKEN_GRADIENT / 8),
    "dapo": (1.9 / 5, TOKEN_GRADIENT / 5),
    "bnpo": (1.9 / 5, TOKEN_GRADIENT / 5),
    "cispo": (CISPO / 5, torch.tensor([[-1.0, -1.2, -0.5], [1.0, 2.4, 0.0]]) / 5),
    "gspo": ((-FIRST + 2 * SECOND) / 2, torch.tensor([[-FIRST / 6] * 3, [SECOND / 2, SECOND / 2, 0.0]])),
}


def random_batch(rows=6, length=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    old, noise, ref = (torch.randn(rows, length, generator=generator) for _ in range(3))
    lengths = torch.tensor([length, 1, 3, length, 2, 4][:rows])
    return {
        "logp": old + 0.3 * noise,
        "old": old,
        "ref": old + 0.2 * ref,
        "advantages": torch.randn(rows, generator=generator),
        "mask": torch.arange(length) < lengths.unsqueeze(1),
        "lengths": lengths.tolist(),
    }


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_hand_worked(loss_type):
    value, gradient = BY_HAND[loss_type]
    logp = RATIO.log().requires_grad_()
    loss, _ = policy_loss(logp, torch.zeros(2, 3), ADVANTAGES, MASK, loss_type=loss_type, max_tokens=4)
    loss.backward()
    assert loss.item() == pytest.approx(value)
    torch.testing.assert_close(logp.grad, gradient)


def test_loss_types_differ():
    values = {
        name: policy_loss(RATIO.log(), torch.zeros(2, 3), ADVANTAGES, MASK, loss_type=name, max_tokens=4)[0].item()
        for name in LOSS_TYPES
    }
    assert values["dapo"] == values["bnpo"]
    assert len({round(value, 6) for value in values.values()}) == len(LOSS_TYPES) - 1


@pytest.mark.parametrize(("kl_weighted", "kl"), [(False, [1.0, 2.0]), (True, [0.5 * 1.0, 2 * 2.0])])
def test_hand_worked_kl_term(kl_weighted, kl):
    logp = torch.tensor([[0.5, 2.0]]).log()
    ref = logp - torch.tensor([[1.0, 2.0]])
    loss, stats = policy_loss(
        logp,
        torch.zeros(1, 2),
        torch.zeros(1),
        torch.ones(1, 2),
        ref_logp_BT=ref,
        kl_coef=0.1,
        kl_estimator="k1",
        kl_weighted=kl_weighted,
    )
    assert loss.item() == pytest.approx(0.1 * sum(kl) / 2)
    assert stats["kl_ref"].item() == pytest.approx(1.5)


def test_stats_by_hand_ignore_padding():
    entropy = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, NAN]])
    _, stats = policy_loss(RATIO.log(), torch.zeros(2, 3), ADVANTAGES, MASK, entropy_BT=entropy)
    ratios = [1.0, 1.5, 0.5, 0.5, 1.5]
    assert stats["tokens"].item() == 5
    assert stats["clipfrac_low"].item() == pytest.approx(1 / 5)
    assert stats["clipfrac_high"].item() == pytest.approx(1 / 5)
    assert stats["ratio_mean"].item() == pytest.approx(1.0)
    assert stats["ratio_max"].item() == pytest.approx(1.5)
    assert stats["entropy"].item() == pytest.approx(3.0)
    assert stats["approx_kl"].item() == pytest.approx(sum(r - 1 - math.log(r) for r in ratios) / 5)
    assert not any(value.requires_grad for value in stats.values())


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_masked_positions_do_not_leak(loss_type, bad):
    batch = random_batch()
    options = {"loss_type": loss_type, "max_tokens": 5, "kl_coef": 0.1}
    clean = batch["logp"].clone().requires_grad_()
    expected, _ = policy_loss(clean, batch["old"], batch["advantages"], batch["mask"], ref_logp_BT=batch["ref"], **options)
    expected.backward()
    dirty = torch.where(batch["mask"], batch["logp"], bad).requires_grad_()
    old, ref = (torch.where(batch["mask"], batch[name], bad) for name in ("old", "ref"))
    loss, stats = policy_loss(dirty, old, batch["advantages"], batch["mask"], ref_logp_BT=ref, entropy_BT=old, **options)
    loss.backward()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(dirty.grad, clean.grad)
    assert all(value.isfinite() for value in stats.values())


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_all_masked_is_zero(loss_type):
    logp = torch.zeros(2, 3, requires_grad=True)
    loss, stats = policy_loss(logp, torch.zeros(2, 3), torch.ones(2), torch.zeros(2, 3), loss_type=loss_type, max_tokens=3)
    loss.backward()
    assert loss.item() == 0
    assert (logp.grad == 0).all()
    assert all(value.isfinite() for value in stats.values())


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_sequence_without_tokens_changes_nothing(loss_type):
    """It is left out of the numerator and of the normaliser alike."""
    batch = random_batch()
    mask, options = batch["mask"].clone(), {"loss_type": loss_type, "max_tokens": 5}
    mask[2] = False
    others = [0, 1, 3, 4, 5]
    loss, _ = policy_loss(batch["logp"], batch["old"], batch["advantages"], mask, **options)
    expected, _ = policy_loss(batch["logp"][others], batch["old"][others], batch["advantages"][others], mask[others], **options)
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
@pytest.mark.parametrize("pieces", [[[0, 1, 2], [3, 4, 5]], [[0], [1, 2, 3, 4], [5]], [[i] for i in range(6)]])
def test_pieces_add_up_to_the_whole(loss_type, pieces):
    """Whether the pieces are micro-batches or ranks with unequal token counts."""
    batch = random_batch()
    options = {"loss_type": loss_type, "max_tokens": 5, "kl_coef": 0.05}

    def run(index, normalizer):
        logp = batch["logp"][index].clone().requires_grad_()
        loss, stats = policy_loss(
            logp,
            batch["old"][index],
            batch["advantages"][index],
            batch["mask"][index],
            ref_logp_BT=batch["ref"][index],
            normalizer=normalizer,
            **options,
        )
        loss.backward()
        return logp.grad, {name: value.item() for name, value in stats.items()}

    whole_gradient, whole = run(list(range(6)), None)
    normalizer = count_normalizer(loss_type, batch["lengths"])
    results = [run(piece, normalizer) for piece in pieces]
    torch.testing.assert_close(torch.cat([gradient for gradient, _ in results]), whole_gradient, rtol=1e-6, atol=1e-8)
    merged = merge_stats([stats for _, stats in results])
    assert merged == pytest.approx(whole, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_first_update_is_reinforce(loss_type):
    """With a ratio of 1 the value tells nothing and the gradient is that of −A·log π."""
    batch = random_batch()
    advantages = batch["advantages"] - batch["advantages"].mean()
    logp, plain = batch["logp"].clone().requires_grad_(), batch["logp"].clone().requires_grad_()
    loss, stats = policy_loss(logp, batch["logp"], advantages, batch["mask"], loss_type=loss_type, max_tokens=5)
    loss.backward()
    per_token = torch.where(batch["mask"], -advantages.unsqueeze(1) * plain, 0.0)
    lengths = batch["mask"].sum(1)
    reinforce = {
        "grpo": (per_token.sum(1) / lengths).mean(),
        "dr_grpo": per_token.sum() / 30,
        "dapo": per_token.sum() / lengths.sum(),
        "bnpo": per_token.sum() / lengths.sum(),
        "cispo": per_token.sum() / lengths.sum(),
        "gspo": (per_token.sum(1) / lengths).mean(),
    }[loss_type]
    reinforce.backward()
    torch.testing.assert_close(logp.grad, plain.grad)
    assert logp.grad.abs().sum() > 0
    assert stats["ratio_mean"].item() == stats["ratio_max"].item() == 1
    assert stats["approx_kl"].item() == 0
    if loss_type in ("grpo", "gspo"):
        assert loss.item() == pytest.approx(0, abs=1e-7)


def test_clip_higher_is_its_own_bound():
    logp = torch.tensor([[1.25, 1.35]]).log()
    arguments = (logp, torch.zeros(1, 2), torch.ones(1), torch.ones(1, 2))
    assert policy_loss(*arguments, clip_high=0.28)[0].item() == pytest.approx(-(1.25 + 1.28) / 2)
    assert policy_loss(*arguments, clip_high=0.2)[0].item() == pytest.approx(-1.2)
    assert policy_loss(*arguments, clip_high=0.28)[1]["clipfrac_high"].item() == 0.5


def test_sequences_are_clipped_as_a_whole():
    logp = torch.tensor([[1.1, 1.3], [0.9, 1.05]]).log().requires_grad_()
    loss, stats = policy_loss(
        logp, torch.zeros(2, 2), torch.ones(2), torch.ones(2, 2), loss_type="gspo", clip_low=3e-4, clip_high=4e-4
    )
    loss.backward()
    kept = math.sqrt(0.9 * 1.05)  # below the range, which costs nothing where the advantage is positive
    assert loss.item() == pytest.approx(-(1 + 4e-4 + kept) / 2)
    torch.testing.assert_close(logp.grad, torch.tensor([[0.0, 0.0], [-kept / 4, -kept / 4]]))
    assert (stats["clipfrac_high"].item(), stats["clipfrac_low"].item()) == (0.5, 0)


def test_the_divergence_is_weighted_by_the_ratio_of_the_token_not_of_the_sequence():
    logp, mask = torch.tensor([[1.3, 0.9]]).log(), torch.ones(1, 2)
    loss, _ = policy_loss(
        logp, torch.zeros(1, 2), torch.zeros(1), mask, loss_type="gspo", ref_logp_BT=torch.zeros(1, 2), kl_coef=1.0
    )
    k3 = [1 / ratio - 1 + math.log(ratio) for ratio in (1.3, 0.9)]
    assert loss.item() == pytest.approx((1.3 * k3[0] + 0.9 * k3[1]) / 2, rel=1e-4)


def test_a_capped_weight_keeps_its_gradient():
    """What "grpo" clips away still learns under "cispo", by a bounded amount."""
    logp = torch.tensor([[7.0, 1.0]]).log().requires_grad_()
    arguments = (logp, torch.zeros(1, 2), torch.ones(1), torch.ones(1, 2))
    loss, stats = policy_loss(*arguments, loss_type="cispo", clip_high=4.0)
    loss.backward()
    torch.testing.assert_close(logp.grad, torch.tensor([[-5.0, -1.0]]) / 2)
    assert (stats["clipfrac_high"].item(), stats["clipfrac_low"].item()) == (0.5, 0)


def test_dual_clip_bounds_what_a_negative_advantage_costs():
    """Ratios 4 and 2 at A = −1 and +1, bounded at 3: the first costs 3 instead of 4 and gets no gradient."""
    logp = torch.tensor([[4.0, 2.0], [4.0, 2.0]]).log().requires_grad_()
    advantages = torch.tensor([-1.0, 1.0])
    loss, stats = policy_loss(logp, torch.zeros(2, 2), advantages, torch.ones(2, 2), dual_clip=3.0)
    loss.backward()
    assert loss.item() == pytest.approx(((3 + 2) / 2 - 1.2) / 2)
    torch.testing.assert_close(logp.grad, torch.tensor([[0.0, 2.0], [0.0, 0.0]]) / 4)
    assert stats["clipfrac_dual"].item() == 0.25
    unbounded, plain = policy_loss(logp, torch.zeros(2, 2), advantages, torch.ones(2, 2))
    assert unbounded.item() == pytest.approx(((4 + 2) / 2 - 1.2) / 2)
    assert "clipfrac_dual" not in plain


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_weights_are_factors_of_the_policy_term_alone(loss_type):
    batch, options = random_batch(), {"loss_type": loss_type, "max_tokens": 5}
    arguments = (batch["logp"], batch["old"], batch["advantages"], batch["mask"])
    plain, _ = policy_loss(*arguments, **options)
    with_kl, _ = policy_loss(*arguments, ref_logp_BT=batch["ref"], kl_coef=0.1, **options)
    weights = torch.where(batch["mask"], 0.5, NAN)
    halved, _ = policy_loss(*arguments, weight_BT=weights, **options)
    halved_with_kl, _ = policy_loss(*arguments, weight_BT=weights, ref_logp_BT=batch["ref"], kl_coef=0.1, **options)
    torch.testing.assert_close(halved, plain / 2)
    torch.testing.assert_close(halved_with_kl - halved, with_kl - plain)


@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize("gap", [200.0, -200.0])
def test_huge_ratio_stays_finite(advantage, gap):
    logp = torch.full((1, 2), gap, requires_grad=True)
    ref = torch.zeros(1, 2)
    loss, stats = policy_loss(logp, ref, torch.tensor([advantage]), torch.ones(1, 2), ref_logp_BT=ref, kl_coef=0.1)
    loss.backward()
    assert loss.isfinite()
    assert logp.grad.isfinite().all()
    assert all(value.isfinite() for value in stats.values())


def test_nan_in_the_completion_is_not_hidden():
    logp = torch.tensor([[0.0, NAN]])
    assert policy_loss(logp, torch.zeros(1, 2), torch.ones(1), torch.ones(1, 2))[0].isnan()


# --- KL: exact expectations over a vocabulary of five tokens ---

LOGITS = torch.tensor([0.3, -1.0, 0.8, 0.0, -0.4])
REF_LOGP = torch.log_softmax(torch.tensor([0.0, 0.5, 0.1, -0.7, 0.2]), -1)


def exact_kl(p_log, q_log):
    return (p_log.exp() * (p_log - q_log)).sum()


def test_k1_and_k3_are_unbiased_and_k2_and_k3_are_not_negative():
    logp = torch.log_softmax(LOGITS, -1)
    estimates = {name: kl_estimate(logp, REF_LOGP, name) for name in ("k1", "k2", "k3")}
    expectation = {name: (logp.exp() * value).sum().item() for name, value in estimates.items()}
    exact = exact_kl(logp, REF_LOGP).item()
    assert exact != pytest.approx(exact_kl(REF_LOGP, logp).item(), rel=1e-2)
    assert expectation["k1"] == pytest.approx(exact, rel=1e-5)
    assert expectation["k3"] == pytest.approx(exact, rel=1e-5)
    assert (estimates["k2"] >= 0).all()
    assert (estimates["k3"] >= 0).all()
    assert (estimates["k1"] < 0).any()
    assert torch.equal(estimates["k1"] > 0, logp > REF_LOGP)


def test_approx_kl_is_that_of_the_sampling_policy_from_the_trained_one():
    """The tokens come from π_old, so it is KL(π_old ‖ π) that they estimate."""
    old, logp = REF_LOGP, torch.log_softmax(LOGITS, -1)
    each = [
        policy_loss(logp[v].reshape(1, 1), old[v].reshape(1, 1), torch.zeros(1), torch.ones(1, 1))[1]["approx_kl"]
        for v in range(5)
    ]
    assert all(value >= 0 for value in each)
    assert sum(p * value for p, value in zip(old.exp(), each, strict=True)).item() == pytest.approx(
        exact_kl(old, logp).item(), rel=1e-5
    )


def gradient_of(function):
    logits = LOGITS.clone().requires_grad_()
    function(torch.log_softmax(logits, -1)).backward()
    return logits.grad


def sampled_gradient(estimator, kl_weighted):
    """The expected gradient of the KL term: each token of the vocabulary is a sequence, weighted by its probability."""

    def loss(logp):
        old = logp.detach()
        shares = [
            policy_loss(
                logp[v].reshape(1, 1),
                old[v].reshape(1, 1),
                torch.zeros(1),
                torch.ones(1, 1),
                ref_logp_BT=REF_LOGP[v].reshape(1, 1),
                kl_coef=1.0,
                kl_estimator=estimator,
                kl_weighted=kl_weighted,
            )[0]
            for v in range(5)
        ]
        return sum(p * share for p, share in zip(old.exp(), shares, strict=True))

    return gradient_of(loss)


@pytest.mark.parametrize(
    ("estimator", "kl_weighted", "expected"),
    [
        ("k1", True, "reverse"),
        ("k3", True, "reverse"),
        ("k2", False, "reverse"),
        ("k3", False, "forward"),
        ("k1", False, "zero"),
    ],
)
def test_expected_gradient_of_the_kl_term(estimator, kl_weighted, expected):
    targets = {
        "reverse": gradient_of(lambda logp: exact_kl(logp, REF_LOGP)),
        "forward": gradient_of(lambda logp: exact_kl(REF_LOGP, logp)),
        "zero": torch.zeros(5),
    }
    assert not torch.allclose(targets["reverse"], targets["forward"], atol=1e-2)
    torch.testing.assert_close(sampled_gradient(estimator, kl_weighted), targets[expected], rtol=1e-5, atol=1e-6)


# --- refusals ---


def test_kl_needs_a_reference():
    with pytest.raises(ValueError, match="pass ref_logp_BT"):
        policy_loss(torch.zeros(1, 1), torch.zeros(1, 1), torch.zeros(1), torch.ones(1, 1), kl_coef=0.1)


def test_dr_grpo_needs_its_length():
    with pytest.raises(ValueError, match="pass max_tokens"):
        policy_loss(torch.zeros(1, 1), torch.zeros(1, 1), torch.zeros(1), torch.ones(1, 1), loss_type="dr_grpo")


@pytest.mark.parametrize("shapes", [((2, 3), (3,), (2, 3)), ((2, 2), (2,), (2, 3)), ((2, 3), (2,), (2, 1))])
def test_shapes_are_checked(shapes):
    old, advantages, mask = shapes
    with pytest.raises(ValueError, match="shapes do not fit"):
        policy_loss(torch.zeros(2, 3), torch.zeros(old), torch.zeros(advantages), torch.ones(mask))


@pytest.mark.parametrize(
    "bad",
    [
        {"loss_type": "ppo"},
        {"kl_estimator": "k4"},
        {"clip_low": 1.5},
        {"clip_high": -0.1},
        {"kl_coef": -1},
        {"dual_clip": 1.2},
        {"dual_clip": 3.0, "loss_type": "cispo"},
        {"sampler_correction": "both"},
        {"sampler_cap": 0.0},
        {"max_tokens": -5},
    ],
)
def test_config_is_checked(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        LossConfig(**bad)


def test_normalizer_counts():
    assert count_normalizer("grpo", [3, 0, 2]) == 2
    assert count_normalizer("dr_grpo", [3, 0, 2]) == 2
    assert count_normalizer("dapo", [3, 0, 2]) == 5
    assert count_normalizer("bnpo", [0]) == 1
    assert count_normalizer("cispo", [3, 0, 2]) == 5
    assert count_normalizer("gspo", [3, 0, 2]) == 2


# --- two processes with unequal token counts ---


def rank_gradients(rank, folder):
    """What one of two ranks does: rank 0 has one row, rank 1 has the other five."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    batch, index = random_batch(), [[0], [1, 2, 3, 4, 5]][rank]
    logp, old, advantages, mask = (batch[name][index] for name in ("logp", "old", "advantages", "mask"))
    gradients = {}
    for loss_type in LOSS_TYPES:
        scale = torch.ones(1, requires_grad=True)
        normalizer = torch.tensor(count_normalizer(loss_type, [batch["lengths"][i] for i in index]))
        dist.all_reduce(normalizer)
        loss, _ = policy_loss(
            scale * logp, old, advantages, mask, loss_type=loss_type, max_tokens=5, normalizer=normalizer.item()
        )
        loss.backward()
        dist.all_reduce(scale.grad)
        gradients[loss_type] = scale.grad
    torch.save(gradients, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_two_processes_equal_one(tmp_path):
    torch.multiprocessing.spawn(rank_gradients, args=(str(tmp_path),), nprocs=2)
    batch = random_batch()
    for loss_type in LOSS_TYPES:
        scale = torch.ones(1, requires_grad=True)
        arguments = (scale * batch["logp"], batch["old"], batch["advantages"], batch["mask"])
        policy_loss(*arguments, loss_type=loss_type, max_tokens=5)[0].backward()
        for rank in range(2):
            torch.testing.assert_close(torch.load(tmp_path / f"{rank}.pt")[loss_type], scale.grad)
