"""The decoder of every family: the model's own forward pass, with transformers' cache.

Dimension suffixes: U unique prompts, R rows still being sampled, L length of the padded prompts, N new tokens of a
row, X positions up to the last one that can be reached.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from agents.engines.kv_cache import growing_cache


class CachedDecoder:
    """A model with the cache of its rows: computes prompts once, then one token at a time.

    Prompts are padded on the left.
    """

    LEAVE_SHARE = 8
    """Ended rows leave the batch once they are one in this many: the cache of the others is copied then."""
    ROW_STEP = 1

    def __init__(self, model: PreTrainedModel, prompts: Sequence[tuple[int, ...]], counts: Sequence[int], *, room: int) -> None:
        """Make an empty cache.

        Args:
            model: under the adapter that counts.
            prompts: the different prompts.
            counts: how many rows each of them has; the rows of a prompt are neighbours.
            room: most tokens that will be added.
        """
        self.model = model
        self.device = next(model.parameters()).device
        self.counts = counts
        self.cache = growing_cache(model.config)
        # transformers renames the argument in 5.24.
        self._cache_name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
        self.seen = length = max(map(len, prompts))
        self.position_R = torch.tensor([len(prompt) for prompt in prompts], device=self.device)
        self.ids_UL = torch.tensor([(prompt[0],) * (length - len(prompt)) + prompt for prompt in prompts], device=self.device)
        self.mask_RX = torch.arange(length + room, device=self.device)[None] >= (length - self.position_R)[:, None]
        self._padded = len(set(map(len, prompts))) > 1
        # A 4-D mask that is added to the scores is taken as it is, which is the fastest way. Sliding layers cache
        # less than the whole and cut their own mask from a 2-D one.
        self.bias_RX: Tensor | None = None
        if self._padded and model.config._attn_implementation in ("sdpa", "eager") and not any(self.cache.is_sliding):
            self.bias_RX = torch.zeros(self.mask_RX.shape, dtype=model.dtype, device=self.device).masked_fill_(
                ~self.mask_RX, -torch.inf
            )

    def prefill(self) -> Tensor:
        """Compute the prompts and return the logits after them, one row for each prompt."""
        mask_UL = self.mask_RX[:, : self.seen]
        position_UL = (mask_UL.cumsum(-1) - 1).clamp_(min=0)
        logits_UV = self._forward(self.ids_UL, mask_UL.long() if self._padded else None, position_UL)
        places = torch.arange(len(self.counts), device=self.device)
        self._select(places.repeat_interleave(torch.tensor(self.counts, device=self.device)))
        return logits_UV

    def step(self, token_R: Tensor) -> Tensor:
        """Add one token to each row and return the logits after it."""
        self.seen += 1
        position_R, self.position_R = self.position_R, self.position_R + 1
        return self._forward(token_R[:, None], self._step_mask(), position_R[:, None])

    def drop(self, ended_R: Tensor) -> Tensor:
        """Take rows out of the batch; return the places that the others had, in their new order."""
        stay_S = (~ended_R).nonzero()[:, 0]
        self._select(stay_S)
        return stay_S

    def _select(self, row_S: Tensor) -> None:
        """Go on with these rows; a row may be named more than once."""
        self.cache.reorder_cache(row_S)  # type: ignore[arg-type]  # the one selection that every kind of cache layer has
        self.mask_RX, self.position_R = self.mask_RX[row_S], self.position_R[row_S]
        if self.bias_RX is not None:
            self.bias_RX = self.bias_RX[row_S]

    def _forward(self, ids_RN: Tensor, mask: Tensor | None, position_RN: Tensor) -> Tensor:
        out = self.model(
            input_ids=ids_RN,
            attention_mask=mask,
            position_ids=position_RN,
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_name: self.cache},
        )
        return out.logits[:, -1]

    def _step_mask(self) -> Tensor | None:
        """Return which cached tokens a new one sees, in the cheapest form that the model takes."""
        if not self._padded:
            return None
        return self.mask_RX[:, : self.seen].long() if self.bias_RX is None else self.bias_RX[:, None, None, : self.seen]
