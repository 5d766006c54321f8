"""A decoder of its own for the common block: RMS norm, rotary attention, gated MLP, as in Llama, Qwen2 and Qwen3.

A step of one token costs more in Python than in arithmetic when it goes through the modules of transformers and
PEFT. Here a step is a dozen tensor operations per layer, on weights laid out for it (see `projections`). Which models
are of that kind is read off their modules, and then proved by comparing logits with their own forward pass.

Dimension suffixes: N tokens of any rows, D hidden width, U unique prompts, R rows being sampled, L longest prompt,
H query heads, K key-value heads, G query heads per key-value head, W width of a head, S cached positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from agents.engines.projections import Projection, can_pack, linear_of, project

PREFILL_TOKENS = 4096
"""Most tokens of prompts that are computed at once, unless one prompt alone is longer."""

_FIXED_ROTARY = ("default", "linear", "llama3", "yarn")
"""Kinds of rotary embedding whose angles do not depend on the length of the text."""

Attend: TypeAlias = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, queries [N, H, W], keys [N, K, W], values [N, K, W]) → what each token attends to, [N, H · W]."""


@dataclass(frozen=True)
class Norm:
    """Root-mean-square normalisation of the last dimension."""

    weight: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise."""
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


@dataclass(frozen=True)
class Block:
    """The weights of one layer."""

    norm: Norm
    qkv: Projection
    q_norm: Norm | None
    k_norm: Norm | None
    out: Projection
    mlp_norm: Norm
    gate_up: Projection
    act: Callable[[Tensor], Tensor]
    down: Projection


class LeanModel:
    """The weights of a model under one adapter, laid out for decoding."""

    def __init__(self, model: PreTrainedModel, adapter: str | None, *, scratch_bytes: int) -> None:
        """Lay out the weights of a model that `is_common` accepts.

        Args:
            model: the shared base.
            adapter: the adapter that counts, or None.
            scratch_bytes: most memory for a copy of the weights; a larger model's are used where they are.
        """
        decoder, head = model.get_decoder(), model.get_output_embeddings()
        copied = sum(linear.weight.nbytes for module in (*decoder.layers.modules(), head) if (linear := linear_of(module)))
        merge = can_pack(decoder.embed_tokens.weight) and copied <= scratch_bytes
        attention = decoder.layers[0].self_attn
        self.width: int = attention.head_dim
        self.kv_heads = _outputs(attention.k_proj) // self.width
        self.heads = _outputs(attention.q_proj) // self.width
        self.scale: float = attention.scaling
        self.rotary = decoder.rotary_emb
        self.embedding_VD = decoder.embed_tokens.weight.detach()
        self.norm = _norm(decoder.norm)
        self.blocks = [_block(layer, adapter, merge=merge) for layer in decoder.layers]
        self.head = project([head], adapter, merge=merge)

    def angles(self, length: int) -> tuple[Tensor, Tensor]:
        """Return the cosines and the signed sines of the positions below `length`, each [length, 1, W]."""
        position_1S = torch.arange(length, device=self.embedding_VD.device)[None]
        cos_1SW, sin_1SW = self.rotary(self.embedding_VD[:1], position_1S)
        sign_W = torch.ones(self.width, device=sin_1SW.device, dtype=sin_1SW.dtype)
        sign_W[: self.width // 2] = -1
        return cos_1SW[0, :, None], (sin_1SW * sign_W)[0, :, None]

    def forward(self, token_N: Tensor, cos_N1W: Tensor, sin_N1W: Tensor, attend: Attend) -> Tensor:
        """Return the hidden states of some tokens before the last norm, shape [N, D]."""
        both = self.heads + self.kv_heads
        x_ND = self.embedding_VD[token_N]
        for index, block in enumerate(self.blocks):
            qkv_NXW = block.qkv(block.norm(x_ND)).view(len(token_N), -1, self.width)
            qk_NXW, v_NKW = qkv_NXW[:, :both], qkv_NXW[:, both:]
            if block.q_norm is not None and block.k_norm is not None:
                qk_NXW = torch.cat([block.q_norm(qk_NXW[:, : self.heads]), block.k_norm(qk_NXW[:, self.heads :])], 1)
            qk_NXW = torch.addcmul(qk_NXW * cos_N1W, qk_NXW.roll(self.width // 2, -1), sin_N1W)
            mixed_NX = attend(index, qk_NXW[:, : self.heads], qk_NXW[:, self.heads :], v_NKW)
            x_ND = block.out(mixed_NX, x_ND)
            gate_NI, up_NI = block.gate_up(block.mlp_norm(x_ND)).chunk(2, -1)
            x_ND = block.down(block.act(gate_NI) * up_NI, x_ND)
        return x_ND

    def logits(self, x_ND: Tensor) -> Tensor:
        """Return the logits that follow from hidden states, shape [N, V]."""
        return self.head(self.norm(x_ND))


class LeanDecoder:
    """A `LeanModel` with the keys and values of its rows.

    The cache is one tensor, [layers, 2, R, K, S, W]. Prompts end at the same place, short ones begin later, so that
    every row writes its next token to the same position. When rows end, rows from the end of the batch take their
    places, which costs one copy per ended row.
    """

    LEAVE_SHARE = 64
    """Ended rows leave the batch once they are one in this many."""

    def __init__(self, model: LeanModel, prompts: Sequence[tuple[int, ...]], counts: Sequence[int], *, room: int) -> None:
        """Make an empty cache.

        Args:
            model: the weights.
            prompts: the different prompts.
            counts: how many rows each of them has; the rows of a prompt are neighbours.
            room: most tokens that will be added.
        """
        self.model = model
        self.prompts = prompts
        self.device = model.embedding_VD.device
        self.length = self.seen = max(map(len, prompts))
        self.last = self.length + room
        self.rows = sum(counts)
        self.first_U = [sum(counts[:place]) for place in range(len(counts) + 1)]
        self.cos_S1W, self.sin_S1W = model.angles(self.last)
        length_U = torch.tensor([len(prompt) for prompt in prompts], device=self.device)
        self.position_R = length_U.repeat_interleave(torch.tensor(counts, device=self.device))
        self.bias_RS: Tensor | None = None
        if len(set(map(len, prompts))) > 1:
            unseen_RS = torch.arange(self.last, device=self.device) < (self.length - self.position_R)[:, None]
            self.bias_RS = torch.zeros(unseen_RS.shape, device=self.device, dtype=model.embedding_VD.dtype)
            self.bias_RS.masked_fill_(unseen_RS, -torch.inf)
        self.cache = self._new_cache(self.rows, self.length)

    def prefill(self) -> Tensor:
        """Compute the prompts and return the logits after them, one row for each prompt."""
        hidden, places = [], range(len(self.prompts))
        for chunk in _chunks(places, lambda place: len(self.prompts[place])):
            hidden.append(self._prefill(chunk))
        return self.model.logits(torch.cat(hidden))

    def step(self, token_R: Tensor) -> Tensor:
        """Add one token to each row and return the logits after it."""
        at, self.seen = self.seen, self.seen + 1
        if self.seen > self.cache.shape[4]:
            self._grow()
        groups = self.model.heads // self.model.kv_heads
        live = self.cache[:, :, : self.rows]
        new, old = live[:, :, :, :, at], live[:, :, :, :, : self.seen]
        bias = None if self.bias_RS is None else self.bias_RS[:, None, None, : self.seen]

        def attend(layer: int, q_RHW: Tensor, k_RKW: Tensor, v_RKW: Tensor) -> Tensor:
            new[layer, 0], new[layer, 1] = k_RKW, v_RKW
            q_RKGW = q_RHW.unflatten(1, (-1, groups))
            k_RKSW, v_RKSW = old[layer].unbind()
            mixed_RKGW = F.scaled_dot_product_attention(q_RKGW, k_RKSW, v_RKSW, attn_mask=bias, scale=self.model.scale)
            return mixed_RKGW.reshape(self.rows, -1)

        position_R, self.position_R = self.position_R, self.position_R + 1
        return self.model.logits(self.model.forward(token_R, self.cos_S1W[position_R], self.sin_S1W[position_R], attend))

    def drop(self, ended_R: Tensor) -> Tensor:
        """Take rows out of the batch; return the places that the others had, in their new order."""
        left = self.rows - int(ended_R.sum())
        order_R = torch.arange(left, device=self.device)
        hole_M = ended_R[:left].nonzero()[:, 0]
        moved_M = (~ended_R[left:]).nonzero()[:, 0] + left
        order_R[hole_M] = moved_M
        used = self.cache[:, :, :, :, : self.seen]
        used[:, :, hole_M] = used[:, :, moved_M]
        self.rows = left
        self.position_R = self.position_R[order_R]
        self.bias_RS = None if self.bias_RS is None else self.bias_RS[order_R]
        return order_R

    def _prefill(self, places: Sequence[int]) -> Tensor:
        """Compute some prompts, without padding, and return the hidden state at the end of each."""
        prompts = [self.prompts[place] for place in places]
        token_N = torch.tensor([token for prompt in prompts for token in prompt], device=self.device)
        position_N = torch.cat([torch.arange(len(prompt), device=self.device) for prompt in prompts])
        runs = [(length, list(run)) for length, run in groupby(places, lambda place: len(self.prompts[place]))]

        def attend(layer: int, q_NHW: Tensor, k_NKW: Tensor, v_NKW: Tensor) -> Tensor:
            mixed, start = [], 0
            for length, run in runs:
                part = slice(start, start := start + length * len(run))
                q, k, v = (x[part].unflatten(0, (len(run), length)).transpose(1, 2) for x in (q_NHW, k_NKW, v_NKW))
                mixed.append(
                    F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.model.scale, enable_gqa=True)
                    .transpose(1, 2)
                    .flatten(0, 1)
                )
                for index, place in enumerate(run):
                    cached = self.cache[
                        layer, :, self.first_U[place] : self.first_U[place + 1], :, self.length - length : self.length
                    ]
                    cached[0], cached[1] = k[index], v[index]
            return torch.cat(mixed).flatten(1)

        x_ND = self.model.forward(token_N, self.cos_S1W[position_N], self.sin_S1W[position_N], attend)
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=self.device)
        return x_ND[lengths.cumsum(0) - 1]

    def _new_cache(self, rows: int, length: int) -> Tensor:
        """Return a cache with a quarter of room, which makes the copying cheap in the long run; padding must be finite."""
        room = min(self.last, length + max(64, length // 4))
        model = self.model
        return model.embedding_VD.new_zeros(len(model.blocks), 2, rows, model.kv_heads, room, model.width)

    def _grow(self) -> None:
        old = self.cache[:, :, : self.rows]
        self.cache = self._new_cache(self.rows, self.seen)
        self.cache[:, :, :, :, : old.shape[4]] = old


def is_common(model: PreTrainedModel) -> bool:
    """Return whether a model is built of the common block, as far as its modules and its configuration tell."""
    try:
        decoder, head, config = model.get_decoder(), model.get_output_embeddings(), model.config
        rotary = getattr(config, "rope_parameters", None) or {}
        return (
            _children(decoder) == {"embed_tokens", "layers", "norm", "rotary_emb"}
            and type(decoder.embed_tokens) is nn.Embedding
            and linear_of(head) is not None
            and set(getattr(config, "layer_types", None) or ["full_attention"]) == {"full_attention"}
            and not getattr(decoder.layers[0].self_attn, "sliding_window", None)
            and rotary.get("rope_type") in _FIXED_ROTARY
            and _is_norm(decoder.norm)
            and all(map(_is_block, decoder.layers))
        )
    except AttributeError:
        return False


def fits(model: PreTrainedModel, adapter: str | None, *, scratch_bytes: int) -> bool:
    """Return whether the lean forward pass equals the model's own, under the adapter that is active.

    Two models may be made of the same modules and multiply them otherwise, so a few tokens are computed in both ways.
    """
    if model not in _FITS:
        _FITS[model] = is_common(model) and _agrees(model, LeanModel(model, adapter, scratch_bytes=scratch_bytes))
    return _FITS[model]


_FITS: WeakKeyDictionary[PreTrainedModel, bool] = WeakKeyDictionary()


def _agrees(model: PreTrainedModel, lean: LeanModel) -> bool:
    token_N = torch.arange(9, device=lean.embedding_VD.device) * 7 % len(lean.embedding_VD)
    own_V = model(input_ids=token_N[None], use_cache=False).logits[0, -1].float()
    decoder = LeanDecoder(lean, [tuple(token_N[:-1].tolist())], [1], room=1)
    decoder.prefill()
    lean_V = decoder.step(token_N[-1:])[0].float()
    tolerance = 1e-3 if lean.embedding_VD.dtype == torch.float32 else 3e-2
    return bool((own_V - lean_V).abs().max() <= tolerance * own_V.abs().max())


def _block(layer: Any, adapter: str | None, *, merge: bool) -> Block:
    attention, mlp = layer.self_attn, layer.mlp
    return Block(
        norm=_norm(layer.input_layernorm),
        qkv=project([attention.q_proj, attention.k_proj, attention.v_proj], adapter, merge=merge),
        q_norm=_norm(attention.q_norm) if hasattr(attention, "q_norm") else None,
        k_norm=_norm(attention.k_norm) if hasattr(attention, "k_norm") else None,
        out=project([attention.o_proj], adapter, merge=merge),
        mlp_norm=_norm(layer.post_attention_layernorm),
        gate_up=project([mlp.gate_proj, mlp.up_proj], adapter, merge=merge),
        act=mlp.act_fn,
        down=project([mlp.down_proj], adapter, merge=merge),
    )


def _is_block(layer: Any) -> bool:
    attention, mlp = layer.self_attn, layer.mlp
    linears = ("q_proj", "k_proj", "v_proj", "o_proj")
    head_norms = _children(attention) - set(linears)
    return (
        _children(layer) == {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}
        and _is_norm(layer.input_layernorm)
        and _is_norm(layer.post_attention_layernorm)
        and all(linear_of(getattr(attention, name)) is not None for name in linears)
        and head_norms in (set(), {"q_norm", "k_norm"})
        and all(_is_norm(norm := getattr(attention, name)) and norm.weight.numel() == attention.head_dim for name in head_norms)
        and _children(mlp) == {"gate_proj", "up_proj", "down_proj", "act_fn"}
        and all(linear_of(getattr(mlp, name)) is not None for name in ("gate_proj", "up_proj", "down_proj"))
    )


def _is_norm(module: Any) -> bool:
    return isinstance(module.variance_epsilon, float) and [name for name, _ in module.named_parameters()] == ["weight"]


def _norm(module: Any) -> Norm:
    return Norm(module.weight.detach(), module.variance_epsilon)


def _children(module: nn.Module) -> set[str]:
    return {name for name, _ in module.named_children()}


def _outputs(module: nn.Module) -> int:
    linear = linear_of(module)
    assert linear is not None
    return linear.out_features


def _chunks(places: Sequence[int], size: Callable[[int], int]) -> list[list[int]]:
    """Cut into runs of at most `PREFILL_TOKENS` tokens, at least one prompt each."""
    chunks: list[list[int]] = []
    tokens = 0
    for place in places:
        if not chunks or tokens + size(place) > PREFILL_TOKENS:
            chunks.append([])
            tokens = 0
        chunks[-1].append(place)
        tokens += size(place)
    return chunks
