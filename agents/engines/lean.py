"""A decoder of its own for models of the common block.

Dimension suffixes: N tokens of any rows, D hidden width, U unique prompts, P those of one forward pass, R rows being
sampled, L tokens of a prompt, H query heads, K key-value heads, Y heads of queries, keys and values, W width of a head, V
vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedModel

from agents.engines.common_block import LeanModel, is_common
from agents.engines.row_cache import RowCache

ROUND = 64
"""Prompts are filled up to a multiple of this many tokens: oneDNN makes, and keeps, a kernel for each number that it meets."""
PREFILL_TOKENS = 4096
"""Most tokens of prompts that are computed at once, unless one prompt alone is longer."""


class LeanDecoder:
    """A `LeanModel` with the keys and values of its rows."""

    LEAVE_SHARE = 32
    """Ended rows leave the batch once they are one in this many."""
    ROW_STEP = 4

    def __init__(
        self,
        model: LeanModel,
        prompts: Sequence[tuple[int, ...]],
        counts: Sequence[int],
        *,
        room: int,
        adapters: Sequence[int] | None = None,
    ) -> None:
        """Make empty caches.

        Args:
            model: the weights.
            prompts: the different prompts; a prompt may come once under each adapter.
            counts: how many rows each of them has; the rows of a prompt are neighbours.
            room: most tokens that will be added.
            adapters: the place of each prompt's adapter among those of the model; None is the first for all.
        """
        self.model = model
        self.device = model.embedding_VD.device
        self.prompts = prompts
        lengths = list(map(len, prompts))
        self.angles = model.angles(max(lengths) + room)
        self.adapter_U = torch.tensor(adapters or [0] * len(prompts), device=self.device)
        self.cache = RowCache(
            model.embedding_VD,
            lengths,
            counts,
            layers=len(model.blocks),
            kv_heads=model.kv_heads,
            width=model.width,
            room=room,
            scale=model.scale,
        )
        self.adapter_R = self.adapter_U[self.cache.prompt_R]
        self.position_R = self.cache.length_U[self.cache.prompt_R]

    def prefill(self) -> Tensor:
        """Compute the prompts and return the logits after them, one row for each prompt."""
        chunks = _chunks([len(prompt) for prompt in self.prompts])
        return self.model.logits(torch.cat([self._prefill(places) for places in chunks]), self.adapter_U)

    def step(self, token_R: Tensor) -> Tensor:
        """Add one token to each row and return the logits after it."""
        self.cache.advance()
        angles, self.position_R = self.angles.at(self.position_R), self.position_R + 1
        x_RD = self.model.forward(token_R, self.adapter_R, angles, self.cache.attend)
        return self.model.logits(x_RD, self.adapter_R)

    def drop(self, ended_R: Tensor) -> Tensor:
        """Take rows out of the batch; return the places that the others had, in their new order."""
        order_R = self.cache.drop(ended_R)
        self.position_R, self.adapter_R = self.position_R[order_R], self.adapter_R[order_R]
        return order_R

    def _prefill(self, places: Sequence[int]) -> Tensor:
        """Compute neighbouring prompts, without padding, and return the hidden state at the end of each."""
        prompts = [self.prompts[place] for place in places]
        lengths = list(map(len, prompts))
        tokens = [token for prompt in prompts for token in prompt]
        spare = -len(tokens) % ROUND
        token_N = torch.tensor(tokens + [0] * spare, device=self.device)
        position_N = F.pad(torch.cat([torch.arange(length, device=self.device) for length in lengths]), (0, spare))
        length_P = torch.tensor(lengths, device=self.device)
        adapter_N = F.pad(self.adapter_U[places[0] : places[-1] + 1].repeat_interleave(length_P), (0, spare))
        attend = partial(self.cache.attend_prompts, first=places[0], lengths=lengths)
        x_ND = self.model.forward(token_N, adapter_N, self.angles.at(position_N), attend)
        return x_ND[length_P.cumsum(0) - 1]


def fits(model: PreTrainedModel, adapter: str | None, *, scratch_bytes: int) -> bool:
    """Return whether the lean forward pass equals the model's own, under the adapter that is active.

    Two models may be made of the same modules and multiply them otherwise, so a few tokens are computed in both ways.
    """
    if model not in _FITS:
        _FITS[model] = is_common(model) and _agrees(model, LeanModel(model, [adapter], scratch_bytes=scratch_bytes))
    return _FITS[model]


_FITS: WeakKeyDictionary[PreTrainedModel, bool] = WeakKeyDictionary()


def _agrees(model: PreTrainedModel, lean: LeanModel) -> bool:
    token_N = torch.arange(9, device=lean.embedding_VD.device) * 7 % len(lean.embedding_VD)
    own_V = model(input_ids=token_N[None], use_cache=False).logits[0, -1]
    decoder = LeanDecoder(lean, [tuple(token_N[:-1].tolist())], [1], room=1)
    decoder.prefill()
    lean_V = decoder.step(token_N[-1:])[0]
    return bool((own_V - lean_V).abs().max() <= 1e-3 * own_V.abs().max())


def _chunks(lengths: Sequence[int]) -> list[list[int]]:
    """Cut neighbouring prompts into runs of at most `PREFILL_TOKENS` tokens, at least one prompt each."""
    chunks: list[list[int]] = []
    tokens = 0
    for place, length in enumerate(lengths):
        if not chunks or tokens + length > PREFILL_TOKENS:
            chunks.append([])
            tokens = 0
        chunks[-1].append(place)
        tokens += length
    return chunks
