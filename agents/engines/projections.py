"""Linear layers laid out for many small products: the weights of decoding.

Dimension suffixes: N tokens, I inputs, O outputs, K columns of all low-rank factors together.

On a CPU in float32, an adapter is merged into a scratch copy (W + scale · B A) and the copy is laid out for products of few
rows that are several times as fast as those of `torch.nn.functional.linear` there: in panels for our own kernel, else as
oneDNN likes it. The base's own weights are never written to. Elsewhere the base's weights are used as they are and the
adapter's product is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from peft.tuners.lora import Linear as LoraLinear
from torch import Tensor, nn

from agents.kernels.library import PANEL, usable
from agents.kernels.products import panels_of, product_with_panels
from agents.products import product

ONEDNN_ROWS = 32
"""Least rows for which the better product gains more than its call costs, on weights that are not packed."""
PACK_ROWS = 64
"""Rows for which oneDNN lays out its weights; other numbers work with that layout."""


class Projection(Protocol):
    """A linear layer, or several with the same input, whose outputs stand side by side."""

    def __call__(self, x_NI: Tensor, plus_NO: Tensor | None = None) -> Tensor:
        """Return the layer's output, added to `plus_NO` if that is given."""
        ...


@dataclass(frozen=True)
class Factors:
    """What one adapter adds to one linear layer: scale · B A."""

    a_KI: Tensor
    b_OK: Tensor
    scale: float


def linear_of(module: nn.Module) -> nn.Linear | None:
    """Return the frozen linear layer of a module, adapted or not; None if it is of any other kind."""
    inner: Any = module.get_base_layer() if isinstance(module, LoraLinear) else module
    return inner if type(inner) is nn.Linear else None


def factors_of(module: nn.Module, adapter: str | None) -> Factors | None:
    """Return what an adapter adds to a module; None if it does not adapt it."""
    if adapter is None or not isinstance(module, LoraLinear) or adapter not in module.lora_A:
        return None
    lora: Any = module
    return Factors(lora.lora_A[adapter].weight.detach(), lora.lora_B[adapter].weight.detach(), lora.scaling[adapter])


class Panels:
    """Weights in panels: float32 on a CPU, where the kernels are compiled."""

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None) -> None:
        """Lay out a weight, which may be thrown away afterwards."""
        self.outputs = len(weight_OI)
        self.panels_PIC = panels_of(weight_OI)
        columns = len(self.panels_PIC) * PANEL
        self.bias = None if bias_O is None else nn.functional.pad(bias_O, (0, columns - self.outputs))
        self.is_whole = columns == self.outputs
        """Whether there are no columns beyond the outputs."""

    def __call__(self, x_NI: Tensor, plus_NO: Tensor | None = None) -> Tensor:
        """Return the outputs, added to `plus_NO` if that is given."""
        if plus_NO is not None and self.bias is None and self.is_whole:
            return product_with_panels(x_NI, self.panels_PIC, plus_NO)
        out_NO = product_with_panels(x_NI, self.panels_PIC, self.bias)[:, : self.outputs]
        return out_NO if plus_NO is None else out_NO.add_(plus_NO)


class Packed:
    """Weights packed for oneDNN: float32 on a CPU."""

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None) -> None:
        """Pack a weight, which may be thrown away afterwards."""
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight_OI, PACK_ROWS)
        self.bias_O = bias_O

    def __call__(self, x_NI: Tensor, plus_NO: Tensor | None = None) -> Tensor:
        """Return the outputs, added to `plus_NO` if that is given."""
        out_NO = torch.ops.mkldnn._linear_pointwise(x_NI, self.weight, self.bias_O, "none", [], "")
        # oneDNN can add as well, but copies first what it adds to.
        return out_NO if plus_NO is None else out_NO.add_(plus_NO)


class Dense:
    """Weights as they are."""

    def __init__(self, layers: Sequence[tuple[Tensor, Tensor | None]]) -> None:
        """Refer to the weights and biases of one or several layers."""
        self.layers = layers

    def __call__(self, x_NI: Tensor, plus_NO: Tensor | None = None) -> Tensor:
        """Return the outputs, added to `plus_NO` if that is given."""
        multiply = product if len(x_NI) >= ONEDNN_ROWS else nn.functional.linear
        outs = [multiply(x_NI, weight, bias) for weight, bias in self.layers]
        out_NO = outs[0] if len(outs) == 1 else torch.cat(outs, -1)
        return out_NO if plus_NO is None else out_NO.add_(plus_NO)


class Tokens:
    """Which of several adapters each token of the current forward pass is under."""

    def __init__(self) -> None:
        """Begin without tokens."""
        self.place(None)

    def place(self, adapter_N: Tensor | None) -> None:
        """Take the number of each token's adapter; None where there is one adapter for all."""
        self.adapter_N = adapter_N
        self._masks: dict[tuple[int, ...], Tensor] = {}

    def mask(self, ranks: tuple[int, ...]) -> Tensor | None:
        """Return which factors count for which token, [N, K]: `ranks` says how many of them each adapter has."""
        if self.adapter_N is None:
            return None
        if ranks not in self._masks:
            device = self.adapter_N.device
            owner_K = torch.arange(len(ranks), device=device).repeat_interleave(torch.tensor(ranks, device=device))
            self._masks[ranks] = (self.adapter_N[:, None] == owner_K).float()
        return self._masks[ranks]


class Adapted:
    """A projection with the products of one or several adapters added, to each token that of its own adapter."""

    def __init__(
        self, inner: Projection, factors: Sequence[Sequence[Factors | None]], widths: Sequence[int], tokens: Tokens
    ) -> None:
        """Stack low-rank factors.

        Args:
            inner: the projection without adapters.
            factors: for each adapter what it adds to each layer of the projection, or None.
            widths: outputs of each layer.
            tokens: where each forward pass says which token is under which adapter.
        """
        self.inner = inner
        self.tokens = tokens
        known = [factor for group in factors for factor in group if factor is not None]
        self.ranks = tuple(sum(len(factor.a_KI) for factor in group if factor is not None) for group in factors)
        self.a_KI = torch.cat([factor.a_KI for factor in known])
        self.b_KO = self.a_KI.new_zeros(len(self.a_KI), sum(widths))
        starts = [sum(widths[:place]) for place in range(len(widths))]
        row = 0
        for group in factors:
            for factor, start, width in zip(group, starts, widths, strict=True):
                if factor is not None:
                    self.b_KO[row : (row := row + len(factor.a_KI)), start : start + width] = factor.scale * factor.b_OK.T

    def __call__(self, x_NI: Tensor, plus_NO: Tensor | None = None) -> Tensor:
        """Return the outputs, added to `plus_NO` if that is given."""
        own_NK = nn.functional.linear(x_NI, self.a_KI)
        if (mask_NK := self.tokens.mask(self.ranks)) is not None:
            own_NK *= mask_NK
        return self.inner(x_NI, plus_NO).addmm_(own_NK, self.b_KO)


def project(modules: Sequence[nn.Module], adapters: Sequence[str | None], tokens: Tokens, *, copy: bool) -> Projection:
    """Return modules that share their input as one projection.

    Args:
        modules: linear layers, adapted or not.
        adapters: those that count.
        tokens: which token is under which of them.
        copy: make a copy of the weights, laid out for speed, and merge the adapter into it if there is only one.
    """
    layers = [linear for module in modules if (linear := linear_of(module)) is not None]
    factors = [[factors_of(module, adapter) for module in modules] for adapter in adapters]
    if copy and len(adapters) == 1:
        return _copied(layers, factors[0])
    inner: Projection = (
        _copied(layers, [None] * len(layers))
        if copy
        else Dense([(layer.weight.detach(), None if layer.bias is None else layer.bias.detach()) for layer in layers])
    )
    adapted = any(factor is not None for group in factors for factor in group)
    return Adapted(inner, factors, [layer.out_features for layer in layers], tokens) if adapted else inner


def can_pack(weight: Tensor) -> bool:
    """Return whether there is a layout for speed for such a weight."""
    return usable(weight) or (weight.device.type == "cpu" and weight.dtype == torch.float32 and _PACKS)


def _copied(layers: Sequence[nn.Linear], factors: Sequence[Factors | None]) -> Projection:
    """Return a copy of layers with one adapter merged into it."""
    scratch_OI = layers[0].weight.new_empty(sum(layer.out_features for layer in layers), layers[0].in_features)
    parts = scratch_OI.split([layer.out_features for layer in layers])
    for layer, factor, part_OI in zip(layers, factors, parts, strict=True):
        if factor is None:
            part_OI.copy_(layer.weight)
        else:
            torch.addmm(layer.weight, factor.b_OK, factor.a_KI, alpha=factor.scale, out=part_OI)
    biases = [layer.bias for layer in layers]
    bias_O = None
    if any(bias is not None for bias in biases):
        pairs = zip(parts, biases, strict=True)
        bias_O = torch.cat([part.new_zeros(len(part)) if bias is None else bias for part, bias in pairs])
    return Panels(scratch_OI, bias_O) if usable(scratch_OI) else Packed(scratch_OI, bias_O)


def _packs() -> bool:
    """Try the packed product, which torch does not promise in its public interface, against the plain one."""
    if not torch.backends.mkldnn.is_available():
        return False
    x_NI, plus_NO = torch.linspace(-1, 1, 48).view(3, 16), torch.linspace(0, 1, 24).view(3, 8)
    weight_OI, bias_O = torch.linspace(-1, 2, 128).view(8, 16), torch.linspace(0, 3, 8)
    try:
        packed = Packed(weight_OI, bias_O)
        got = packed(x_NI), packed(x_NI, plus_NO)
    except (AttributeError, RuntimeError, TypeError):
        return False
    plain_NO = nn.functional.linear(x_NI, weight_OI, bias_O)
    return torch.allclose(got[0], plain_NO, atol=1e-5) and torch.allclose(got[1], plain_NO + plus_NO, atol=1e-5)


_PACKS = _packs()
