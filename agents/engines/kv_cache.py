"""A cache of keys and values that grows in place."""

from __future__ import annotations

from torch import Tensor
from transformers import DynamicCache, PreTrainedConfig
from transformers.cache_utils import DynamicLayer


def growing_cache(config: PreTrainedConfig) -> DynamicCache:
    """Return an empty cache for a model, whose full-attention layers do not copy themselves for every token.

    Layers of other kinds (sliding windows, linear attention) have a fixed size and are transformers' own.
    """
    cache = DynamicCache(config=config)
    cache.layers = [GrowingLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


class GrowingLayer(DynamicLayer):
    """A full-attention cache that writes new tokens into room at its end, where its parent copies all of it each time."""

    keys: Tensor
    values: Tensor
    _room: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object) -> tuple[Tensor, Tensor]:
        """Add the states of new tokens, shape [rows, heads, tokens, head width]; return those of all tokens."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.keys, self.values = key_states, value_states
            return key_states, value_states
        old = self.keys.shape[-2]
        new = old + key_states.shape[-2]
        if self._room is None or new > self._room[0].shape[-2]:
            self._room = _with_room(self.keys, new), _with_room(self.values, new)
        keys, values = self._room
        keys[:, :, old:new], values[:, :, old:new] = key_states, value_states
        self.keys, self.values = keys[:, :, :new], values[:, :, :new]
        return self.keys, self.values

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Go on with these rows; a row may be named more than once."""
        self._room = None
        super().reorder_cache(beam_idx)  # type: ignore[arg-type]


def _with_room(states: Tensor, length: int) -> Tensor:
    """Return a longer tensor that begins with `states`; a quarter of room makes the copying cheap in the long run."""
    roomy = states.new_empty(*states.shape[:-2], length + max(32, length // 4), states.shape[-1])
    roomy[:, :, : states.shape[-2]] = states
    return roomy
