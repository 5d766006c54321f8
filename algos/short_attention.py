"""Attention of packed rows by plain products, for short rows on a CPU.

There torch's own kernel spends as long on its blocks as on their numbers. Plain products have to keep the weights of
attention for the backward pass, so that long rows are left to the kernel; and they need no copy of a prompt's keys and
values for each of its rows: the queries of all its rows meet them in one product.

Dimension suffixes: `S` tokens of all rows, `Y` heads of queries, keys and values, `H` heads of queries, `W` width of a
head, `B` runs, `L` positions of a run; `U` roots, `P` positions of a root, `R` branches, `M` branches of a root; `X` = P + L.
`B`, `U` and `R` have the heads before them, in one dimension or in two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from agents.engines.drawing import LOG2_E

if TYPE_CHECKING:
    from algos.packing import Layout, Spans

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
    @staticmethod
    def forward(ctx: Any, qkv_SYW: Tensor, layout: Layout, kv_heads: int, scale: float) -> Tensor:
        roots = _Heads.of(qkv_SYW, layout.roots, kv_heads=kv_heads, scale=scale)
        mixed_SHW = qkv_SYW.new_zeros(len(qkv_SYW), *roots.q_HBLW.shape[::3])
        weight_BPP = _softmax2(_causal(roots))
        _gather(torch.bmm(weight_BPP, _flat(roots.v_HBLW)), layout.roots, mixed_SHW)
        saved = [roots.q_HBLW, roots.k_HBLW, roots.v_HBLW, weight_BPP]
        if layout.branches is not None:
            own = _Heads.of(qkv_SYW, layout.branches, kv_heads=kv_heads, scale=scale)
            weight_BLX = _softmax2(torch.cat([_to_roots(own, roots, layout.unseen_U1P), _causal(own)], -1))
            to_root, to_own = _parts(weight_BLX, roots)
            mixed_BLW = torch.bmm(to_root, _flat(roots.v_HBLW)).view(len(weight_BLX), -1, roots.v_HBLW.shape[-1])
            _gather(mixed_BLW.baddbmm_(to_own, _flat(own.v_HBLW)), layout.branches, mixed_SHW)
            saved += [own.q_HBLW, own.k_HBLW, own.v_HBLW, weight_BLX]
        ctx.save_for_backward(*saved)
        ctx.layout, ctx.kv_heads, ctx.scale = layout, kv_heads, scale
        return mixed_SHW

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_SHW: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, weight_BPP, *of_branches = ctx.saved_tensors
        layout: Layout = ctx.layout
        roots = _Heads(q, k, v)
        grad_qkv_SYW = grad_SHW.new_zeros(len(grad_SHW), grad_SHW.shape[1] + 2 * ctx.kv_heads, grad_SHW.shape[2])

        def place(runs: Spans, *grads_BLW: Tensor) -> None:
            heads = grad_SHW.shape[1]
            for grad_BLW, count, first in zip(
                grads_BLW, (heads, *[ctx.kv_heads] * 2), (0, heads, heads + ctx.kv_heads), strict=True
            ):
                grad = grad_BLW.unflatten(0, (heads, -1))
                if count != heads:  # several heads of queries share one of keys
                    grad = grad.unflatten(0, (count, -1)).sum(1)
                _gather(grad, runs, grad_qkv_SYW[:, first : first + count])

        grad_BPW = _flat(_spread(grad_SHW, layout.roots, fill=0.0))
        slope_BPP = _softmax_backward(torch.bmm(grad_BPW, _flat(v).mT), weight_BPP)
        to_k, to_v = torch.bmm(slope_BPP.mT, _flat(q)), torch.bmm(weight_BPP.mT, grad_BPW)
        if layout.branches is not None:
            own_q, own_k, own_v, weight_BLX = of_branches
            grad_BLW = _flat(_spread(grad_SHW, layout.branches, fill=0.0))
            by_root = (len(weight_BPP), -1, grad_BLW.shape[-1])
            grad_BML = grad_BLW.view(by_root)
            to_roots = torch.bmm(grad_BML, _flat(v).mT).view(len(grad_BLW), -1, weight_BPP.shape[-1])
            slope_BLX = _softmax_backward(torch.cat([to_roots, torch.bmm(grad_BLW, _flat(own_v).mT)], -1), weight_BLX)
            (weight_root, weight_own), (slope_root, slope_own) = _parts(weight_BLX, roots), _parts(slope_BLX, roots)
            to_k.baddbmm_(slope_root.mT, own_q.view(by_root))
            to_v.baddbmm_(weight_root.mT, grad_BML)
            to_q = torch.bmm(slope_root, _flat(k)).view_as(grad_BLW).baddbmm_(slope_own, _flat(own_k))
            to_own_k, to_own_v = torch.bmm(slope_own.mT, _flat(own_q)), torch.bmm(weight_own.mT, grad_BLW)
            place(layout.branches, to_q.mul_(ctx.scale), to_own_k.div_(LOG2_E), to_own_v)
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
    k_BPW = _flat(roots.k_HBLW)
    q_BML = branches.q_HBLW.view(len(k_BPW), -1, k_BPW.shape[-1])
    score = torch.bmm(q_BML, k_BPW.mT)
    if unseen_U1P is not None:
        score.unflatten(0, roots.k_HBLW.shape[:2]).add_(unseen_U1P)
    return score.view(-1, branches.q_HBLW.shape[2], k_BPW.shape[1])


def _parts(x_BLX: Tensor, roots: _Heads) -> tuple[Tensor, Tensor]:
    """Return what concerns the roots, for all branches of one together, and what concerns the branches themselves."""
    heads, count, longest, _ = roots.k_HBLW.shape
    return x_BLX.view(heads * count, -1, x_BLX.shape[-1])[..., :longest], x_BLX[..., longest:]


def _softmax2(score: Tensor) -> Tensor:
    """Return the softmax to the base 2 of scores, which are used up; torch's, to the base e, takes longer (see `draw`)."""
    score.sub_(score.amax(-1, keepdim=True)).exp2_()
    return score.div_(score.sum(-1, keepdim=True))


def _softmax_backward(grad: Tensor, weight: Tensor) -> Tensor:
    return torch._softmax_backward_data(grad, weight, -1, weight.dtype)


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
