"""Norm, gate and rotation of the common block, outside of autograd, with their gradients.

Dimension suffixes: N tokens, D width, I width of the MLP, Y heads of queries, keys and values, X those of them that are
turned, W width of a head.
"""

from __future__ import annotations

from ctypes import byref
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from agents.kernels.library import LIBRARY, Heads, usable


@dataclass(frozen=True)
class Angles:
    """The angles by which each token's heads are turned, [N, W]."""

    cos_NW: Tensor
    sin_NW: Tensor
    """Those of the first half with the sign that they have there."""

    def at(self, place_N: Tensor) -> Angles:
        """Return those at some places."""
        return Angles(self.cos_NW[place_N], self.sin_NW[place_N])


def rms_norm(x_ND: Tensor, weight_D: Tensor, eps: float) -> Tensor:
    """Return x / sqrt(mean(x²) + eps) · weight, the mean over the last dimension."""
    if not usable(x_ND):
        return F.rms_norm(x_ND, weight_D.shape, weight_D, eps)
    x_ND = x_ND.contiguous()
    out_ND = torch.empty_like(x_ND)
    LIBRARY.agon_norm(x_ND.data_ptr(), weight_D.data_ptr(), eps, out_ND.data_ptr(), *x_ND.shape)
    return out_ND


def rms_norm_backward(grad_ND: Tensor, x_ND: Tensor, weight_D: Tensor, eps: float, *, to_x_ND: Tensor) -> Tensor:
    """Add the gradient to the input to `to_x_ND`, which is contiguous, and return the output of `rms_norm` once more."""
    if usable(grad_ND, x_ND):
        grad_ND, x_ND = grad_ND.contiguous(), x_ND.contiguous()
        normed_ND = torch.empty_like(x_ND)
        pointers = (grad_ND.data_ptr(), x_ND.data_ptr(), weight_D.data_ptr(), eps, normed_ND.data_ptr(), to_x_ND.data_ptr())
        LIBRARY.agon_norm_back(*pointers, *x_ND.shape)
        return normed_ND
    inverse_N1 = _inverse_rms(x_ND, eps)
    normed_ND = (x_ND * inverse_N1).mul_(weight_D)
    slope_N1 = torch.linalg.vecdot(grad_ND, normed_ND).div_(x_ND.shape[-1]).unsqueeze(-1)
    to_x_ND.add_((grad_ND * weight_D).addcmul_(x_ND, slope_N1.mul_(inverse_N1), value=-1).mul_(inverse_N1))
    return normed_ND


def silu_gate(gate_up_NI: Tensor) -> Tensor:
    """Return silu(gate) · up of the two halves of the last dimension."""
    if not usable(gate_up_NI):
        gate, up = gate_up_NI.chunk(2, -1)
        return F.silu(gate).mul_(up)
    gate_up_NI = gate_up_NI.contiguous()
    out = gate_up_NI.new_empty(gate_up_NI.shape[0], gate_up_NI.shape[1] // 2)
    LIBRARY.agon_gate(gate_up_NI.data_ptr(), out.data_ptr(), *out.shape)
    return out


def silu_gate_backward(grad_NI: Tensor, gate_up: Tensor) -> tuple[Tensor, Tensor]:
    """Return `silu_gate` once more, and the gradient to its input."""
    gate_up = gate_up.contiguous()
    to_gate_up = torch.empty_like(gate_up)
    if usable(grad_NI, gate_up):
        grad_NI = grad_NI.contiguous()
        out = torch.empty_like(grad_NI)
        LIBRARY.agon_gate_back(grad_NI.data_ptr(), gate_up.data_ptr(), out.data_ptr(), to_gate_up.data_ptr(), *grad_NI.shape)
        return out, to_gate_up
    (gate, up), (to_gate, to_up) = gate_up.chunk(2, -1), to_gate_up.chunk(2, -1)
    active_NI = F.silu(gate)
    torch.mul(grad_NI, active_NI, out=to_up)
    torch.ops.aten.silu_backward.grad_input(grad_NI * up, gate, grad_input=to_gate)
    return active_NI.mul_(up), to_gate_up


def turn_heads(qkv_NYW: Tensor, weight_XW: Tensor | None, eps: float, angles: Angles, *, turned: int) -> Tensor:
    """Return the heads with the first `turned` of them normalised, unless the weight is None, and turned.

    Args:
        qkv_NYW: heads of queries, of keys, and of values, which stay as they are.
        weight_XW: of the root-mean-square norm of each head.
        eps: of that norm.
        angles: of each token.
        turned: heads of queries and keys together.
    """
    if usable(qkv_NYW):
        qkv_NYW = qkv_NYW.contiguous()
        out_NYW = torch.empty_like(qkv_NYW)
        LIBRARY.agon_turn(byref(_heads(qkv_NYW, weight_XW, eps, angles, turned)), out_NYW.data_ptr())
        return out_NYW
    out_NYW = qkv_NYW.clone(memory_format=torch.contiguous_format)
    plain_NXW = qkv_NYW[:, :turned]
    if weight_XW is not None:
        plain_NXW = (plain_NXW * _inverse_rms(plain_NXW, eps)).mul_(weight_XW)
    torch.mul(plain_NXW, angles.cos_NW[:, None], out=out_NYW[:, :turned])
    out_NYW[:, :turned].addcmul_(plain_NXW.roll(plain_NXW.shape[-1] // 2, -1), angles.sin_NW[:, None])
    return out_NYW


def turn_heads_backward(
    grad_NYW: Tensor, qkv_NYW: Tensor, weight_XW: Tensor | None, eps: float, angles: Angles, *, turned: int
) -> Tensor:
    """Return the gradient to the input of `turn_heads`, shape (N, Y, W)."""
    if usable(grad_NYW, qkv_NYW):
        grad_NYW, qkv_NYW = grad_NYW.contiguous(), qkv_NYW.contiguous()
        to_qkv_NYW = torch.empty_like(qkv_NYW)
        heads = _heads(qkv_NYW, weight_XW, eps, angles, turned)
        LIBRARY.agon_turn_back(byref(heads), grad_NYW.data_ptr(), to_qkv_NYW.data_ptr())
        return to_qkv_NYW
    to_qkv_NYW = grad_NYW.clone(memory_format=torch.contiguous_format)
    grad_NXW, to_NXW = grad_NYW[:, :turned], to_qkv_NYW[:, :turned]
    # The sines change their sign with the half: those of where a number went are minus those of where it came from.
    back_NXW = grad_NXW.roll(grad_NXW.shape[-1] // 2, -1)
    torch.mul(grad_NXW, angles.cos_NW[:, None], out=to_NXW)
    to_NXW.addcmul_(back_NXW, angles.sin_NW[:, None].roll(grad_NXW.shape[-1] // 2, -1))
    if weight_XW is not None:
        x_NXW = qkv_NYW[:, :turned]
        inverse_NX1 = _inverse_rms(x_NXW, eps)
        unit_NXW = x_NXW * inverse_NX1
        slope_NX1 = torch.linalg.vecdot(to_NXW.mul_(weight_XW), unit_NXW).unsqueeze(-1).div_(x_NXW.shape[-1])
        to_NXW.addcmul_(unit_NXW, slope_NX1, value=-1).mul_(inverse_NX1)
    return to_qkv_NYW


def _heads(qkv_NYW: Tensor, weight_XW: Tensor | None, eps: float, angles: Angles, turned: int) -> Heads:
    rows, heads, width = qkv_NYW.shape
    weight = None if weight_XW is None else weight_XW.data_ptr()
    return Heads(
        qkv_NYW.data_ptr(), weight, angles.cos_NW.data_ptr(), angles.sin_NW.data_ptr(), eps, rows, heads, turned, width
    )


def _inverse_rms(x: Tensor, eps: float) -> Tensor:
    return x.square().mean(-1, keepdim=True).add_(eps).rsqrt_()
