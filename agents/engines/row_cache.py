"""The keys and values of rows that share prompts, and the attention of their next tokens.

Dimension suffixes: N tokens of prompts, U prompts, V one more than these, R rows being sampled, L longest prompt, M most rows
of a prompt, H query heads, K key-value heads, G query heads per key-value head, Y heads of queries, keys and values, W width
of a head, S positions of a row's own tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor
from torch.nn import functional as F

from agents.kernels.attention import Runs, attend_runs
from agents.kernels.decoding import attend_next, can_attend_next
from agents.kernels.library import LANES

LEAST_ROOM = 128
"""Tokens of each row for which there is room at once; what is not written to takes no memory on a CPU."""


class RowCache:
    """Keys and values of prompts, kept once and read once for all of their rows, and of the tokens that each row adds.

    When rows end, rows from the end of the batch take their places, which costs one copy per ended row, and likewise with
    prompts that no row needs any more.
    """

    def __init__(
        self,
        like: Tensor,
        lengths: Sequence[int],
        counts: Sequence[int],
        *,
        layers: int,
        kv_heads: int,
        width: int,
        room: int,
        scale: float,
    ) -> None:
        """Make empty caches.

        Args:
            like: a tensor of the type and on the device of the keys.
            lengths: tokens of each prompt.
            counts: rows of each prompt; they are neighbours.
            layers: of the model.
            kv_heads: heads of the keys, and of the values.
            width: of a head.
            room: most tokens that a row will add.
            scale: of the scores.
        """
        self.kv_heads, self.width, self.room, self.scale = kv_heads, width, room, scale
        self.seen = 0
        self.length_U = torch.tensor(lengths, device=like.device)
        self.prompt_R = torch.arange(len(lengths), device=like.device).repeat_interleave(
            torch.tensor(counts, device=like.device)
        )
        self.longest = -(-max(lengths) // LANES) * LANES
        # [layers, keys and values, …]; the keys of prompts have their positions last. What is masked has to be finite.
        self.shared = like.new_zeros(layers, 2, len(lengths), kv_heads, self.longest * width)
        self.own = like.new_empty(layers, 2, len(self.prompt_R), kv_heads, 0, width)
        self._view_prompts()
        self.is_compiled = can_attend_next(self.prompts[0][0])
        self._seat()

    def write_prompts(self, layer: int, first: int, k_UKLW: Tensor, v_UKLW: Tensor) -> None:
        """Keep the keys and values of neighbouring prompts of one length, of which one has the number `first`."""
        part, length = slice(first, first + len(k_UKLW)), k_UKLW.shape[2]
        keys_UKWL, values_UKLW = self.prompts[layer]
        keys_UKWL[part, ..., :length] = k_UKLW.mT
        values_UKLW[part, :, :length] = v_UKLW

    def attend_prompts(self, layer: int, qkv_NYW: Tensor, *, first: int, lengths: Sequence[int]) -> Tensor:
        """Keep the keys and values of neighbouring prompts and return what their tokens attend to, shape (N, H · W).

        Args:
            layer: of the model.
            qkv_NYW: of the tokens of all of them, end to end; what comes after them gets zeros.
            first: the number of the first prompt.
            lengths: tokens of each.
        """
        heads, mixed, start = qkv_NYW.shape[1] - 2 * self.kv_heads, [], 0
        for length, run in groupby(lengths):
            count = len(list(run))
            part = qkv_NYW[start : (start := start + count * length)].unflatten(0, (count, length)).transpose(1, 2)
            q, k, v = part.split([heads, self.kv_heads, self.kv_heads], 1)
            self.write_prompts(layer, first, k, v)
            first += count
            if not self.is_compiled:
                out = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale, enable_gqa=True)
                mixed.append(out.transpose(1, 2).flatten(0, 1))
        if self.is_compiled:
            return attend_runs(qkv_NYW, Runs.of(lengths, [], []), kv_heads=self.kv_heads, scale=self.scale).flatten(1)
        return F.pad(torch.cat(mixed).flatten(1), (0, 0, 0, len(qkv_NYW) - start))

    def advance(self) -> None:
        """Make room for one more token of each row.

        Raises:
            IndexError: the rows have as many as there was to be room for.
        """
        if self.seen == self.room:
            raise IndexError(f"each row has its {self.room} tokens already; make the cache with more room")
        self.seen += 1
        held = self.own.shape[4]
        if self.seen > held:  # half as many again, which makes the copying cheap in the long run
            layers, _, _, kv_heads, _, width = self.own.shape
            rows, room = len(self.prompt_R), min(self.room, max(LEAST_ROOM, held + held // 2))
            old, self.own = self.own[:, :, :rows], self.own.new_empty(layers, 2, rows, kv_heads, room, width)
            self.own[:, :, :, :, :held] = old

    def attend(self, layer: int, qkv_RYW: Tensor) -> Tensor:
        """Keep the keys and values of the rows' new tokens and return what these attend to, shape (R, H · W)."""
        keys_UKWL, values_UKLW = self.prompts[layer]
        if self.is_compiled:
            return attend_next(
                qkv_RYW,
                self.own[layer],
                keys_UKWL=keys_UKWL,
                values_UKLW=values_UKLW,
                length_U=self.length_U,
                row_R=self.row_R,
                first_V=self.first_V,
                seen=self.seen,
                scale=self.scale,
            )
        rows, heads, groups = len(qkv_RYW), self.kv_heads, qkv_RYW.shape[1] // self.kv_heads - 2
        q_RHW, k_RKW, v_RKW = qkv_RYW.split([heads * groups, heads, heads], 1)
        own_RKSW = self.own[layer, :, :rows]
        own_RKSW[0, :, :, self.seen - 1], own_RKSW[1, :, :, self.seen - 1] = k_RKW, v_RKW
        own_k_NSW, own_v_NSW = own_RKSW[:, :, :, : self.seen].flatten(1, 2)  # N: the heads of all rows
        q_RKGW = (q_RHW * self.scale).view(rows, heads, groups, -1)
        to_prompt_UKXL = self._by_prompt(q_RKGW) @ keys_UKWL
        if self.bias_U11L is not None:
            to_prompt_UKXL += self.bias_U11L
        to_own_NGS = torch.bmm(q_RKGW.flatten(0, 1), own_k_NSW.mT)
        score_RKGS = torch.cat([self._by_row(to_prompt_UKXL), to_own_NGS.view(rows, heads, groups, -1)], -1)
        weight_RKGS = score_RKGS.softmax(-1)
        mixed_RKGW = self._by_row(self._by_prompt(weight_RKGS[..., : self.longest]) @ values_UKLW)
        mixed_NGW = mixed_RKGW.flatten(0, 1)
        return mixed_NGW.baddbmm_(weight_RKGS.flatten(0, 1)[..., self.longest :], own_v_NSW).view(rows, -1)

    def drop(self, ended_R: Tensor) -> Tensor:
        """Take rows out of the batch; return the places that the others had, in their new order."""
        order_R = _close(self.own[:, :, : len(ended_R), :, : self.seen], ended_R)
        self.prompt_R = self.prompt_R[order_R]
        unused_U = torch.bincount(self.prompt_R, minlength=self.shared.shape[2]) == 0
        if unused_U.any():
            order_U = _close(self.shared, unused_U)
            self.shared = self.shared[:, :, : len(order_U)]
            self.length_U = self.length_U[order_U]
            place_U = torch.empty_like(unused_U, dtype=torch.long)
            place_U[order_U] = torch.arange(len(order_U), device=order_U.device)
            self.prompt_R = place_U[self.prompt_R]
            self._view_prompts()
        self._seat()
        return order_R

    def _view_prompts(self) -> None:
        """Take the cache of the prompts apart into the keys (U, K, W, L) and values (U, K, L, W) of each layer."""
        self.prompts = [
            (keys.unflatten(-1, (self.width, self.longest)), values.unflatten(-1, (self.longest, self.width)))
            for keys, values in self.shared
        ]

    def _seat(self) -> None:
        """Sort the rows by their prompts, and number those of each prompt."""
        device, prompts = self.prompt_R.device, self.shared.shape[2]
        count_U = torch.bincount(self.prompt_R, minlength=prompts)
        self.row_R = self.prompt_R.argsort(stable=True)
        self.first_V = F.pad(count_U.cumsum(0), (1, 0))
        if self.is_compiled:
            return
        unseen_UL = torch.arange(self.longest, device=device) >= self.length_U[:, None]
        self.bias_U11L = None
        if bool(unseen_UL.any()):
            self.bias_U11L = self.shared.new_zeros(unseen_UL.shape).masked_fill_(unseen_UL, -torch.inf)[:, None, None]
        self.seat_R = torch.empty_like(self.prompt_R)
        self.seat_R[self.row_R] = torch.arange(len(self.row_R), device=device) - self.first_V[self.prompt_R[self.row_R]]
        self.members = int(count_U.max())
        # Where all prompts have as many rows, one after another, as they do until rows end, nothing has to be moved.
        self.row_UM: Tensor | None = None
        if len(self.row_R) != prompts * self.members or bool((self.row_R.diff() != 1).any()):
            self.row_UM = self.prompt_R.new_zeros(prompts, self.members)
            self.row_UM[self.prompt_R, self.seat_R] = torch.arange(len(self.row_R), device=device)

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


def _close(cache: Tensor, ended_R: Tensor) -> Tensor:
    """Move the last rows of a cache, [layers, 2, R, ...], to the places of ended ones; return which row is where now."""
    left = len(ended_R) - int(ended_R.sum())
    hole_M = ended_R[:left].nonzero()[:, 0]
    moved_M = (~ended_R[left:]).nonzero()[:, 0] + left
    cache[:, :, hole_M] = cache[:, :, moved_M]
    order_R = torch.arange(left, device=ended_R.device)
    order_R[hole_M] = moved_M
    return order_R
