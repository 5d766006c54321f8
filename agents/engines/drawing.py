"""Drawing tokens: every row inverts its own distribution with its own uniform number."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from agents.kernels.drawing import draw_tokens
from agents.kernels.library import usable

LOG2_E = math.log2(math.e)


def draw(logits_RV: Tensor, uniform_R: Tensor, *, temperature: float) -> tuple[Tensor, Tensor]:
    """Return one token for each row and its log-probability.

    Args:
        logits_RV: of any float type; the softmax is taken in float32, the running sum in float64.
        uniform_R: float64 numbers in [0, 1) that pick the token by the inverse of the distribution.
        temperature: the logits are divided by it; 0 takes the most likely token, with its log-probability at 1.
    """
    if usable(logits_RV):
        return draw_tokens(logits_RV, uniform_R, temperature=temperature)
    score_RV = logits_RV.float()
    if temperature not in (0, 1):
        score_RV = score_RV / temperature
    top_R1 = score_RV.amax(-1, keepdim=True)
    weight_RNB = _weights(score_RV, top_R1)
    cumulative_RN = weight_RNB.sum(-1).cumsum(-1, dtype=torch.float64)
    total_R1 = cumulative_RN[:, -1:]
    if temperature == 0:
        token_R1 = score_RV.argmax(-1, keepdim=True)
    else:
        token_R1 = _invert(weight_RNB, cumulative_RN, uniform_R[:, None] * total_R1)
    logp_R1 = score_RV.gather(-1, token_R1) - top_R1 - total_R1.log().float()
    return token_R1[:, 0], logp_R1[:, 0]


def stream(seed: int, length: int) -> np.ndarray:
    """Return the uniform numbers of a row: `length` float64 numbers in [0, 1), the first ones the same for every length."""
    return np.random.Generator(np.random.Philox(key=seed)).random(length)


def _weights(score_RV: Tensor, top_R1: Tensor) -> Tensor:
    """Return exp(score - top) in blocks of about √V tokens: a running sum over all of them costs more than a small model."""
    rows, vocabulary = score_RV.shape
    block = 2 ** round(math.log2(vocabulary) / 2)
    weight_RV = score_RV.new_zeros(rows, -(-vocabulary // block) * block)
    # On processors that Intel's library does not know, exp takes four times as long as exp2.
    torch.sub(score_RV, top_R1, out=weight_RV[:, :vocabulary]).mul_(LOG2_E).exp2_()
    return weight_RV.view(rows, -1, block)


def _invert(weight_RNB: Tensor, cumulative_RN: Tensor, target_R1: Tensor) -> Tensor:
    """Return the token at which the running sum first exceeds the target: its block, then its place in it."""
    block_R1 = _first_above(cumulative_RN, target_R1)
    before_R1 = torch.where(block_R1 > 0, cumulative_RN.gather(-1, (block_R1 - 1).clamp_(min=0)), 0.0)
    row_R = torch.arange(len(block_R1), device=block_R1.device)
    cumulative_RB = weight_RNB[row_R, block_R1[:, 0]].cumsum(-1, dtype=torch.float64)
    # The sum of a block is rounded otherwise than its running sum: the target must not slip over the block's end.
    below_R1 = cumulative_RB[:, -1:] * (1 - 2**-52)
    return block_R1 * weight_RNB.shape[-1] + _first_above(cumulative_RB, torch.minimum(target_R1 - before_R1, below_R1))


def _first_above(cumulative_RN: Tensor, target_R1: Tensor) -> Tensor:
    """Return the first place whose running sum exceeds the target: one with weight of its own."""
    return torch.searchsorted(cumulative_RN, target_R1, right=True).clamp_(max=cumulative_RN.shape[-1] - 1)
