"""Rows → padded tensors, and rows → micro-batches of bounded size.

Dimension suffixes: `B` rows, `S` positions of prompt and completion, `T` positions of the completion, `N` completion
tokens of all rows, `D` width of the model.
Padding is on the right, where it can't reach a real token: attention is causal, and the state of a linear
attention runs from left to right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from algos.types import Row

SHARED_SPREAD = 8
"""Attention holds the keys and values of a prompt once for each row that shares it. They are a tenth to a thirtieth of
what a layer keeps of a token, so this many times the token budget adds less than the budget itself."""
EVENNESS = 64
"""Micro-batches are made equal to within this part of the token budget."""


@dataclass(frozen=True, kw_only=True)
class Completions:
    """What the loss needs of some rows, whichever way their hidden states are computed."""

    target_ids_N: Tensor
    """The ids of all completion tokens, row after row."""
    mask_BT: Tensor
    """True at the tokens of the completion, its end-of-sequence token included."""
    old_logp_BT: Tensor
    ref_logp_BT: Tensor | None
    weight_BT: Tensor | None
    advantages_B: Tensor
    advantages_BT: Tensor | None
    """One per token, in the place of `advantages_B`."""

    def predictors(self, decoder: nn.Module) -> Tensor:
        """Return the hidden states that predict the completion tokens, shape (N, D).

        Args:
            decoder: a transformers model without its head.
        """
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class PaddedRows(Completions):
    """Rows side by side. Which position is what follows from lengths alone, never from a token's id."""

    input_ids_BS: Tensor
    attention_mask_BS: Tensor
    """1 at the tokens, 0 at the padding."""
    position_ids_BS: Tensor
    """0, 1, 2, … in every row."""
    predicts_BS: Tensor
    """True where the *next* token belongs to the completion: the position before it up to the last but one."""

    def predictors(self, decoder: nn.Module) -> Tensor:
        """Run the decoder on the padded rows."""
        hidden_BSD = decoder(
            input_ids=self.input_ids_BS,
            attention_mask=self.attention_mask_BS,
            position_ids=self.position_ids_BS,
            use_cache=False,
        ).last_hidden_state
        return hidden_BSD[self.predicts_BS]


def pad_rows(rows: Sequence[Row], *, device: torch.device | str = "cpu") -> PaddedRows:
    """Pad rows on the right to the longest one.

    Args:
        rows: at least one row; with reference log-probabilities in all rows or in none, and with weights and with
            advantages of tokens likewise.
        device: where the tensors go.

    Raises:
        ValueError: a row has no prompt, its log-probabilities, weights or advantages do not fit its completion or are
            not finite, or only some rows have reference log-probabilities, weights or advantages of tokens.
    """
    completions = completion_tensors(rows, device=device)
    prompts_B = np.array([len(row.prompt_ids) for row in rows])[:, None]
    completions_B = np.array([len(row.completion_ids) for row in rows])[:, None]
    places_S = np.arange((prompts_B + completions_B).max())
    is_token_BS = places_S < prompts_B + completions_B
    ids = chain.from_iterable(chain(row.prompt_ids, row.completion_ids) for row in rows)
    return PaddedRows(
        input_ids_BS=to_device(_fill(is_token_BS, ids, np.int64), device),
        attention_mask_BS=to_device(is_token_BS.astype(np.int64), device),
        position_ids_BS=torch.arange(len(places_S), device=device).expand(len(rows), -1),
        predicts_BS=to_device((places_S >= prompts_B - 1) & (places_S < prompts_B + completions_B - 1), device),
        **completions,
    )


class CompletionTensors(TypedDict):
    """The fields of `Completions`."""

    target_ids_N: Tensor
    mask_BT: Tensor
    old_logp_BT: Tensor
    ref_logp_BT: Tensor | None
    weight_BT: Tensor | None
    advantages_B: Tensor
    advantages_BT: Tensor | None


def completion_tensors(rows: Sequence[Row], *, device: torch.device | str) -> CompletionTensors:
    """Return the fields of `Completions` for some rows; see `pad_rows` for the errors."""
    _check(rows)
    completions_B = np.array([len(row.completion_ids) for row in rows])[:, None]
    mask_BT = np.arange(completions_B.max()) < completions_B

    def per_token(get: Callable[[Row], Sequence[float] | None]) -> Tensor:
        return to_device(_fill(mask_BT, chain.from_iterable(get(row) or () for row in rows), np.float32), device)

    return {
        "target_ids_N": to_device(np.fromiter(chain.from_iterable(row.completion_ids for row in rows), np.int64), device),
        "mask_BT": to_device(mask_BT, device),
        "old_logp_BT": per_token(lambda row: row.old_logprobs),
        "ref_logp_BT": None if rows[0].ref_logprobs is None else per_token(lambda row: row.ref_logprobs),
        "weight_BT": None if rows[0].weights is None else per_token(lambda row: row.weights),
        "advantages_B": torch.tensor([row.advantage for row in rows], dtype=torch.float32, device=device),
        "advantages_BT": None if rows[0].advantages is None else per_token(lambda row: row.advantages),
    }


def to_device(array: NDArray, device: torch.device | str) -> Tensor:
    """Return an array as a tensor on `device`."""
    return torch.from_numpy(array).to(device)


def micro_batches(rows: Sequence[Row], token_budget: int) -> list[list[int]]:
    """Divide rows into micro-batches of similar length.

    Args:
        rows: the rows.
        token_budget: most tokens of one padded micro-batch. A row that is longer goes alone.

    Returns:
        Indices into `rows`, each exactly once, the longest rows first: what does not fit into memory fails at
        once. To restore the order, assign the results of a micro-batch to its indices.
    """
    _check_budget(token_budget)
    lengths = [_length(row) for row in rows]
    order = sorted(range(len(rows)), key=lambda index: -lengths[index])
    pieces = []
    while order:
        size = max(1, token_budget // max(1, lengths[order[0]]))
        pieces.append(order[:size])
        order = order[size:]
    return pieces


def shared_batches(rows: Sequence[Row], token_budget: int) -> list[list[int]]:
    """Divide rows into micro-batches in which rows with the same prompt are neighbours, and their prompt counts once.

    Args:
        rows: the rows.
        token_budget: most tokens of one micro-batch. A row that is longer goes alone. With every prompt counted for
            each of its rows, as attention keeps it, there are at most `SHARED_SPREAD` times as many.

    Returns:
        Indices into `rows`, as `micro_batches` does.
    """
    _check_budget(token_budget)
    groups: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for index in sorted(range(len(rows)), key=lambda index: -len(rows[index].completion_ids)):
        groups[rows[index].prompt_ids].append(index)
    pieces: list[list[int]] = []
    room = spread = 0
    for group in sorted(groups.values(), key=lambda group: -_length(rows[group[0]])):
        if _group_cost(rows, group) > room:  # a group that is cut has its prompt computed once more
            room = 0
        for place, index in enumerate(group):
            whole, own = _length(rows[index]), len(rows[index].completion_ids)
            cost = whole if place == 0 else own
            if not pieces or cost > room or whole > spread:
                pieces.append([])
                room, spread, cost = token_budget, SHARED_SPREAD * token_budget, whole
            pieces[-1].append(index)
            room, spread = room - cost, spread - whole
    return pieces


def even_batches(
    divide: Callable[[Sequence[Row], int], list[list[int]]], rows: Sequence[Row], token_budget: int
) -> list[list[int]]:
    """Divide rows into as many micro-batches as `divide` makes, and have the largest one as small as that allows.

    A small last one takes nearly as long as a full one, and ranks that each get one would wait for who has a full one.

    Args:
        divide: `micro_batches` or `shared_batches`.
        rows: the rows.
        token_budget: most tokens of one micro-batch.
    """
    found = divide(rows, token_budget)
    low, high = 0, token_budget
    while len(found) > 1 and high - low > token_budget // EVENNESS + 1:
        middle = (low + high) // 2
        tried = divide(rows, middle)
        if len(tried) > len(found):
            low = middle
        else:
            found, high = tried, middle
    return found


def tokens_of(rows: Sequence[Row]) -> int:
    """Return how many tokens some rows are, a prompt that several share counted once."""
    return sum(map(len, {row.prompt_ids for row in rows})) + sum(len(row.completion_ids) for row in rows)


def _group_cost(rows: Sequence[Row], group: Sequence[int]) -> int:
    return len(rows[group[0]].prompt_ids) + sum(len(rows[index].completion_ids) for index in group)


def _check_budget(token_budget: int) -> None:
    if token_budget < 1:
        raise ValueError(f"token_budget must be at least 1, not {token_budget}")


def _length(row: Row) -> int:
    return len(row.prompt_ids) + len(row.completion_ids)


def _fill(mask: NDArray[np.bool_], values: chain, dtype: type) -> NDArray:
    """Return an array of zeros in which `values` stand where `mask` is True, row after row."""
    array: NDArray = np.zeros(mask.shape, dtype)
    array[mask] = np.fromiter(values, dtype, count=int(mask.sum()))
    return array


def _check(rows: Sequence[Row]) -> None:
    if not rows:
        raise ValueError("there are no rows to pad")
    for index, row in enumerate(rows):
        if not row.prompt_ids:
            raise ValueError(f"row {index} has no prompt: nothing predicts its first token. Begin with a start token")
        for name in ("ref_logprobs", "weights", "advantages"):
            if (getattr(row, name) is None) != (getattr(rows[0], name) is None):
                raise ValueError(f"only some rows have {name}: give them to all rows of a batch or to none")
        for name in ("old_logprobs", "ref_logprobs", "weights", "advantages"):
            values = getattr(row, name)
            if values is None:
                continue
            if len(values) != len(row.completion_ids):
                raise ValueError(f"row {index} has {len(row.completion_ids)} completion tokens but {len(values)} {name}")
            if not np.isfinite(values).all():
                raise ValueError(f"{name} of row {index} are not finite: the sampler's model or its temperature is at fault")
