"""Attention of packed rows by a compiled kernel: a root sees itself, a branch sees its root and itself.

No token is copied to a padded batch, no key of a root to its branches, and no score is kept: the backward pass computes
them again from the logarithm of their sum.

Dimension suffixes: S tokens of all rows, Y heads of queries, keys and values, H heads of queries, W width of a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from agents.kernels.library import LANES, LIBRARY, Tree, call, usable


@dataclass(frozen=True)
class Runs:
    """Where roots and branches stand in the sequence of all tokens."""

    root_U2: NDArray[np.int64]
    """First token and length of each root."""
    branch_R2: NDArray[np.int64]
    """The same of the branches, root by root."""
    first_V: NDArray[np.int64]
    """Where each root's branches begin, and the last one's end: one number more than there are roots."""

    @classmethod
    def of(cls, roots: Sequence[int], owners: Sequence[int], branches: Sequence[int]) -> Runs:
        """Return runs that stand one after another, the roots first.

        Args:
            roots: the length of each root.
            owners: the root of each branch.
            branches: the length of each branch.
        """
        length_X = np.array([*roots, *branches], dtype=np.int64)
        run_X2 = np.stack([length_X.cumsum() - length_X, length_X], 1)
        owner_R = np.array(owners, dtype=np.int64)
        branch_R2 = run_X2[len(roots) :][owner_R.argsort(kind="stable")]
        counts = np.bincount(owner_R, minlength=len(roots))
        return cls(run_X2[: len(roots)].copy(), branch_R2.copy(), np.concatenate([[0], counts.cumsum()]).astype(np.int64))


def can_attend(qkv_SYW: Tensor) -> bool:
    """Return whether `attend_runs` takes such heads."""
    return usable(qkv_SYW) and qkv_SYW.shape[-1] % LANES == 0


def attend_runs(qkv_SYW: Tensor, runs: Runs, *, kv_heads: int, scale: float) -> Tensor:
    """Return what each token attends to, shape (S, H, W), with a gradient; zeros at tokens of no run.

    Args:
        qkv_SYW: queries, keys and values, side by side; `can_attend` holds.
        runs: who sees whom.
        kv_heads: heads of the keys, and of the values.
        scale: of the scores.
    """
    mixed_SHW: Tensor = _Attend.apply(qkv_SYW, runs, kv_heads, scale)
    return mixed_SHW


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv_SYW: Tensor, runs: Runs, kv_heads: int, scale: float) -> Tensor:
        qkv_SYW = qkv_SYW.contiguous()
        tokens, heads = len(qkv_SYW), qkv_SYW.shape[1] - 2 * kv_heads
        mixed_SHW = qkv_SYW.new_zeros(tokens, heads, qkv_SYW.shape[2])
        top_SH = qkv_SYW.new_empty(tokens, heads)
        call(LIBRARY.agon_attend, byref(_tree(qkv_SYW, mixed_SHW, top_SH, runs, kv_heads, scale)), None, None)
        ctx.save_for_backward(qkv_SYW, mixed_SHW, top_SH)
        ctx.options = runs, kv_heads, scale
        return mixed_SHW

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_SHW: Tensor) -> tuple[Tensor | None, ...]:
        qkv_SYW, mixed_SHW, top_SH = ctx.saved_tensors
        grad_SHW, grad_qkv_SYW = grad_SHW.contiguous(), torch.zeros_like(qkv_SYW)
        tree = _tree(qkv_SYW, mixed_SHW, top_SH, *ctx.options)
        call(LIBRARY.agon_attend, byref(tree), grad_SHW.data_ptr(), grad_qkv_SYW.data_ptr())
        return grad_qkv_SYW, None, None, None


def _tree(qkv_SYW: Tensor, mixed_SHW: Tensor, top_SH: Tensor, runs: Runs, kv_heads: int, scale: float) -> Tree:
    return Tree(
        qkv_SYW.data_ptr(),
        runs.root_U2.ctypes.data,
        runs.branch_R2.ctypes.data,
        runs.first_V.ctypes.data,
        mixed_SHW.data_ptr(),
        top_SH.data_ptr(),
        scale,
        len(runs.root_U2),
        mixed_SHW.shape[1],
        kv_heads,
        mixed_SHW.shape[2],
        runs.root_U2[:, 1].max(),
        runs.branch_R2[:, 1].max(initial=0),
    )
