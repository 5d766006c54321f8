"""The product of frozen linear layers and their LoRA adapters, with the backward pass that it needs and no more.

Composed of modules, as PEFT does it, the sum base + scale · B(A x) writes the wide output three times and its gradient
as often. Here the adapters are merged into a scratch copy of the weights where that is smaller than the outputs, else the
low-rank product is added in place by the matrix product itself, in both directions. Layers with the same input are one
product.

Dimension suffixes: N tokens, I inputs, O outputs of all layers, K ranks of all layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from agents.products import frozen_linear, product


@dataclass(frozen=True)
class LoraWeights:
    """A frozen linear layer, and what an adapter adds to it; all tensors have the same floating-point type."""

    weight_OI: Tensor
    bias_O: Tensor | None = None
    factors: tuple[Tensor, Tensor] | None = None
    """LoRA's A (K, I) and B (O, K); None where the layer is not adapted."""
    scale: float = 1.0
    """alpha / rank."""


def lora_linear(x: Tensor, *layers: LoraWeights) -> Tensor:
    """Return x Wᵀ + bias + scale · (x Aᵀ) Bᵀ of some layers side by side, with gradients to x and to every A and B.

    Args:
        x: inputs of the layers, of any shape that ends in I.
        layers: at least one; all take I inputs. Their weights and biases take no gradient.
    """
    factors = [factor for layer in layers for factor in layer.factors or ()]
    if not factors and len(layers) == 1:
        return frozen_linear(x, layers[0].weight_OI, layers[0].bias_O)
    if torch.is_grad_enabled() and (x.requires_grad or any(factor.requires_grad for factor in factors)):
        return _LoraLinear.apply(x, layers, *factors)
    with torch.no_grad():
        return _forward(x.flatten(0, -2), layers)[0].view(*x.shape[:-1], -1)


class _LoraLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, layers: Sequence[LoraWeights], *factors: Tensor) -> Tensor:
        x_NI = x.flatten(0, -2)
        out_NO, low_NK = _forward(x_NI, layers)
        ctx.save_for_backward(x_NI, low_NK, *factors)
        ctx.layers = layers
        return out_NO.view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x_NI, low_NK, *_ = ctx.saved_tensors  # raises if a factor was changed in the meantime
        layers: Sequence[LoraWeights] = ctx.layers
        grad_NO = grad.flatten(0, -2)
        grad_x = None
        if not any(layer.factors for layer in layers):
            return product(grad_NO, _merged(layers).T).view(*grad.shape[:-1], -1), None
        a_KI, b_KO = _stacked(layers)
        grad_low_NK = product(grad_NO, b_KO)
        if ctx.needs_input_grad[0]:
            if low_NK is None:
                grad_NI = product(grad_NO, _merged(layers).T)
            else:
                grad_NI = product(grad_NO, layers[0].weight_OI.T).addmm_(grad_low_NK, a_KI)
            grad_x = grad_NI.view(*grad.shape[:-1], -1)
        if low_NK is None:
            low_NK = product(x_NI, a_KI)
        # With the few rows of the factors first, oneDNN is several times as fast as the other way round.
        grad_a_KI, grad_b_KO = product(grad_low_NK.T, x_NI.T), product(low_NK.T, grad_NO.T)
        grads: list[Tensor] = []
        for layer, rows, columns in _blocks(layers):
            grads += grad_a_KI[rows], grad_b_KO[rows, columns].T * layer.scale
        return grad_x, None, *grads


def _forward(x_NI: Tensor, layers: Sequence[LoraWeights]) -> tuple[Tensor, Tensor | None]:
    """Return the outputs, and the low-rank products if they were needed."""
    first = layers[0]
    wide = torch.finfo(x_NI.dtype).bits >= 32  # narrow types would round small adapters away
    if len(layers) > 1 or first.factors is None or (wide and len(x_NI) >= x_NI.shape[1]):
        return product(x_NI, _merged(layers), _biases(layers)), None
    a_KI, b_OK = first.factors
    low_NK = product(x_NI, a_KI)
    return product(x_NI, first.weight_OI, first.bias_O).addmm_(low_NK, b_OK.T, alpha=first.scale), low_NK


def _merged(layers: Sequence[LoraWeights]) -> Tensor:
    """Return W + scale · B A of all layers, one above the other, shape (O, I)."""
    widths = [len(layer.weight_OI) for layer in layers]
    merged_OI = layers[0].weight_OI.new_empty(sum(widths), layers[0].weight_OI.shape[1])
    for layer, part_OI in zip(layers, merged_OI.split(widths), strict=True):
        if layer.factors is None:
            part_OI.copy_(layer.weight_OI)
        else:
            a_KI, b_OK = layer.factors
            torch.addmm(layer.weight_OI, b_OK, a_KI, alpha=layer.scale, out=part_OI)
    return merged_OI


def _biases(layers: Sequence[LoraWeights]) -> Tensor | None:
    if all(layer.bias_O is None for layer in layers):
        return None
    return torch.cat(
        [layer.weight_OI.new_zeros(len(layer.weight_OI)) if layer.bias_O is None else layer.bias_O for layer in layers]
    )


def _stacked(layers: Sequence[LoraWeights]) -> tuple[Tensor, Tensor]:
    """Return all A, one above the other, and all scale · Bᵀ, each in the columns of its layer's outputs."""
    a_KI = torch.cat([layer.factors[0] for layer in layers if layer.factors is not None])
    b_KO = a_KI.new_zeros(len(a_KI), sum(len(layer.weight_OI) for layer in layers))
    for layer, rows, columns in _blocks(layers):
        assert layer.factors is not None
        torch.mul(layer.factors[1].T, layer.scale, out=b_KO[rows, columns])
    return a_KI, b_KO


def _blocks(layers: Sequence[LoraWeights]) -> Iterator[tuple[LoraWeights, slice, slice]]:
    """Yield the adapted layers with the places of their ranks and of their outputs."""
    row = column = 0
    for layer in layers:
        end = column + len(layer.weight_OI)
        if layer.factors is not None:
            yield layer, slice(row, row := row + len(layer.factors[0])), slice(column, end)
        column = end
