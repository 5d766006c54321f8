"""Attention of the next token of each row, by a compiled kernel.

Dimension suffixes: R rows, U prompts, V one more than these, Y heads of queries, keys and values, H heads of queries, K of
keys, W width of a head, S positions of a row's own, L positions of the longest prompt.
"""

from __future__ import annotations

from ctypes import byref

from torch import Tensor

from agents.kernels.library import LANES, LIBRARY, Step, call, usable


def can_attend_next(keys_UKWL: Tensor) -> bool:
    """Return whether `attend_next` takes such keys of prompts."""
    return usable(keys_UKWL) and keys_UKWL.shape[2] % LANES == 0 and keys_UKWL.shape[3] % LANES == 0


def attend_next(
    qkv_RYW: Tensor,
    own_2RKSW: Tensor,
    *,
    keys_UKWL: Tensor,
    values_UKLW: Tensor,
    length_U: Tensor,
    row_R: Tensor,
    first_V: Tensor,
    seen: int,
    scale: float,
) -> Tensor:
    """Add the keys and values of one token to each row's own, and return what it attends to, shape (R, H · W).

    Args:
        qkv_RYW: of the new token, turned.
        own_2RKSW: keys and values of each row's own tokens, with room for more rows and positions; the new ones are written
            to the position `seen` − 1.
        keys_UKWL: of the prompts.
        values_UKLW: of the prompts.
        length_U: tokens of each prompt, int64.
        row_R: the rows, prompt by prompt, int64.
        first_V: where in `row_R` those of each prompt begin, and the last one's end, int64.
        seen: positions of each row's own, with the new one.
        scale: of the scores.
    """
    kv_heads, room, width = own_2RKSW.shape[2:]
    heads = qkv_RYW.shape[1] - 2 * kv_heads
    qkv_RYW = qkv_RYW.contiguous()
    out = qkv_RYW.new_empty(qkv_RYW.shape[0], heads * width)
    own_keys = own_2RKSW.data_ptr()
    step = Step(
        qkv_RYW.data_ptr(),
        own_keys,
        own_keys + own_2RKSW.stride(0) * own_2RKSW.element_size(),
        keys_UKWL.data_ptr(),
        values_UKLW.data_ptr(),
        length_U.data_ptr(),
        row_R.data_ptr(),
        first_V.data_ptr(),
        out.data_ptr(),
        scale,
        keys_UKWL.shape[0],
        heads,
        kv_heads,
        width,
        room,
        keys_UKWL.shape[3],
        seen,
    )
    call(LIBRARY.agon_decode, byref(step))
    return out
