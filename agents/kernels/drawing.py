"""Draws of tokens by a compiled kernel; `agents.engines.drawing` says what they are."""

from __future__ import annotations

import torch
from torch import Tensor

from agents.kernels.library import LIBRARY, call


def draw_tokens(logits_RV: Tensor, uniform_R: Tensor, *, temperature: float) -> tuple[Tensor, Tensor]:
    """Return one token for each row and its log-probability, from float32 logits on a CPU and float64 numbers."""
    if logits_RV.stride(1) != 1:
        logits_RV = logits_RV.contiguous()
    uniform_R = uniform_R.contiguous()  # by name: its memory must last until the draw
    rows, vocabulary = logits_RV.shape
    token_R, logp_R = logits_RV.new_empty(rows, dtype=torch.long), logits_RV.new_empty(rows)
    pointers = logits_RV.data_ptr(), logits_RV.stride(0), uniform_R.data_ptr(), temperature
    call(LIBRARY.agon_draw, *pointers, token_R.data_ptr(), logp_R.data_ptr(), rows, vocabulary)
    return token_R, logp_R
