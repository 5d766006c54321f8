"""Products of few rows with weights laid out in panels, by a compiled kernel.

Dimension suffixes: N rows, I inputs, O outputs, P panels, C columns of a panel.
"""

from __future__ import annotations

from torch import Tensor

from agents.kernels.library import LIBRARY, PANEL


def panels_of(weight_OI: Tensor) -> Tensor:
    """Lay a weight out in panels of neighbouring outputs, shape (P, I, C); what is missing of the last one is 0."""
    outputs, inputs = weight_OI.shape
    panels_PIC = weight_OI.new_zeros(-(-outputs // PANEL), inputs, PANEL)
    for first in range(0, outputs, PANEL):
        panels_PIC[first // PANEL, :, : outputs - first] = weight_OI[first : first + PANEL].T
    return panels_PIC


def product_with_panels(x_NI: Tensor, panels_PIC: Tensor, plus: Tensor | None = None) -> Tensor:
    """Return x Wᵀ + plus, shape (N, P · C).

    Args:
        x_NI: float32 on a CPU, like all others.
        panels_PIC: W as `panels_of` lays it out.
        plus: one number for each result, (N, P · C), or one row for all, (P · C,).
    """
    panels, inputs, _ = panels_PIC.shape
    x_NI, columns = x_NI.contiguous(), panels * PANEL
    rows = x_NI.shape[0]
    out = x_NI.new_empty(rows, columns)
    start, stride = None, 0
    if plus is not None:
        plus = plus.contiguous()
        start, stride = plus.data_ptr(), columns if plus.ndim == 2 else 0
    LIBRARY.agon_product(x_NI.data_ptr(), panels_PIC.data_ptr(), start, stride, out.data_ptr(), rows, inputs, columns)
    return out
