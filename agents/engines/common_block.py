"""The block that most language models are made of: RMS norm, rotary attention, gated MLP (Llama, Qwen2, Qwen3).

`LeanModel` is its forward pass in a dozen tensor operations per layer, on weights laid out for it (see `projections`):
through the modules of transformers and PEFT, a step of one token costs more in Python than in arithmetic. `is_common`
reads off a model's modules whether it is of that kind.

Dimension suffixes: N tokens of any rows, D hidden width, H query heads, K key-value heads, X heads of both kinds, Y these
and the values, W width of a head, I width of the MLP, S positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.activations import SiLUActivation

from agents.engines.projections import Projection, Tokens, can_pack, linear_of, project
from agents.kernels.elementwise import Angles, rms_norm, silu_gate, turn_heads

SHARE_BYTES = 2**26
"""Least weights for which a shared batch of several adapters is faster than one batch of each with its adapter merged."""
SHARE_RANK = 16
"""Likewise, the least width of the model for each rank of the adapters together."""

_LINEARS = (
    ("self_attn", ("q_proj", "k_proj", "v_proj")),
    ("self_attn", ("o_proj",)),
    ("mlp", ("gate_proj", "up_proj")),
    ("mlp", ("down_proj",)),
)
_FIXED_ROTARY = ("default", "linear", "llama3", "yarn")
"""Kinds of rotary embedding whose angles do not depend on the length of the text."""

Attend: TypeAlias = Callable[[int, Tensor], Tensor]
"""(layer, queries, keys and values [N, Y, W]) → what each token attends to, [N, H · W]."""


@dataclass(frozen=True)
class Norm:
    """Root-mean-square normalisation of the last dimension."""

    weight: Tensor
    eps: float

    @classmethod
    def of(cls, module: Any) -> Norm:
        """Read the module of transformers."""
        return cls(module.weight.detach().contiguous(), module.variance_epsilon)

    def __call__(self, x_ND: Tensor) -> Tensor:
        """Normalise."""
        return rms_norm(x_ND, self.weight, self.eps)


@dataclass(frozen=True)
class Turn:
    """What happens to the heads of queries and keys before they meet: a norm of each head, if there is one, and a rotation."""

    heads: int
    """Of queries and keys together."""
    weight_XW: Tensor | None
    """Of the norm of each head."""
    eps: float

    @classmethod
    def of(cls, attention: Any, *, heads: int, kv_heads: int) -> Turn:
        """Read the attention module of transformers."""
        if not hasattr(attention, "q_norm"):
            return cls(heads + kv_heads, None, 0.0)
        norms = ((attention.q_norm, heads), (attention.k_norm, kv_heads))
        weight_XW = torch.cat([norm.weight.detach().expand(count, -1) for norm, count in norms])
        return cls(heads + kv_heads, weight_XW, attention.q_norm.variance_epsilon)

    def __call__(self, qkv_NYW: Tensor, angles: Angles) -> Tensor:
        """Return queries, keys and values, of which the values stay as they are."""
        return turn_heads(qkv_NYW, self.weight_XW, self.eps, angles, turned=self.heads)


@dataclass(frozen=True)
class Block:
    """The weights of one layer."""

    norm: Norm
    qkv: Projection
    turn: Turn
    out: Projection
    mlp_norm: Norm
    gate_up: Projection
    gate: Callable[[Tensor], Tensor]
    down: Projection


class LeanModel:
    """The weights of a model under one or several adapters, laid out for decoding."""

    def __init__(self, model: PreTrainedModel, adapters: Sequence[str | None], *, scratch_bytes: int) -> None:
        """Lay out the weights of a model that `is_common` accepts.

        Args:
            model: the shared base.
            adapters: those that count; None is the bare model. Tokens name them by their place here.
            scratch_bytes: most memory for a copy of the weights; a larger model's are used where they are.
        """
        decoder, head = model.get_decoder(), model.get_output_embeddings()
        copy = can_pack(decoder.embed_tokens.weight) and linear_bytes(model) <= scratch_bytes
        attention = decoder.layers[0].self_attn
        self.width: int = attention.head_dim
        self.kv_heads = _outputs(attention.k_proj) // self.width
        self.heads = _outputs(attention.q_proj) // self.width
        self.scale: float = attention.scaling
        self.rotary = decoder.rotary_emb
        self.embedding_VD = decoder.embed_tokens.weight.detach()
        self.norm = Norm.of(decoder.norm)
        self.tokens = Tokens()
        layout = partial(project, adapters=adapters, tokens=self.tokens, copy=copy)
        self.blocks = [_block(layer, layout) for layer in decoder.layers]
        self.head = layout([head])
        self.mixed = len(adapters) > 1

    def angles(self, length: int) -> Angles:
        """Return the angles of the positions below `length`."""
        position_1S = torch.arange(length, device=self.embedding_VD.device)[None]
        return angles_of(*self.rotary(self.embedding_VD[:1], position_1S))

    def forward(self, token_N: Tensor, adapter_N: Tensor, angles: Angles, attend: Attend) -> Tensor:
        """Return the hidden states of some tokens before the last norm, shape [N, D]; `angles` are theirs."""
        self.tokens.place(adapter_N if self.mixed else None)
        x_ND = self.embedding_VD[token_N]
        for index, block in enumerate(self.blocks):
            qkv_NYW = block.qkv(block.norm(x_ND)).view(token_N.shape[0], -1, self.width)
            x_ND = block.out(attend(index, block.turn(qkv_NYW, angles)), x_ND)
            x_ND = block.down(block.gate(block.gate_up(block.mlp_norm(x_ND))), x_ND)
        return x_ND

    def logits(self, x_ND: Tensor, adapter_N: Tensor) -> Tensor:
        """Return the logits that follow from hidden states, shape [N, V]."""
        self.tokens.place(adapter_N if self.mixed else None)
        return self.head(self.norm(x_ND))


def angles_of(cos_1SW: Tensor, sin_1SW: Tensor) -> Angles:
    """Return what transformers gives as `position_embeddings`, of one row or of several, as angles of all tokens."""
    width = sin_1SW.shape[-1]
    sign_W = sin_1SW.new_ones(width)
    sign_W[: width // 2] = -1
    return Angles(cos_1SW.reshape(-1, width).contiguous(), (sin_1SW * sign_W).reshape(-1, width).contiguous())


def gate_of(act: Any) -> Callable[[Tensor], Tensor]:
    """Return act(gate) · up of the two halves of the last dimension."""
    return silu_gate if is_silu(act) else partial(_gate, act)


def is_silu(act: Any) -> bool:
    """Return whether an activation is x · sigmoid(x)."""
    return isinstance(act, nn.SiLU | SiLUActivation)


def _gate(act: Callable[[Tensor], Tensor], gate_up_NI: Tensor) -> Tensor:
    gate_NI, up_NI = gate_up_NI.chunk(2, -1)
    return act(gate_NI) * up_NI


def is_common(model: PreTrainedModel) -> bool:
    """Return whether a model is built of the common block, as far as its modules and its configuration tell."""
    try:
        decoder, head, config = model.get_decoder(), model.get_output_embeddings(), model.config
        rotary = getattr(config, "rope_parameters", None) or {}
        return (
            decoder.embed_tokens.weight.dtype == torch.float32
            and _children(decoder) == {"embed_tokens", "layers", "norm", "rotary_emb"}
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


def linear_groups(layer: Any) -> list[list[nn.Module]]:
    """Return the linear layers of a block, those with the same input together: q k v, out, gate up, down."""
    return [[getattr(getattr(layer, part), name) for name in names] for part, names in _LINEARS]


def linear_bytes(model: PreTrainedModel) -> int:
    """Return the memory that the weights of the linear layers of a model of common blocks take."""
    modules = [module for layer in model.get_decoder().layers for group in linear_groups(layer) for module in group]
    return sum(linear.weight.nbytes for module in [*modules, model.get_output_embeddings()] if (linear := linear_of(module)))


def shares(model: PreTrainedModel, *, rank: int, scratch_bytes: int) -> bool:
    """Return whether rows of several adapters are better computed together than each adapter's in a batch of its own.

    Alone, an adapter is merged into the weights and costs nothing per token. Together, the weights are read once for all
    rows and the adapters are added: that pays for large weights and small adapters, and where no copy can be made anyway.

    Args:
        model: the shared base.
        rank: the sum of the adapters' ranks.
        scratch_bytes: as for `LeanModel`.
    """
    if not is_common(model):
        return False
    embedding_VD, size = model.get_decoder().embed_tokens.weight, linear_bytes(model)
    copies = can_pack(embedding_VD) and size <= scratch_bytes
    return not copies or (size >= SHARE_BYTES and rank * SHARE_RANK <= embedding_VD.shape[1])


def _block(layer: Any, layout: Callable[[list[nn.Module]], Projection]) -> Block:
    attention = layer.self_attn
    qkv, out, gate_up, down = map(layout, linear_groups(layer))
    return Block(
        norm=Norm.of(layer.input_layernorm),
        qkv=qkv,
        turn=Turn.of(
            attention,
            heads=_outputs(attention.q_proj) // attention.head_dim,
            kv_heads=_outputs(attention.k_proj) // attention.head_dim,
        ),
        out=out,
        mlp_norm=Norm.of(layer.post_attention_layernorm),
        gate_up=gate_up,
        gate=gate_of(layer.mlp.act_fn),
        down=down,
    )


def _is_block(layer: Any) -> bool:
    attention, mlp = layer.self_attn, layer.mlp
    head_norms = _children(attention) - {"q_proj", "k_proj", "v_proj", "o_proj"}
    return (
        _children(layer) == {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}
        and _is_norm(layer.input_layernorm)
        and _is_norm(layer.post_attention_layernorm)
        and head_norms in (set(), {"q_norm", "k_norm"})
        and all(_is_norm(norm := getattr(attention, name)) and norm.weight.numel() == attention.head_dim for name in head_norms)
        and _children(mlp) == {"gate_proj", "up_proj", "down_proj", "act_fn"}
        and all(linear_of(module) is not None for group in linear_groups(layer) for module in group)
    )


def _is_norm(module: Any) -> bool:
    only_weight = [name for name, _ in module.named_parameters()] == ["weight"]
    return only_weight and module.weight.dtype == torch.float32 and isinstance(module.variance_epsilon, float)


def _children(module: nn.Module) -> set[str]:
    return {name for name, _ in module.named_children()}


def _outputs(module: nn.Module) -> int:
    linear = linear_of(module)
    assert linear is not None
    return linear.out_features
