"""A decoder of its own for models of the common block.

Dimension suffixes: N tokens of any rows, D hidden width, U unique prompts, P those of one forward pass, R rows being
sampled, L longest prompt, M most rows of a prompt, H query heads, K key-value heads, G query heads per key-value head,
W width of a head, S positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedModel

from agents.engines.common_block import LeanModel, is_common

LEAST_ROOM = 128
"""Tokens of each row for which there is room at once; what is not written to takes no memory on a CPU."""
ROUND = 64
"""Prompts are filled up to a multiple of this many tokens: oneDNN makes, and keeps, a kernel for each number that it meets."""
PREFILL_TOKENS = 4096
"""Most tokens of prompts that are computed at once, unless one prompt alone is longer."""


class LeanDecoder:
    """A `LeanModel` with the keys and values of its rows.

    Those of a prompt are kept once, [layers, 2, U, K, L, W], and read once for all of its rows; those of the tokens
    that a row adds are its own, [layers, 2, R, K, S, W]. When rows end, rows from the end of the batch take their
    places, which costs one copy per ended row, and likewise with prompts that no row needs any more.
    """

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
        self.adapter_U = torch.tensor(adapters or [0] * len(prompts), device=self.device)
        self.prompts = prompts
        self.room = room
        self.seen = 0
        length_U = torch.tensor([len(prompt) for prompt in prompts], device=self.device)
        longest = max(map(len, prompts))
        self.cos_S1W, self.sin_S1W = model.angles(longest + room)
        self.scale_X1 = torch.ones(model.heads + model.kv_heads, 1, device=self.device)
        self.scale_X1[: model.heads] = model.scale
        self.prompt_R = torch.arange(len(prompts), device=self.device).repeat_interleave(
            torch.tensor(counts, device=self.device)
        )
        self.position_R = length_U[self.prompt_R]
        self.bias_U11L: Tensor | None = None
        if len(set(map(len, prompts))) > 1:
            unseen_UL = torch.arange(longest, device=self.device) >= length_U[:, None]
            self.bias_U11L = torch.zeros(unseen_UL.shape, device=self.device).masked_fill_(unseen_UL, -torch.inf)[:, None, None]
        self.shared = self._cache(len(prompts), longest).zero_()  # what is masked has to be finite
        self.own = self._cache(len(self.prompt_R), 0)
        self._seat()

    def prefill(self) -> Tensor:
        """Compute the prompts and return the logits after them, one row for each prompt."""
        chunks = _chunks([len(prompt) for prompt in self.prompts])
        return self.model.logits(torch.cat([self._prefill(places) for places in chunks]), self.adapter_U)

    def step(self, token_R: Tensor) -> Tensor:
        """Add one token to each row and return the logits after it."""
        at, self.seen = self.seen, self.seen + 1
        if self.seen > self.own.shape[4]:
            self._grow()
        rows, heads, groups = len(token_R), self.model.kv_heads, self.model.heads // self.model.kv_heads
        own, longest = self.own[:, :, :rows], self.shared.shape[4]
        new, known = own[:, :, :, :, at], own[:, :, :, :, : self.seen].flatten(2, 3)

        def attend(layer: int, q_RHW: Tensor, k_RKW: Tensor, v_RKW: Tensor) -> Tensor:
            new[layer, 0], new[layer, 1] = k_RKW, v_RKW
            own_k_NSW, own_v_NSW = known[layer].unbind()  # N: the heads of all rows
            q_RKGW = q_RHW.reshape(rows, heads, groups, -1)
            to_own_NGS = torch.bmm(q_RKGW.flatten(0, 1), own_k_NSW.transpose(1, 2))
            score_RKGS = torch.cat([self._to_prompt(q_RKGW, layer), to_own_NGS.view(rows, heads, groups, -1)], -1)
            weight_RKGS = score_RKGS.softmax(-1)
            mixed_NGW = self._of_prompt(weight_RKGS[..., :longest], layer).flatten(0, 1)
            return mixed_NGW.baddbmm_(weight_RKGS.flatten(0, 1)[..., longest:], own_v_NSW).view(rows, -1)

        position_R, self.position_R = self.position_R, self.position_R + 1
        adapter_R = self.adapter_U[self.prompt_R]
        # The queries are scaled by the angles that they are turned by.
        cos_RXW, sin_RXW = (angle_S1W[position_R] * self.scale_X1 for angle_S1W in (self.cos_S1W, self.sin_S1W))
        return self.model.logits(self.model.forward(token_R, adapter_R, cos_RXW, sin_RXW, attend), adapter_R)

    def drop(self, ended_R: Tensor) -> Tensor:
        """Take rows out of the batch; return the places that the others had, in their new order."""
        order_R = _close(self.own[:, :, : len(ended_R), :, : self.seen], ended_R)
        self.prompt_R, self.position_R = self.prompt_R[order_R], self.position_R[order_R]
        unused_U = torch.bincount(self.prompt_R, minlength=self.shared.shape[2]) == 0
        if unused_U.any():
            order_U = _close(self.shared, unused_U)
            self.shared = self.shared[:, :, : len(order_U)]
            self.adapter_U = self.adapter_U[order_U]
            self.bias_U11L = None if self.bias_U11L is None else self.bias_U11L[order_U]
            place_U = torch.empty_like(unused_U, dtype=torch.long)
            place_U[order_U] = torch.arange(len(order_U), device=self.device)
            self.prompt_R = place_U[self.prompt_R]
        self._seat()
        return order_R

    def _prefill(self, places: Sequence[int]) -> Tensor:
        """Compute neighbouring prompts, without padding, and return the hidden state at the end of each."""
        prompts = [self.prompts[place] for place in places]
        tokens = [token for prompt in prompts for token in prompt]
        spare = -len(tokens) % ROUND
        token_N = torch.tensor(tokens + [0] * spare, device=self.device)
        position_N = F.pad(torch.cat([torch.arange(len(prompt), device=self.device) for prompt in prompts]), (0, spare))
        runs = [(length, len(list(run))) for length, run in groupby(map(len, prompts))]

        def attend(layer: int, q_NHW: Tensor, k_NKW: Tensor, v_NKW: Tensor) -> Tensor:
            mixed, place, start = [], places[0], 0
            for length, count in runs:
                part = slice(start, start := start + count * length)
                q, k, v = (x[part].unflatten(0, (count, length)).transpose(1, 2) for x in (q_NHW, k_NKW, v_NKW))
                shared = self.shared[layer, :, place : (place := place + count), :, :length]
                shared[0], shared[1] = k, v
                out = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.model.scale, enable_gqa=True)
                mixed.append(out.transpose(1, 2).flatten(0, 1))
            return F.pad(torch.cat(mixed).flatten(1), (0, 0, 0, spare))

        length_P = torch.tensor([len(prompt) for prompt in prompts], device=self.device)
        adapter_N = F.pad(self.adapter_U[places[0] : places[-1] + 1].repeat_interleave(length_P), (0, spare))
        x_ND = self.model.forward(token_N, adapter_N, self.cos_S1W[position_N], self.sin_S1W[position_N], attend)
        return x_ND[length_P.cumsum(0) - 1]

    def _to_prompt(self, q_RKGW: Tensor, layer: int) -> Tensor:
        """Return the scores of every row over its prompt: one product per prompt, for all of its rows."""
        score_UKXL = self._by_prompt(q_RKGW) @ self.shared[layer, 0].transpose(-1, -2)
        return self._by_row(score_UKXL if self.bias_U11L is None else score_UKXL.add_(self.bias_U11L))

    def _of_prompt(self, weight_RKGL: Tensor, layer: int) -> Tensor:
        """Return the sum of a prompt's values by the weights of each of its rows."""
        return self._by_row(self._by_prompt(weight_RKGL) @ self.shared[layer, 1])

    def _by_prompt(self, x_RKG: Tensor) -> Tensor:
        """Put what the rows of a prompt have side by side: (R, K, G, …) → (U, K, M · G, …)."""
        _, heads, groups, size = x_RKG.shape
        x_UMKG = x_RKG.view(-1, self.members, heads, groups, size) if self.row_UM is None else x_RKG[self.row_UM]
        return x_UMKG.transpose(1, 2).reshape(-1, heads, self.members * groups, size)

    def _by_row(self, x_UKX: Tensor) -> Tensor:
        """Give each row its own: (U, K, M · G, …) → (R, K, G, …)."""
        prompts, heads, _, size = x_UKX.shape
        x_UMKG = x_UKX.view(prompts, heads, self.members, -1, size).transpose(1, 2)
        return x_UMKG.flatten(0, 1) if self.row_UM is None else x_UMKG[self.prompt_R, self.seat_R]

    def _seat(self) -> None:
        """Number the rows of each prompt: row → its seat (`seat_R`), and back (`row_UM`, for the most rows of a prompt).

        Where all prompts have as many rows, one after another, as they do until rows end, `row_UM` is None.
        """
        rows, prompts = len(self.prompt_R), self.shared.shape[2]
        count_U = torch.bincount(self.prompt_R, minlength=prompts)
        sorted_R = self.prompt_R.argsort(stable=True)
        first_U = count_U.cumsum(0) - count_U
        self.seat_R = torch.empty_like(self.prompt_R)
        self.seat_R[sorted_R] = torch.arange(rows, device=self.device) - first_U[self.prompt_R[sorted_R]]
        self.members = int(count_U.max())
        self.row_UM: Tensor | None = None
        if rows != prompts * self.members or bool((sorted_R.diff() != 1).any()):
            self.row_UM = self.prompt_R.new_zeros(prompts, self.members)
            self.row_UM[self.prompt_R, self.seat_R] = torch.arange(rows, device=self.device)

    def _cache(self, rows: int, length: int) -> Tensor:
        model = self.model
        return model.embedding_VD.new_empty(len(model.blocks), 2, rows, model.kv_heads, length, model.width)

    def _grow(self) -> None:
        """Make room for more tokens: half as many again, which makes the copying cheap in the long run."""
        rows, held = len(self.prompt_R), self.own.shape[4]
        old, self.own = self.own[:, :, :rows], self._cache(rows, min(self.room, max(LEAST_ROOM, held + held // 2)))
        self.own[:, :, :, :, :held] = old


def _close(cache: Tensor, ended_R: Tensor) -> Tensor:
    """Move the last rows of a cache, [layers, 2, R, ...], to the places of ended ones; return which row is where now."""
    left = len(ended_R) - int(ended_R.sum())
    hole_M = ended_R[:left].nonzero()[:, 0]
    moved_M = (~ended_R[left:]).nonzero()[:, 0] + left
    cache[:, :, hole_M] = cache[:, :, moved_M]
    order_R = torch.arange(left, device=ended_R.device)
    order_R[hole_M] = moved_M
    return order_R


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
