"""Drawing tokens: every row inverts its own distribution with its own uniform number."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

BLOCK = 256
"""Vocabularies are searched block by block: a running sum over all of a large one in float64 costs more than a small model."""


def draw(logits_RV: Tensor, uniform_R: Tensor, *, temperature: float) -> tuple[Tensor, Tensor]:
    """Return one token for each row and its log-probability.

    Args:
        logits_RV: of any float type; the softmax is taken in float32, sums over blocks of tokens in float64.
        uniform_R: float64 numbers in [0, 1) that pick the token by the inverse of the distribution.
        temperature: the logits are divided by it; 0 takes the most likely token, with its log-probability at 1.
    """
    score_RV = logits_RV.float()
    if temperature not in (0, 1):
        score_RV = score_RV / temperature
    top_R1, likeliest_R1 = score_RV.max(-1, keepdim=True)
    weight_RV = (score_RV - top_R1).exp_()
    if weight_RV.shape[-1] <= 2 * BLOCK:
        cumulative_RV = weight_RV.cumsum(-1, dtype=torch.float64)
        total_R1 = cumulative_RV[:, -1:]
        token_R1 = likeliest_R1 if temperature == 0 else _first_above(cumulative_RV, uniform_R[:, None] * total_R1)
    else:
        weight_RNB = _blocks(weight_RV)
        cumulative_RN = weight_RNB.sum(-1).cumsum(-1, dtype=torch.float64)
        total_R1 = cumulative_RN[:, -1:]
        token_R1 = likeliest_R1 if temperature == 0 else _invert(weight_RNB, cumulative_RN, uniform_R[:, None] * total_R1)
    logp_R1 = score_RV.gather(-1, token_R1) - top_R1 - total_R1.log().float()
    return token_R1[:, 0], logp_R1[:, 0]


def stream(seed: int, length: int) -> np.ndarray:
    """Return the uniform numbers of a row: `length` float64 numbers in [0, 1), the first ones the same for every length."""
    return np.random.Generator(np.random.Philox(key=seed)).random(length)


def _blocks(weight_RV: Tensor) -> Tensor:
    rows, vocabulary = weight_RV.shape
    if missing := -vocabulary % BLOCK:
        weight_RV = torch.nn.functional.pad(weight_RV, (0, missing))
    return weight_RV.view(rows, -1, BLOCK)


def _invert(weight_RNB: Tensor, cumulative_RN: Tensor, target_R1: Tensor) -> Tensor:
    """Return the token at which the running sum first exceeds the target: its block, then its place in it."""
    block_R1 = _first_above(cumulative_RN, target_R1)
    before_R1 = torch.where(block_R1 > 0, cumulative_RN.gather(-1, (block_R1 - 1).clamp_(min=0)), 0.0)
    row_R = torch.arange(len(block_R1), device=block_R1.device)
    cumulative_RB = weight_RNB[row_R, block_R1[:, 0]].cumsum(-1, dtype=torch.float64)
    # The sum of a block is rounded otherwise than its running sum: the target must not slip over the block's end.
    below_R1 = cumulative_RB[:, -1:] * (1 - 2**-52)
    return block_R1 * BLOCK + _first_above(cumulative_RB, torch.minimum(target_R1 - before_R1, below_R1))


def _first_above(cumulative_RN: Tensor, target_R1: Tensor) -> Tensor:
    """Return the first place whose running sum exceeds the target: one with weight of its own."""
    return torch.searchsorted(cumulative_RN, target_R1, right=True).clamp_(max=cumulative_RN.shape[-1] - 1)
