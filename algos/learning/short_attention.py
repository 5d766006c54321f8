"""Attention of packed rows by plain products, for short rows on a CPU.

There torch's own kernel spends as long on its blocks as on their numbers. Plain products have to keep the weights of
attention for the backward pass, so that long rows are left to the kernel; and they need no copy of a prompt's keys and
values for each of its rows: the queries of all its rows meet them in one product.

Dimension suffixes: `S` tokens of all rows, `Y` heads of queries, keys and values, `H` heads of queries, `W` width of a
head, `B` runs of all heads (or of each, after `H`), `L` positions of a run, or `P` of a root, `U` roots, `M` positions of
all branches of a root.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from agents.engines.drawing import LOG2_E

if TYPE_CHECKING:
    from algos.learning.packing import Layout, Spans

SHORT = 256
"""Most positions that a token looks at: the weights of attention are a small part then of what a layer keeps."""


def is_short(layout: Layout, x: Tensor) -> bool:
    """Return whether `short_attention` is the way for rows with this layout and activations like `x`."""
    longest = layout.roots.tokens_BL.shape[1] + (0 if layout.branches is None else layout.branches.tokens_BL.shape[1])
    return layout.even and longest <= SHORT and x.dtype == torch.float32 and x.device.type == "cpu"


def short_attention(qkv_SYW: Tensor, layout: Layout, *, kv_heads: int, scale: float) -> Tensor:
    """Return what each token attends to, shape (S, H, W); zeros at the tokens that fill up.

    Args:
        qkv_SYW: queries, keys and values, side by side.
        layout: of rows for which `is_short` holds.
        kv_heads: heads of the keys, and of the values.
        scale: of the scores.
    """
    mixed_SHW: Tensor = _ShortAttention.apply(qkv_SYW, layout, kv_heads, scale)
    return mixed_SHW


@dataclass(frozen=True)
class _Heads:
    """Queries, keys and values of padded runs, heads first; keys and values once for each head of queries."""

    q_HBLW: Tensor
    """Scaled, for scores to the base 2."""
    k_HBLW: Tensor
    v_HBLW: Tensor

    @classmethod
    def of(cls, qkv_SYW: Tensor, runs: Spans, *, kv_heads: int, scale: float) -> _Heads:
        heads = qkv_SYW.shape[1] - 2 * kv_heads
        q_HBLW, k, v = _spread(qkv_SYW, runs).split([heads, kv_heads, kv_heads])
        if heads != kv_heads:
            k, v = (x.repeat_interleave(heads // kv_heads, 0) for x in (k, v))
        return cls(q_HBLW.mul_(scale * LOG2_E), k, v)


class _ShortAttention(torch.autograd.Function):
    """Softmax attention whose weights are divided by their sum only where they meet the values: weights are many, sums few.

    With e the undivided weights, t their sum, o the result and g the gradient to it: that to a score is e · (g·v − g·o) / t.
    """

    @staticmethod
    def forward(ctx: Any, qkv_SYW: Tensor, layout: Layout, kv_heads: int, scale: float) -> Tensor:
        roots = _Heads.of(qkv_SYW, layout.roots, kv_heads=kv_heads, scale=scale)
        mixed_SHW = qkv_SYW.new_zeros(len(qkv_SYW), *roots.q_HBLW.shape[::3])
        weight_BPP = _causal(roots)
        sum_BP1 = _weigh(weight_BPP)
        _gather(torch.bmm(weight_BPP, _flat(roots.v_HBLW)).div_(sum_BP1), layout.roots, mixed_SHW)
        saved = [roots.q_HBLW, roots.k_HBLW, roots.v_HBLW, weight_BPP, sum_BP1]
        if layout.branches is not None:
            own = _Heads.of(qkv_SYW, layout.branches, kv_heads=kv_heads, scale=scale)
            to_root_BLP, to_own_BLL = _to_roots(own, roots, layout.unseen_U1P), _causal(own)
            sum_BL1 = _weigh(to_root_BLP, to_own_BLL)
            mixed_BML = torch.bmm(_by_root(to_root_BLP, roots), _flat(roots.v_HBLW))
            mixed_BLW = mixed_BML.view(_flat(own.q_HBLW).shape).baddbmm_(to_own_BLL, _flat(own.v_HBLW))
            _gather(mixed_BLW.div_(sum_BL1), layout.branches, mixed_SHW)
            saved += [own.q_HBLW, own.k_HBLW, own.v_HBLW, to_root_BLP, to_own_BLL, sum_BL1]
        ctx.save_for_backward(mixed_SHW, *saved)
        ctx.layout, ctx.kv_heads, ctx.scale = layout, kv_heads, scale
        return mixed_SHW

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_SHW: Tensor) -> tuple[Tensor | None, ...]:
        mixed_SHW, q, k, v, weight_BPP, sum_BP1, *of_branches = ctx.saved_tensors
        layout: Layout = ctx.layout
        roots = _Heads(q, k, v)
        along_SH1 = torch.linalg.vecdot(grad_SHW, mixed_SHW).unsqueeze(-1)
        grad_qkv_SYW = grad_SHW.new_zeros(len(grad_SHW), grad_SHW.shape[1] + 2 * ctx.kv_heads, grad_SHW.shape[2])

        def divided(runs: Spans, sum_BL1: Tensor) -> tuple[Tensor, Tensor]:
            grad_BLW, along_BL1 = (_flat(_spread(x_SHW, runs, fill=0.0)).div_(sum_BL1) for x_SHW in (grad_SHW, along_SH1))
            return grad_BLW, along_BL1

        def place(runs: Spans, to_q_BLW: Tensor, to_k_BLW: Tensor, to_v_BLW: Tensor) -> None:
            first, heads = 0, grad_SHW.shape[1]
            for grad_BLW, count in ((to_q_BLW, heads), (to_k_BLW, ctx.kv_heads), (to_v_BLW, ctx.kv_heads)):
                grad = grad_BLW.unflatten(0, (heads, -1))
                if count != heads:  # several heads of queries share one of keys
                    grad = grad.unflatten(0, (count, -1)).sum(1)
                _gather(grad, runs, grad_qkv_SYW[:, first : (first := first + count)])

        grad_BPW, along_BP1 = divided(layout.roots, sum_BP1)
        slope_BPP = torch.bmm(grad_BPW, _flat(v).mT).sub_(along_BP1).mul_(weight_BPP)
        to_k, to_v = torch.bmm(slope_BPP.mT, _flat(q)), torch.bmm(weight_BPP.mT, grad_BPW)
        if layout.branches is not None:
            own_q, own_k, own_v, to_root_BLP, to_own_BLL, sum_BL1 = of_branches
            grad_BLW, along_BL1 = divided(layout.branches, sum_BL1)
            grad_BML = _by_root(grad_BLW, roots)
            slope_BLP = torch.bmm(grad_BML, _flat(v).mT).view_as(to_root_BLP).sub_(along_BL1).mul_(to_root_BLP)
            slope_BLL = torch.bmm(grad_BLW, _flat(own_v).mT).sub_(along_BL1).mul_(to_own_BLL)
            slope_BML = _by_root(slope_BLP, roots)
            to_k.baddbmm_(slope_BML.mT, _by_root(_flat(own_q), roots))
            to_v.baddbmm_(_by_root(to_root_BLP, roots).mT, grad_BML)
            to_own_q = torch.bmm(slope_BML, _flat(k)).view_as(grad_BLW).baddbmm_(slope_BLL, _flat(own_k)).mul_(ctx.scale)
            to_own_k, to_own_v = torch.bmm(slope_BLL.mT, _flat(own_q)), torch.bmm(to_own_BLL.mT, grad_BLW)
            place(layout.branches, to_own_q, to_own_k.div_(LOG2_E), to_own_v)
        place(layout.roots, torch.bmm(slope_BPP, _flat(k)).mul_(ctx.scale), to_k.div_(LOG2_E), to_v)
        return grad_qkv_SYW, None, None, None


def _flat(x_HBLW: Tensor) -> Tensor:
    return x_HBLW.flatten(0, 1)


def _causal(runs: _Heads) -> Tensor:
    """Return the scores of runs over themselves, −inf at what comes later."""
    length = runs.q_HBLW.shape[2]
    later_LL = runs.q_HBLW.new_full((length, length), -torch.inf).triu_(1)
    return torch.baddbmm(later_LL, _flat(runs.q_HBLW), _flat(runs.k_HBLW).mT)


def _to_roots(branches: _Heads, roots: _Heads, unseen_U1P: Tensor | None) -> Tensor:
    """Return the scores of branches over their roots, those of a root's branches by one product."""
    score = torch.bmm(_by_root(_flat(branches.q_HBLW), roots), _flat(roots.k_HBLW).mT)
    if unseen_U1P is not None:
        score.unflatten(0, roots.k_HBLW.shape[:2]).add_(unseen_U1P)
    return score.view(-1, branches.q_HBLW.shape[2], score.shape[-1])


def _by_root(x_BLX: Tensor, roots: _Heads) -> Tensor:
    """Return the branches of each root as one."""
    return x_BLX.view(len(_flat(roots.k_HBLW)), -1, x_BLX.shape[-1])


def _weigh(*scores: Tensor) -> Tensor:
    """Make scores to the base 2 into weights, in place, and return their sum; `exp` takes four times as long (see `draw`)."""
    top = reduce(torch.maximum, [score.amax(-1, keepdim=True) for score in scores])
    return reduce(torch.add, [score.sub_(top).exp2_().sum(-1, keepdim=True) for score in scores])


def _spread(x_SYW: Tensor, runs: Spans, *, fill: float | None = None) -> Tensor:
    """Return runs side by side, heads first; at the padding stands `fill`, or some token."""
    first, shape = runs.first, runs.tokens_BL.shape
    if runs.is_full:
        return x_SYW[first : first + runs.tokens_BL.numel()].unflatten(0, shape).permute(2, 0, 1, 3).contiguous()
    x_BLYW = x_SYW.index_select(0, runs.tokens_BL.flatten()).unflatten(0, shape)
    if fill is not None:
        x_BLYW.masked_fill_(runs.padding_BL[:, :, None, None], fill)
    return x_BLYW.permute(2, 0, 1, 3).contiguous()


def _gather(x: Tensor, runs: Spans, out_SYW: Tensor) -> None:
    """Write the tokens of runs, whose heads come first, to their places."""
    shape = runs.tokens_BL.shape
    x_BLYW = x.view(-1, *shape, x.shape[-1]).permute(1, 2, 0, 3)
    part = out_SYW[runs.first : runs.first + len(runs.places_M)]
    if runs.is_full:
        part.unflatten(0, shape).copy_(x_BLYW)
    else:
        part.copy_(x_BLYW.flatten(0, 1).index_select(0, runs.places_M))
