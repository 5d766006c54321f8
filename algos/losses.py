"""The policy-gradient loss: pure functions from log-probabilities to a number. Nothing here knows of a contest.

Dimension suffixes: `B` sequences, `T` positions of the completion (padded on the right).

The update is made of *shares*. Every call divides by a normaliser of the whole batch, which the caller
counted, not by the size of the piece at hand; so the shares of micro-batches, and of ranks, add up to the
loss and the gradient of one big batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from algos.types import Stats

LossType: TypeAlias = Literal["grpo", "dr_grpo", "dapo", "bnpo", "cispo", "gspo"]
KLEstimator: TypeAlias = Literal["k1", "k2", "k3"]
Correction: TypeAlias = Literal["none", "token", "sequence"]

TOKEN_MEANS = ("dapo", "bnpo", "cispo")
"""Losses that are means over tokens; the others are means over sequences."""

# exp(20) is far outside any trust region, and small enough that no gradient becomes 0 · inf.
MAX_LOG_RATIO = 20.0


@dataclass(frozen=True)
class LossConfig:
    """What is minimised."""

    loss_type: LossType = "grpo"
    """How tokens are averaged: "grpo" within each sequence first, "dr_grpo" over a constant length, "dapo" over all
    tokens of the batch; so does "bnpo", which elsewhere means the tokens of one process: here ranks share their count. Two
    differ in the ratio: "gspo" clips the ratio of whole sequences, "cispo" caps it as a weight, so that no token loses its
    gradient."""
    clip_low: float = 0.2
    """The ratio to the sampling policy is clipped at 1 − clip_low from below; "cispo" has no lower bound. Of "gspo" the
    usual width is 3e-4: the ratio of a sequence hardly moves."""
    clip_high: float = 0.2
    """The ratio is clipped at 1 + clip_high from above; 0.28 is DAPO's clip-higher, 4 is usual with "cispo", 4e-4 with
    "gspo"."""
    dual_clip: float | None = None
    """Where the advantage is negative the ratio counts at most this much, for example 3; None: without a bound."""
    mask_truncated: bool = False
    """Leave completions that were cut off out of the update. They stay in the baseline of their group."""
    sampler_correction: Correction = "none"
    """Weigh each "token", or each "sequence", by π_old/π_sampler, capped: for a sampler whose log-probabilities are not
    quite the learner's. Costs one forward pass. See `algos.importance`."""
    sampler_cap: float = 2.0
    """The greatest such weight."""
    kl_coef: float = 0.0
    """Weight of the KL divergence from the frozen base; 0 saves the pass through the base."""
    kl_estimator: KLEstimator = "k3"
    """How the divergence is estimated from the sampled tokens; see `kl_estimate`."""
    kl_weighted: bool = True
    """Weight the estimate by the importance ratio, so that its gradient is that of the divergence; see `policy_loss`."""
    max_tokens: int | None = None
    """The constant length that "dr_grpo" divides by. None: the most tokens that one completion may have."""

    def __post_init__(self) -> None:
        for name, known in (("loss_type", LossType), ("kl_estimator", KLEstimator), ("sampler_correction", Correction)):
            if getattr(self, name) not in get_args(known):
                raise ValueError(f"{name} must be one of {', '.join(get_args(known))}, not {getattr(self, name)!r}")
        if not (0 <= self.clip_low <= 1 and self.clip_high >= 0):
            raise ValueError(f"clip_low must be in [0, 1] and clip_high ≥ 0, not {self.clip_low} and {self.clip_high}")
        if not self.kl_coef >= 0:
            raise ValueError(f"kl_coef must be a number ≥ 0, not {self.kl_coef}")
        if self.dual_clip is not None and self.loss_type == "cispo":
            raise ValueError('dual_clip does nothing to "cispo", which caps every ratio at 1 + clip_high: leave it out')
        if self.dual_clip is not None and not self.dual_clip > 1 + self.clip_high:
            raise ValueError(f"dual_clip must be above 1 + clip_high = {1 + self.clip_high}, not {self.dual_clip}")
        if not self.sampler_cap > 0:
            raise ValueError(f"sampler_cap must be above 0, not {self.sampler_cap}")
        if self.max_tokens is not None and self.max_tokens < 1:  # a negative length would turn the gradient round
            raise ValueError(f"max_tokens must be at least 1, or None for the most that is sampled, not {self.max_tokens}")


def count_normalizer(loss_type: LossType, lengths: Sequence[int]) -> float:
    """Return what the loss of a whole batch is divided by.

    Args:
        loss_type: "grpo", "dr_grpo" and "gspo" count sequences, "dapo", "bnpo" and "cispo" count tokens.
        lengths: completion tokens of *every* sequence of the batch, also of those with advantage 0. A
            sequence without tokens does not count.

    Returns:
        The number of sequences or tokens, at least 1.
    """
    if loss_type in TOKEN_MEANS:
        return float(max(1, sum(lengths)))
    return float(max(1, sum(length > 0 for length in lengths)))


def kl_estimate(logp_BT: Tensor, ref_logp_BT: Tensor, estimator: KLEstimator) -> Tensor:
    """Estimate KL(π ‖ π_ref) per token, from tokens that π sampled.

    With d = log π − log π_ref, so that the trained policy is in the denominator of π_ref/π = exp(−d)
    (Schulman, "Approximating KL divergence", 2020):

    - k1 = d: unbiased, of either sign.
    - k2 = d²/2: ≥ 0, biased; the gradient of its sampled value is that of the KL in expectation.
    - k3 = exp(−d) − 1 + d: ≥ 0, unbiased.

    Args:
        logp_BT: log-probabilities under the trained policy π.
        ref_logp_BT: log-probabilities under the reference, without gradient.
        estimator: "k1", "k2" or "k3".

    Returns:
        The estimates in nats, with the shape of the arguments.
    """
    d_BT = logp_BT - ref_logp_BT
    if estimator == "k1":
        return d_BT
    if estimator == "k2":
        return d_BT.square() / 2
    d_BT = d_BT.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return torch.expm1(-d_BT) + d_BT


def policy_loss(
    logp_BT: Tensor,
    old_logp_BT: Tensor,
    advantages: Tensor,
    mask_BT: Tensor,
    *,
    loss_type: LossType = "grpo",
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
    weight_BT: Tensor | None = None,
    ref_logp_BT: Tensor | None = None,
    kl_coef: float = 0.0,
    kl_estimator: KLEstimator = "k3",
    kl_weighted: bool = True,
    max_tokens: int | None = None,
    normalizer: float | None = None,
    entropy_BT: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return this piece's share of the clipped policy-gradient loss, and statistics of it.

    Per token, with ratio ρ = π/π_old (PPO, arXiv 1707.06347):

        l = −min(ρ·A, clip(ρ, 1 − clip_low, 1 + clip_high)·A) + kl_coef·w·KL(π ‖ π_ref)

    where for A < 0 the minimum is not let below dual_clip·A (Ye et al., arXiv 1912.09729). Two losses differ:

    - "gspo"   ρ is that of the sequence, exp(Σ_t m·log ρ_t / Σ_t m)   (GSPO, arXiv 2507.18071)
    - "cispo"  −sg(min(ρ, 1 + clip_high))·A·log π instead of the minimum, sg stopping the gradient: every token
      keeps its gradient, its weight is bounded   (MiniMax-M1, arXiv 2506.13585)

    and over tokens, with m the mask and N the normaliser:

    - "grpo", "gspo"    Σ_b (Σ_t m·l / Σ_t m) / N,  N = sequences   (GRPO, arXiv 2402.03300)
    - "dr_grpo"         Σ_b Σ_t m·l / (N·max_tokens),  N = sequences   (Dr. GRPO, arXiv 2503.20783)
    - "dapo", "cispo"   Σ_b Σ_t m·l / N,  N = tokens of the whole batch, over all ranks   (DAPO, arXiv 2503.14476)
    - "bnpo"            the same (elsewhere N are the tokens of one process's part; here ranks share their count)

    On the first update after sampling ρ = 1 everywhere: the *value* is then −mean(A), about 0 ("cispo" excepted),
    while the gradient is that of REINFORCE. A loss of 0 does not mean that nothing is learned.

    The weight w of the KL term is the token's own ratio with `kl_weighted`, else 1 as in the GRPO paper. It matters for
    the gradient, for the sampled tokens come from the policy that is being changed. At ρ = 1, in expectation:

    - weighted: k1 and k3 give the gradient of KL(π ‖ π_ref); k2 that of E[d²/2].
    - not weighted: k1 gives 0, so it regularises nothing; k2 gives the gradient of KL(π ‖ π_ref); k3 that of
      the KL in the other direction, KL(π_ref ‖ π).

    Args:
        logp_BT: log-probabilities of the sampled tokens under the policy in training, shape (B, T).
        old_logp_BT: the same under the policy that sampled them; no gradient.
        advantages: one advantage per sequence, shape (B,), or one per token, shape (B, T).
        mask_BT: True at the tokens of the completion. What stands elsewhere does not matter, be it inf or NaN.
        loss_type: how tokens are averaged.
        clip_low: lower half-width of the trust region.
        clip_high: upper half-width of the trust region; "cispo" caps its weights at 1 + clip_high.
        dual_clip: the greatest ratio that counts where the advantage is negative, above 1 + clip_high.
        weight_BT: a constant factor of each token's loss, the KL term excepted; see `algos.importance`.
        ref_logp_BT: log-probabilities under the reference; no gradient. Needed for a KL term.
        kl_coef: weight of the KL term.
        kl_estimator: see `kl_estimate`.
        kl_weighted: see above.
        max_tokens: the constant length of "dr_grpo".
        normalizer: N of the whole batch, from `count_normalizer`. Default: this piece is the whole batch.
        entropy_BT: entropy of the policy at each token, to be reported.

    Returns:
        The share of the loss (a scalar with gradient), and detached scalars. `loss` and `tokens` add up over
        pieces; all others are means over this piece's tokens, `ratio_max` excepted: `approx_kl`
        (k3 estimate of KL(π_old ‖ π)), `clipfrac_low` and `clipfrac_high` (tokens whose gradient is clipped
        away; of "cispo", whose weight is capped), `ratio_mean`, and where there is something to tell
        `clipfrac_dual`, `kl_ref` and `entropy`.

    Raises:
        ValueError: shapes differ, a KL term has no reference, or "dr_grpo" has no `max_tokens`.
    """
    _check_shapes(logp_BT, advantages, old_logp_BT=old_logp_BT, mask_BT=mask_BT, weight_BT=weight_BT, ref_logp_BT=ref_logp_BT)
    if kl_coef and ref_logp_BT is None:
        raise ValueError(f"kl_coef is {kl_coef}, but there are no log-probabilities of the reference: pass ref_logp_BT")
    if loss_type == "dr_grpo" and max_tokens is None:
        raise ValueError('"dr_grpo" divides by a constant length: pass max_tokens, the most tokens of one completion')
    mask_BT = mask_BT.bool()
    # `where`, not a product: 0 · inf is NaN.
    log_ratio_BT = torch.where(mask_BT, logp_BT.float() - old_logp_BT.float(), 0.0).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    own_ratio_BT = log_ratio_BT.exp()
    ratio_BT = _sequence_ratio(log_ratio_BT, mask_BT) if loss_type == "gspo" else own_ratio_BT
    advantages_BT = advantages.float() if advantages.dim() == 2 else advantages.float().unsqueeze(1)
    if loss_type == "cispo":
        weighted_BT = ratio_BT.clamp(max=1 + clip_high).detach() * advantages_BT
        loss_BT = -weighted_BT * torch.where(mask_BT, logp_BT.float(), 0.0)
    else:
        gain_BT = torch.minimum(ratio_BT * advantages_BT, ratio_BT.clamp(1 - clip_low, 1 + clip_high) * advantages_BT)
        if dual_clip is not None:
            gain_BT = torch.where(advantages_BT < 0, torch.maximum(gain_BT, dual_clip * advantages_BT), gain_BT)
        loss_BT = -gain_BT
    if weight_BT is not None:
        loss_BT = loss_BT * torch.where(mask_BT, weight_BT.float(), 0.0)
    kl_BT = None
    if ref_logp_BT is not None:
        reference_BT = torch.where(mask_BT, ref_logp_BT.float(), 0.0)
        kl_BT = kl_estimate(torch.where(mask_BT, logp_BT.float(), 0.0), reference_BT, kl_estimator)
        if kl_coef:
            loss_BT = loss_BT + kl_coef * (kl_BT * own_ratio_BT if kl_weighted else kl_BT)
    loss = _aggregate(torch.where(mask_BT, loss_BT, 0.0), mask_BT, loss_type, max_tokens, normalizer)
    with torch.no_grad():
        tokens = mask_BT.sum()
        per_token = {
            "approx_kl": own_ratio_BT - 1 - log_ratio_BT,
            "clipfrac_low": (ratio_BT < 1 - clip_low) & (advantages_BT < 0) & (loss_type != "cispo"),
            "clipfrac_high": (ratio_BT > 1 + clip_high) & ((advantages_BT > 0) | (loss_type == "cispo")),
            "ratio_mean": ratio_BT,
        }
        if dual_clip is not None:
            per_token["clipfrac_dual"] = (ratio_BT > dual_clip) & (advantages_BT < 0)
        if kl_BT is not None:
            per_token["kl_ref"] = kl_BT
        if entropy_BT is not None:
            per_token["entropy"] = entropy_BT
        stats = {name: torch.where(mask_BT, x_BT, 0).sum() / tokens.clamp(min=1) for name, x_BT in per_token.items()}
        stats["ratio_max"] = torch.where(mask_BT, ratio_BT, 0.0).amax() if mask_BT.numel() else loss.new_zeros(())
        stats["loss"], stats["tokens"] = loss.detach(), tokens
    return loss, stats


def _sequence_ratio(log_ratio_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Return the geometric mean of the ratios of each sequence, at each of its positions."""
    mean_B1 = log_ratio_BT.sum(1, keepdim=True) / mask_BT.sum(1, keepdim=True).clamp(min=1)
    return mean_B1.exp().expand_as(log_ratio_BT)


def _aggregate(
    loss_BT: Tensor, mask_BT: Tensor, loss_type: LossType, max_tokens: int | None, normalizer: float | None
) -> Tensor:
    lengths_B = mask_BT.sum(1)
    if normalizer is None:
        normalizer = count_normalizer(loss_type, lengths_B.tolist())
    if loss_type in ("grpo", "gspo"):
        return (loss_BT.sum(1) / lengths_B.clamp(min=1)).sum() / normalizer
    if loss_type == "dr_grpo" and max_tokens is not None:
        return loss_BT.sum() / (normalizer * max_tokens)
    return loss_BT.sum() / normalizer


def _check_shapes(logp_BT: Tensor, advantages: Tensor, **others: Tensor | None) -> None:
    shape = logp_BT.shape
    wrong = [f"{name} {tuple(x.shape)}" for name, x in others.items() if x is not None and x.shape != shape]
    if advantages.shape not in (shape[:1], shape):
        wrong.append(f"advantages {tuple(advantages.shape)}")
    if wrong or len(shape) != 2:
        raise ValueError(f"the shapes do not fit logp_BT {tuple(shape)}, which must be (B, T): {', '.join(wrong)}")


def merge_stats(pieces: Sequence[Stats]) -> Stats:
    """Merge the statistics of the pieces of one batch into those of the whole.

    Args:
        pieces: for each piece `policy_loss`'s statistics, as floats.

    Returns:
        `loss` and `tokens` summed, names ending in `_max` as maxima, all others as means weighted by tokens.
    """
    merged: Stats = {name: float(sum(piece[name] for piece in pieces)) for name in ("loss", "tokens")}
    for name in sorted({name for piece in pieces for name in piece} - merged.keys()):
        having = [piece for piece in pieces if name in piece]
        if name.endswith("_max"):
            merged[name] = max(piece[name] for piece in having)
        else:
            merged[name] = sum(piece[name] * piece["tokens"] for piece in having) / max(1.0, sum(p["tokens"] for p in having))
    return merged
