"""Rows without padding, in which equal prompts are computed once.

All tokens of a micro-batch stand in one sequence, so that everything but attention sees no padding: first the *roots*,
then the *branches*, then a few tokens that fill it up. A prompt of several rows is a root, and what these rows add to it
are its branches; a row whose prompt is its own is a root as a whole. Only attention tells the rows apart: a root sees
itself, a branch sees its root and itself. This needs full attention in every layer, of which `can_pack` makes sure; other
models are padded.

Dimension suffixes: `S` tokens of all rows, `N` completion tokens of all rows, `T` positions of the completion, `U`
roots, `P` positions of the longest root, `R` branches, `L` positions of the longest branch; `H` heads, `W` width of a
head, `D` width of the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from transformers import AttentionInterface

from agents.kernels.attention import Runs, attend_runs, can_attend
from algos.learning.batching import Completions, completion_tensors, pad_rows, to_device
from algos.types import Row

ROUND = 64
"""Sequences are filled up to a multiple of this: oneDNN makes, and keeps, a kernel of half a megabyte for each number of
tokens that a layer meets, which takes as long as to multiply a hundred of them."""
ATTENTION = "agon_packed"
"""The name under which transformers knows the attention of packed rows."""
ODD = ("sliding_window", "softcap", "s_aux", "position_bias", "head_mask")
"""What models may ask of their attention beyond what packed rows have."""


class NotPackable(RuntimeError):
    """The model's attention is not that of packed rows."""


@dataclass(frozen=True)
class Spans:
    """Runs of neighbouring tokens, and where each of them is in a padded batch of runs."""

    tokens_BL: Tensor
    """Place in the sequence of each position of each run; at the padding, that of some token of the run."""
    places_M: Tensor
    """Place in the flattened padded batch of each token, run after run."""
    padding_BL: Tensor
    """True at the padding."""
    first: int
    """Place in the sequence of the first token."""

    @classmethod
    def of(cls, lengths: Sequence[int], *, first: int, device: torch.device | str) -> Spans:
        """Return runs of these lengths, of which the first one begins at the token `first`."""
        lengths_B = np.array(lengths)[:, None]
        starts_B = first + lengths_B.cumsum()[:, None] - lengths_B
        steps_L = np.arange(lengths_B.max())
        padding_BL = steps_L >= lengths_B
        return cls(
            to_device(starts_B + np.minimum(steps_L, lengths_B - 1), device),
            to_device(np.flatnonzero(~padding_BL), device),
            to_device(padding_BL, device),
            first,
        )

    def spread(self, x_SHW: Tensor) -> Tensor:
        """Return the runs side by side, shape (B, H, L, W)."""
        return _Spread.apply(x_SHW, self).transpose(1, 2)

    def gather(self, x_BHLW: Tensor) -> Tensor:
        """Return the tokens of all runs, one after another, shape (M, H, W)."""
        return _Gather.apply(x_BHLW.transpose(1, 2), self)


@dataclass(frozen=True)
class Layout:
    """Which token belongs to which root and branch."""

    roots: Spans
    branches: Spans | None
    """None where no prompt is shared."""
    owner_R: Tensor
    """The root of each branch."""
    bias_R1LX: Tensor | None
    """Added to the scores of a branch over its root and itself, X = P + L: 0 where it looks, −inf elsewhere. One for
    all branches where their roots are of one length."""
    runs: Runs
    """The same for the compiled kernel."""


@dataclass(frozen=True, kw_only=True)
class PackedRows(Completions):
    """Rows one after another."""

    input_ids_1S: Tensor
    position_ids_1S: Tensor
    """A branch goes on where its root ends."""
    predicts_N: Tensor
    """Where in the sequence each completion token is predicted."""
    layout: Layout

    def predictors(self, decoder: nn.Module) -> Tensor:
        """Run the decoder on the packed rows."""
        with packed_attention(decoder):
            hidden_1SD = decoder(
                input_ids=self.input_ids_1S, position_ids=self.position_ids_1S, use_cache=False, packed_layout=self.layout
            ).last_hidden_state
        return hidden_1SD[0].index_select(0, self.predicts_N)


def pack_rows(rows: Sequence[Row], *, dtype: torch.dtype, device: torch.device | str = "cpu") -> PackedRows:
    """Pack rows; those with the same prompt share it.

    The last token of a row is not among the inputs: nothing follows that it would predict.

    Args:
        rows: see `algos.learning.batching.pad_rows`.
        dtype: of the model's activations.
        device: where the tensors go.
    """
    completions = completion_tensors(rows, device=device)
    shared = {prompt for prompt, count in Counter(row.prompt_ids for row in rows).items() if count > 1}
    roots: dict[Any, tuple[int, ...]] = {}  # by prompt where it is shared, else by the number of the row
    for index, row in enumerate(rows):
        key = row.prompt_ids if row.prompt_ids in shared else index
        roots.setdefault(key, row.prompt_ids if row.prompt_ids in shared else row.prompt_ids + row.completion_ids[:-1])
    lengths = [len(root) for root in roots.values()]
    starts = dict(zip(roots, np.cumsum([0, *lengths]).tolist(), strict=False))
    tokens, positions = [*chain.from_iterable(roots.values())], [*chain.from_iterable(range(length) for length in lengths)]
    predicts: list[int] = []
    owners, branches = [], []
    places = {key: place for place, key in enumerate(roots)}
    for index, row in enumerate(rows):
        said = row.completion_ids[:-1]
        if row.prompt_ids not in shared:
            first = starts[index] + len(row.prompt_ids) - 1
            predicts += range(first, first + len(row.completion_ids))
            continue
        if row.completion_ids:
            predicts.append(starts[row.prompt_ids] + len(row.prompt_ids) - 1)
        if said:
            predicts += range(len(tokens), len(tokens) + len(said))
            tokens += said
            positions += range(len(row.prompt_ids), len(row.prompt_ids) + len(said))
            owners.append(places[row.prompt_ids])
            branches.append(len(said))
    spare = -len(tokens) % ROUND
    return PackedRows(
        input_ids_1S=to_device(np.array([tokens + tokens[:1] * spare]), device),
        position_ids_1S=to_device(np.array([positions + [0] * spare]), device),
        predicts_N=to_device(np.array(predicts, dtype=np.int64), device),
        layout=_layout(lengths, owners, branches, dtype=dtype, device=device),
        **completions,
    )


@contextmanager
def packed_attention(decoder: nn.Module) -> Iterator[None]:
    """Have the model attend as packed rows need it; also around a backward pass that computes layers again."""
    config: Any = decoder.config
    before = config._attn_implementation
    config._attn_implementation = ATTENTION
    try:
        yield
    finally:
        config._attn_implementation = before


@torch.no_grad()
def can_pack(decoder: nn.Module) -> bool:
    """Return whether packed rows give the hidden states that padded ones give.

    The configuration must speak of full attention alone, since a window shows in long texts only. Then a few tokens are
    computed in both ways, because a model may do something to its attention that is not known here.
    """
    config: Any = decoder.config
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if config._attn_implementation != "sdpa" or kinds != {"full_attention"} or getattr(config, "sliding_window", None):
        return False
    weight = next(decoder.parameters())
    ids = [index % config.vocab_size for index in range(1, 12)]
    rows = [
        Row(tuple(ids[:low]), tuple(ids[low:high]), (0.0,) * (high - low), 0.0)
        for low, high in ((3, 8), (3, 11), (5, 7), (3, 4))
    ]
    try:
        packed_ND = pack_rows(rows, dtype=weight.dtype, device=weight.device).predictors(decoder)
    except (NotPackable, TypeError):
        return False
    padded_ND = pad_rows(rows, device=weight.device).predictors(decoder)
    tolerance = 1e-3 if weight.dtype == torch.float32 else 0.1
    return bool((packed_ND - padded_ND).abs().max() <= tolerance * padded_ND.abs().max())


def _attend(
    module: nn.Module,
    q_1HSW: Tensor,
    k_1HSW: Tensor,
    v_1HSW: Tensor,
    attention_mask: Tensor | None,
    *,
    packed_layout: Layout | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **odd: Any,
) -> tuple[Tensor, None]:
    """Return what each token attends to, shape (1, S, H, W), in the form that transformers asks for."""
    if packed_layout is None or attention_mask is not None or any(odd.get(name) is not None for name in ODD):
        raise NotPackable(f"{type(module).__name__} wants more of its attention than packed rows have")
    layout = packed_layout
    attend = partial(
        F.scaled_dot_product_attention, scale=scaling, dropout_p=dropout, enable_gqa=q_1HSW.shape[1] != k_1HSW.shape[1]
    )
    q_SHW, k_SHW, v_SHW = (x[0].transpose(0, 1) for x in (q_1HSW, k_1HSW, v_1HSW))
    q_U, k_U, v_U = (layout.roots.spread(x) for x in (q_SHW, k_SHW, v_SHW))
    mixed = [layout.roots.gather(attend(q_U, k_U, v_U, is_causal=True))]
    if layout.branches is not None:
        q_R, k_R, v_R = (layout.branches.spread(x) for x in (q_SHW, k_SHW, v_SHW))
        k_R, v_R = (torch.cat([root.index_select(0, layout.owner_R), own], 2) for root, own in ((k_U, k_R), (v_U, v_R)))
        mixed.append(layout.branches.gather(attend(q_R, k_R, v_R, attn_mask=layout.bias_R1LX)))
    mixed.append(q_SHW.new_zeros(len(q_SHW) - sum(map(len, mixed)), *q_SHW.shape[1:]))  # of the tokens that fill up
    return torch.cat(mixed)[None], None


def _attend_joint(
    qkv_1SYW: Tensor, *, packed_layout: Layout | None = None, kv_heads: int, scaling: float, **odd: Any
) -> Tensor | None:
    """Return what `_attend` would, from queries, keys and values in one tensor; None where there is no faster way for that."""
    if packed_layout is None or odd.get("dropout") or any(odd.get(name) is not None for name in ("attention_mask", *ODD)):
        return None
    if not can_attend(qkv_1SYW):
        return None
    return attend_runs(qkv_1SYW[0], packed_layout.runs, kv_heads=kv_heads, scale=scaling)[None]


_attend.joint = _attend_joint  # type: ignore[attr-defined]
AttentionInterface.register(ATTENTION, _attend)


def _layout(
    roots: Sequence[int], owners: Sequence[int], branches: Sequence[int], *, dtype: torch.dtype, device: torch.device | str
) -> Layout:
    spans_U = Spans.of(roots, first=0, device=device)
    owner_R = torch.tensor(owners, dtype=torch.long, device=device)
    runs = Runs.of(roots, owners, branches)
    if not branches:
        return Layout(spans_U, None, owner_R, None, runs)
    longest_P, longest_L = max(roots), max(branches)
    seen_R = np.array(roots)[owners]
    seen_R = seen_R[:1] if (seen_R == seen_R[0]).all() else seen_R
    steps_L = np.arange(longest_L)
    hidden_RLX: NDArray[np.bool_] = np.empty((len(seen_R), longest_L, longest_P + longest_L), bool)
    hidden_RLX[:, :, :longest_P] = (np.arange(longest_P) >= seen_R[:, None])[:, None]
    hidden_RLX[:, :, longest_P:] = steps_L > steps_L[:, None]
    bias_RLX = torch.zeros(hidden_RLX.shape, dtype=dtype, device=device)
    bias_RLX.masked_fill_(to_device(hidden_RLX, device), -torch.inf)
    return Layout(spans_U, Spans.of(branches, first=sum(roots), device=device), owner_R, bias_RLX[:, None], runs)


class _Spread(torch.autograd.Function):
    """Tokens → padded runs. Both directions copy rows: a token has one place, so that nothing needs to be added up."""

    @staticmethod
    def forward(ctx: Any, x_SHW: Tensor, spans: Spans) -> Tensor:
        ctx.spans, ctx.tokens = spans, len(x_SHW)
        return x_SHW.index_select(0, spans.tokens_BL.flatten()).unflatten(0, spans.tokens_BL.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BLHW: Tensor) -> tuple[Tensor, None]:
        spans: Spans = ctx.spans
        grad_SHW = grad_BLHW.new_zeros(ctx.tokens, *grad_BLHW.shape[2:])
        torch.index_select(
            grad_BLHW.flatten(0, 1), 0, spans.places_M, out=grad_SHW[spans.first : spans.first + len(spans.places_M)]
        )
        return grad_SHW, None


class _Gather(torch.autograd.Function):
    """Padded runs → tokens."""

    @staticmethod
    def forward(ctx: Any, x_BLHW: Tensor, spans: Spans) -> Tensor:
        ctx.spans = spans
        return x_BLHW.flatten(0, 1).index_select(0, spans.places_M)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_MHW: Tensor) -> tuple[Tensor, None]:
        spans: Spans = ctx.spans
        grad_BLHW = grad_MHW.index_select(0, (spans.tokens_BL - spans.first).flatten()).unflatten(0, spans.tokens_BL.shape)
        return grad_BLHW.masked_fill_(spans.padding_BL[:, :, None, None], 0), None
