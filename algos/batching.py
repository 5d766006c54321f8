"""Rows → padded tensors, and rows → micro-batches of bounded size.

Dimension suffixes: `B` rows, `S` positions of prompt and completion, `T` positions of the completion.
Padding is on the right, where it can't reach a real token: attention is causal, and the state of a linear
attention runs from left to right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from algos.types import Row


@dataclass(frozen=True)
class PaddedRows:
    """Rows as tensors. Which position is what follows from lengths alone, never from a token's id."""

    input_ids_BS: Tensor
    attention_mask_BS: Tensor
    """1 at the tokens, 0 at the padding."""
    position_ids_BS: Tensor
    """0, 1, 2, … in every row."""
    predicts_BS: Tensor
    """True where the *next* token belongs to the completion: the position before it up to the last but one."""
    mask_BT: Tensor
    """True at the tokens of the completion, its end-of-sequence token included."""
    old_logp_BT: Tensor
    ref_logp_BT: Tensor | None
    weight_BT: Tensor | None
    advantages_B: Tensor

    @property
    def target_ids_N(self) -> Tensor:
        """The ids of all completion tokens, row after row, shape (N,)."""
        return self.input_ids_BS[:, 1:][self.predicts_BS[:, :-1]]


def pad_rows(rows: Sequence[Row], *, device: torch.device | str = "cpu") -> PaddedRows:
    """Pad rows on the right to the longest one.

    Args:
        rows: at least one row; with reference log-probabilities in all rows or in none, and with weights likewise.
        device: where the tensors go.

    Raises:
        ValueError: a row has no prompt, its log-probabilities or weights do not fit its completion or are not
            finite, or only some rows have reference log-probabilities or weights.
    """
    _check(rows)
    prompts_B = np.array([len(row.prompt_ids) for row in rows])[:, None]
    completions_B = np.array([len(row.completion_ids) for row in rows])[:, None]
    places_S = np.arange((prompts_B + completions_B).max())
    is_token_BS = places_S < prompts_B + completions_B
    mask_BT = np.arange(completions_B.max()) < completions_B
    ids = chain.from_iterable(chain(row.prompt_ids, row.completion_ids) for row in rows)

    def per_token(get: Callable[[Row], Sequence[float] | None]) -> Tensor:
        return _to(_fill(mask_BT, chain.from_iterable(get(row) or () for row in rows), np.float32), device)

    return PaddedRows(
        input_ids_BS=_to(_fill(is_token_BS, ids, np.int64), device),
        attention_mask_BS=_to(is_token_BS.astype(np.int64), device),
        position_ids_BS=torch.arange(len(places_S), device=device).expand(len(rows), -1),
        predicts_BS=_to((places_S >= prompts_B - 1) & (places_S < prompts_B + completions_B - 1), device),
        mask_BT=_to(mask_BT, device),
        old_logp_BT=per_token(lambda row: row.old_logprobs),
        ref_logp_BT=None if rows[0].ref_logprobs is None else per_token(lambda row: row.ref_logprobs),
        weight_BT=None if rows[0].weights is None else per_token(lambda row: row.weights),
        advantages_B=torch.tensor([row.advantage for row in rows], dtype=torch.float32, device=device),
    )


def micro_batches(rows: Sequence[Row], token_budget: int) -> list[list[int]]:
    """Divide rows into micro-batches of similar length.

    Args:
        rows: the rows.
        token_budget: most tokens of one padded micro-batch. A row that is longer goes alone.

    Returns:
        Indices into `rows`, each exactly once, the longest rows first: what does not fit into memory fails at
        once. To restore the order, assign the results of a micro-batch to its indices.
    """
    if token_budget < 1:
        raise ValueError(f"token_budget must be at least 1, not {token_budget}")
    lengths = [len(row.prompt_ids) + len(row.completion_ids) for row in rows]
    order = sorted(range(len(rows)), key=lambda index: -lengths[index])
    pieces = []
    while order:
        size = max(1, token_budget // max(1, lengths[order[0]]))
        pieces.append(order[:size])
        order = order[size:]
    return pieces


def _fill(mask: NDArray[np.bool_], values: chain, dtype: type) -> NDArray:
    """Return an array of zeros in which `values` stand where `mask` is True, row after row."""
    array: NDArray = np.zeros(mask.shape, dtype)
    array[mask] = np.fromiter(values, dtype, count=int(mask.sum()))
    return array


def _to(array: NDArray, device: torch.device | str) -> Tensor:
    return torch.from_numpy(array).to(device)


def _check(rows: Sequence[Row]) -> None:
    if not rows:
        raise ValueError("there are no rows to pad")
    for index, row in enumerate(rows):
        if not row.prompt_ids:
            raise ValueError(f"row {index} has no prompt: nothing predicts its first token. Begin with a start token")
        for name in ("ref_logprobs", "weights"):
            if (getattr(row, name) is None) != (getattr(rows[0], name) is None):
                raise ValueError(f"only some rows have {name}: give them to all rows of a batch or to none")
        for name in ("old_logprobs", "ref_logprobs", "weights"):
            values = getattr(row, name)
            if values is None:
                continue
            if len(values) != len(row.completion_ids):
                raise ValueError(f"row {index} has {len(row.completion_ids)} completion tokens but {len(values)} {name}")
            if not np.isfinite(values).all():
                raise ValueError(f"{name} of row {index} are not finite: the sampler's model or its temperature is at fault")
