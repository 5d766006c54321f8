"""The product of frozen linear layers and their LoRA adapters, with the backward pass that it needs and no more.

Composed of modules, as PEFT does it, the sum base + scale · B(A x) writes the wide output three times and its gradient
as often. Here the adapters are merged into a scratch copy of the weights where that is smaller than the outputs, else the
low-rank product is added in place by the matrix product itself, in both directions.

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


class LinearGroup:
    """Linear layers with the same input as one, under an adapter; outside of autograd."""

    def __init__(self, layers: Sequence[LoraWeights], *, merge: bool) -> None:
        """Stand at least one layer side by side.

        Args:
            layers: the factors may not change as long as this is used.
            merge: copy the weights and add the adapter to them, which pays where tokens are more than inputs.
        """
        self.layers = layers
        self.factors = [factor for layer in layers for factor in layer.factors or ()]
        """A and B of each adapted layer."""
        self._stacked = _stacked(layers) if self.factors else None
        merged = merge and self._stacked is not None
        self._parts = [(_merged(layers), _biases(layers))] if merged else [(one.weight_OI, one.bias_O) for one in layers]
        self._beside = None if merged else self._stacked

    def __call__(self, x_NI: Tensor) -> Tensor:
        """Return x (W + scale · B A)ᵀ + bias of all layers side by side, shape (N, O)."""
        outs = [product(x_NI, weight_OI, bias_O) for weight_OI, bias_O in self._parts]
        out_NO = outs[0] if len(outs) == 1 else torch.cat(outs, -1)
        if self._beside is None:
            return out_NO
        a_KI, b_KO = self._beside
        return out_NO.addmm_(product(x_NI, a_KI), b_KO)

    def input_grad(self, grad_NO: Tensor) -> Tensor:
        """Return the gradient to the input, shape (N, I)."""
        grads = grad_NO.split([len(weight_OI) for weight_OI, _ in self._parts], -1)
        grad_NI = product(grads[0], self._parts[0][0].T)
        for grad, (weight_OI, _) in zip(grads[1:], self._parts[1:], strict=True):
            grad_NI += product(grad, weight_OI.T)
        if self._beside is None:
            return grad_NI
        a_KI, b_KO = self._beside
        return grad_NI.addmm_(product(grad_NO, b_KO), a_KI)

    def factor_grads(self, grad_NO: Tensor, x_NI: Tensor) -> list[Tensor]:
        """Return the gradients to `factors`."""
        if self._stacked is None:
            return []
        a_KI, b_KO = self._stacked
        return _factor_grads(self.layers, grad_NO, x_NI, low_KN=product(a_KI, x_NI), grad_low_KN=product(b_KO, grad_NO))


def lora_linear(x: Tensor, layer: LoraWeights) -> Tensor:
    """Return x Wᵀ + bias + scale · (x Aᵀ) Bᵀ, with gradients to x, A and B.

    Args:
        x: of any shape that ends in I.
        layer: its weight and bias take no gradient.
    """
    if layer.factors is None:
        return frozen_linear(x, layer.weight_OI, layer.bias_O)
    if torch.is_grad_enabled() and (x.requires_grad or any(factor.requires_grad for factor in layer.factors)):
        return _LoraLinear.apply(x, layer, *layer.factors)
    with torch.no_grad():
        return _forward(x.flatten(0, -2), layer)[0].view(*x.shape[:-1], -1)


class _LoraLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: LoraWeights, *factors: Tensor) -> Tensor:
        x_NI = x.flatten(0, -2)
        out_NO, low_NK = _forward(x_NI, layer)
        ctx.save_for_backward(x_NI, low_NK, *factors)
        ctx.layer = layer
        return out_NO.view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x_NI, low_NK, *_ = ctx.saved_tensors  # raises if a factor was changed in the meantime
        layer: LoraWeights = ctx.layer
        grad_NO = grad.flatten(0, -2)
        a_KI, b_KO = _stacked([layer])
        grad_low_NK = product(grad_NO, b_KO)
        grad_x = None
        if ctx.needs_input_grad[0]:
            if low_NK is None:
                grad_NI = product(grad_NO, _merged([layer]).T)
            else:
                grad_NI = product(grad_NO, layer.weight_OI.T).addmm_(grad_low_NK, a_KI)
            grad_x = grad_NI.view(*grad.shape[:-1], -1)
        low_KN = product(a_KI, x_NI) if low_NK is None else low_NK.T
        return grad_x, None, *_factor_grads([layer], grad_NO, x_NI, low_KN=low_KN, grad_low_KN=grad_low_NK.T)


def _forward(x_NI: Tensor, layer: LoraWeights) -> tuple[Tensor, Tensor | None]:
    """Return the outputs, and the low-rank products if they were needed."""
    assert layer.factors is not None
    wide = torch.finfo(x_NI.dtype).bits >= 32  # narrow types would round small adapters away
    if wide and len(x_NI) >= x_NI.shape[1]:
        return product(x_NI, _merged([layer]), layer.bias_O), None
    a_KI, b_OK = layer.factors
    low_NK = product(x_NI, a_KI)
    return product(x_NI, layer.weight_OI, layer.bias_O).addmm_(low_NK, b_OK.T, alpha=layer.scale), low_NK


def _factor_grads(
    layers: Sequence[LoraWeights], grad_NO: Tensor, x_NI: Tensor, *, low_KN: Tensor, grad_low_KN: Tensor
) -> list[Tensor]:
    """Return the gradients to A and B of each adapted layer."""
    # With the few rows of the factors first, oneDNN is several times as fast as the other way round, and faster still where
    # they lie in memory that way.
    grad_a_KI, grad_b_KO = product(grad_low_KN, x_NI.T), product(low_KN, grad_NO.T)
    grads: list[Tensor] = []
    for layer, rows, columns in _blocks(layers):
        grads += grad_a_KI[rows], grad_b_KO[rows, columns].T * layer.scale
    return grads


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
