"""The product of a frozen linear layer and a LoRA adapter, with the backward pass that it needs and no more.

Composed of modules, as PEFT does it, the sum base + scale · B(A x) writes the wide output three times and its gradient
as often. Here the low-rank product is added in place by the matrix product itself, in both directions.

Dimension suffixes: N tokens, I inputs, O outputs, K rank.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from agents.products import product


def lora_linear(x: Tensor, *, weight_OI: Tensor, bias_O: Tensor | None, a_KI: Tensor, b_OK: Tensor, scale: float) -> Tensor:
    """Return x Wᵀ + bias + scale · (x Aᵀ) Bᵀ, with gradients to x, A and B.

    Args:
        x: inputs of the layer, of any shape that ends in I.
        weight_OI: the frozen weight; it takes no gradient.
        bias_O: the frozen bias, or None.
        a_KI: LoRA's first factor.
        b_OK: LoRA's second factor.
        scale: alpha / rank.

    All have the same floating-point type.
    """
    if torch.is_grad_enabled():
        return _LoraLinear.apply(x, a_KI, b_OK, weight_OI, bias_O, scale)
    return _forward(x.flatten(0, -2), a_KI, b_OK, weight_OI, bias_O, scale)[0].view(*x.shape[:-1], -1)


class _LoraLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, a_KI: Tensor, b_OK: Tensor, weight_OI: Tensor, bias_O: Tensor | None, scale: float
    ) -> Tensor:
        x_NI = x.flatten(0, -2)
        out_NO, low_NK = _forward(x_NI, a_KI, b_OK, weight_OI, bias_O, scale)
        ctx.save_for_backward(x_NI, low_NK, a_KI, b_OK, weight_OI)
        ctx.scale = scale
        return out_NO.view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x_NI, low_NK, a_KI, b_OK, weight_OI = ctx.saved_tensors
        needs_x, needs_a, needs_b = ctx.needs_input_grad[:3]
        grad_NO = grad.flatten(0, -2)
        grad_low_NK = product(grad_NO, b_OK.T).mul_(ctx.scale)
        grad_x = grad_a_KI = grad_b_OK = None
        if needs_x:
            grad_x = product(grad_NO, weight_OI.T).addmm_(grad_low_NK, a_KI).view(*grad.shape[:-1], -1)
        if needs_a:
            grad_a_KI = product(grad_low_NK.T, x_NI.T)
        if needs_b:
            grad_b_OK = product(grad_NO.T, low_NK.T).mul_(ctx.scale)
        return grad_x, grad_a_KI, grad_b_OK, None, None, None


def _forward(
    x_NI: Tensor, a_KI: Tensor, b_OK: Tensor, weight_OI: Tensor, bias_O: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    low_NK = product(x_NI, a_KI)
    return product(x_NI, weight_OI, bias_O).addmm_(low_NK, b_OK.T, alpha=scale), low_NK
