"""The common block in training: what `engines.common_block` is to decoding, with gradients.

The modules of transformers write every intermediate of a norm, a rotation or a gate to memory, and autograd keeps them.
Here what stands before attention is one step with a backward pass of its own, and so is what stands after it; layers with
the same input are one group, where tokens are many on weights with the adapter merged into them. Attention stays the
model's own. `fuse` has a model's layers go this way where that comes to the same, and `merged_once` keeps the merged
weights for a while.

Dimension suffixes: B rows, S positions, D hidden width, H query heads, K key-value heads, X heads of both kinds, Y these
and the values, W width of a head, I width of the MLP.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from agents.adapters import weights_for
from agents.engines.common_block import Norm, Turn, angles_of, gate_of, is_common, is_silu, linear_bytes, linear_groups
from agents.kernels.elementwise import Angles, rms_norm_backward, silu_gate_backward, turn_heads_backward
from agents.lora import LinearGroup, LoraWeights

_FORWARD_RECOMPUTES = "__call__" not in vars(GradientCheckpointingLayer)
"""Whether it is the `forward` of transformers' layers, which is replaced here, that sees to activation checkpointing."""
Attend: TypeAlias = Callable[..., tuple[Tensor, Tensor | None]]
"""An attention function as transformers registers them. Where it has an attribute `joint`, that is called first: with queries,
keys and values in one tensor, [B, S, Y, W]; it returns what is attended to, or None to leave it to the function itself."""
_CACHES = ("cache", "past_key_values")
"""What transformers calls the cache; the second until 5.40."""


@torch.no_grad()
def fuse(model: PreTrainedModel, *, scratch_bytes: int) -> bool:
    """Compute the layers of a model of common blocks by fused steps, in passes without a cache.

    Two models may be made of the same modules and multiply them otherwise, so a few tokens are computed in both ways.

    Args:
        model: frozen but for its adapters.
        scratch_bytes: most memory for the merged weights; the layers of a larger model stay as they are.

    Returns:
        Whether the layers are fused now; else they are as they were.
    """
    decoder = model.get_decoder()
    if not is_common(model) or linear_bytes(model) > scratch_bytes:
        return False
    if any(_weights(layer, decoder.embed_tokens.weight) is None for layer in decoder.layers):
        return False
    ids_BS = torch.arange(22, device=model.device).view(2, 11) * 7 % model.config.vocab_size
    layers: Any = decoder.layers
    before = [vars(layer).pop("forward", None) for layer in layers]
    own_BSD = decoder(input_ids=ids_BS, use_cache=False).last_hidden_state
    for layer in layers:
        layer.forward = types.MethodType(_layer_forward, layer)
    fused_BSD = decoder(input_ids=ids_BS, use_cache=False).last_hidden_state
    agrees = bool((own_BSD - fused_BSD).abs().max() <= 1e-3 * own_BSD.abs().max())
    if not agrees:
        for layer, old in zip(layers, before, strict=True):
            del layer.forward
            vars(layer).update({} if old is None else {"forward": old})
    return agrees


@contextmanager
def merged_once() -> Iterator[None]:
    """Keep the merged weights of fused layers for the block, however often the layers are computed in it."""
    token = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(token)


@dataclass(frozen=True)
class Block:
    """The weights of one layer under one adapter."""

    norm: Norm
    qkv: LinearGroup
    turn: Turn
    out: LinearGroup
    mlp_norm: Norm
    gate_up: LinearGroup
    act: nn.Module
    down: LinearGroup
    width: int
    """Of a head."""
    kv_heads: int

    @classmethod
    def of(cls, layer: Any, weights: Sequence[Sequence[LoraWeights]], *, merge: bool) -> Block:
        """Read a layer whose groups of linear layers have these weights; `merge` as for `LinearGroup`."""
        attention = layer.self_attn
        width: int = attention.head_dim
        heads, kv_heads = (len(linear.weight_OI) // width for linear in weights[0][:2])
        qkv, out, gate_up, down = (LinearGroup(group, merge=merge) for group in weights)
        return cls(
            norm=Norm.of(layer.input_layernorm),
            qkv=qkv,
            turn=Turn.of(attention, heads=heads, kv_heads=kv_heads),
            out=out,
            mlp_norm=Norm.of(layer.post_attention_layernorm),
            gate_up=gate_up,
            act=layer.mlp.act_fn,
            down=down,
            width=width,
            kv_heads=kv_heads,
        )


_kept: ContextVar[dict[nn.Module, tuple[object, Block]] | None] = ContextVar("kept", default=None)


def _layer_forward(layer: Any, hidden_states: Tensor, **kwargs: Any) -> Tensor:
    """Return what the layer's own `forward` returns, which is asked itself in all but the usual case."""
    weights = _weights(layer, hidden_states)
    attend = ALL_ATTENTION_FUNCTIONS.get(layer.self_attn.config._attn_implementation)
    if weights is None or attend is None or any(kwargs.get(name) is not None for name in _CACHES):
        return type(layer).forward(layer, hidden_states, **kwargs)
    with torch.no_grad():
        block = _block(layer, weights, merge=hidden_states.shape[:-1].numel() >= hidden_states.shape[-1])

    def run(x_BSD: Tensor) -> Tensor:
        return _fused(layer.self_attn, block, x_BSD, attend=attend, **kwargs)

    if _FORWARD_RECOMPUTES and layer.gradient_checkpointing and layer.training and torch.is_grad_enabled():
        return layer._gradient_checkpointing_func(run, hidden_states)
    return run(hidden_states)


def _block(layer: nn.Module, weights: Sequence[Sequence[LoraWeights]], *, merge: bool) -> Block:
    """Return the weights of a layer, the kept ones where they are still true."""
    kept = _kept.get()
    if kept is None or not merge:
        return Block.of(layer, weights, merge=merge)
    factors = [factor for group in weights for linear in group for factor in linear.factors or ()]
    state = [(id(factor), factor._version) for factor in factors]
    if layer not in kept or kept[layer][0] != state:
        kept[layer] = state, Block.of(layer, weights, merge=True)
    return kept[layer][1]


def _fused(
    attention: Any,
    block: Block,
    x_BSD: Tensor,
    *,
    attend: Attend,
    position_embeddings: tuple[Tensor, Tensor],
    attention_mask: Tensor | None = None,
    **kwargs: Any,
) -> Tensor:
    cos, sin = (angle_BSW.expand(*x_BSD.shape[:-1], -1) for angle_BSW in position_embeddings)
    qkv_BSYW = _BeforeAttention.apply(x_BSD, block, angles_of(cos, sin), *block.qkv.factors)
    options = {"dropout": attention.attention_dropout if attention.training else 0.0, "scaling": attention.scaling, **kwargs}
    mixed_BSHW = None
    if (joint := getattr(attend, "joint", None)) is not None:
        mixed_BSHW = joint(qkv_BSYW, kv_heads=block.kv_heads, attention_mask=attention_mask, **options)
    if mixed_BSHW is None:
        heads = qkv_BSYW.shape[2] - 2 * block.kv_heads
        q_BHSW, k_BKSW, v_BKSW = qkv_BSYW.transpose(1, 2).split([heads, block.kv_heads, block.kv_heads], 1)
        mixed_BSHW, _ = attend(attention, q_BHSW, k_BKSW, v_BKSW, attention_mask, **options)
    factors = [*block.out.factors, *block.gate_up.factors, *block.down.factors]
    return _AfterAttention.apply(mixed_BSHW.flatten(2), x_BSD, block, *factors)


def _weights(layer: Any, x: Tensor) -> list[list[LoraWeights]] | None:
    """Return what each group of linear layers with one input multiplies by; None where any of them is odd."""
    found = [[weights_for(module, x) for module in group] for group in linear_groups(layer)]
    usual = [[weights for weights in group if weights is not None] for group in found]
    return usual if list(map(len, usual)) == list(map(len, found)) else None


class _BeforeAttention(torch.autograd.Function):
    """Hidden states → queries, keys and values of all heads: norm, product, norm of the heads, rotation."""

    @staticmethod
    def forward(ctx: Any, x_BSD: Tensor, block: Block, angles: Angles, *factors: Tensor) -> Tensor:
        x_ND = x_BSD.flatten(0, -2)
        qkv_NYW = block.qkv(block.norm(x_ND)).view(len(x_ND), -1, block.width)
        ctx.save_for_backward(x_ND, qkv_NYW, *factors)
        ctx.block, ctx.angles = block, angles
        return block.turn(qkv_NYW, angles).view(*x_BSD.shape[:-1], -1, block.width)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BSYW: Tensor) -> tuple[Tensor | None, ...]:
        x_ND, qkv_NYW, *_ = ctx.saved_tensors
        block: Block = ctx.block
        turn, norm = block.turn, block.norm
        to_qkv_NYW = turn_heads_backward(
            grad_BSYW.flatten(0, -3), qkv_NYW, turn.weight_XW, turn.eps, ctx.angles, turned=turn.heads
        )
        to_qkv_NO = to_qkv_NYW.flatten(1)
        if not ctx.needs_input_grad[0]:  # the first layer
            return None, None, None, *block.qkv.factor_grads(to_qkv_NO, block.norm(x_ND))
        to_x_ND = torch.zeros_like(x_ND, memory_format=torch.contiguous_format)
        normed_ND = rms_norm_backward(block.qkv.input_grad(to_qkv_NO), x_ND, norm.weight, norm.eps, to_x_ND=to_x_ND)
        return to_x_ND.view(*grad_BSYW.shape[:-2], -1), None, None, *block.qkv.factor_grads(to_qkv_NO, normed_ND)


class _AfterAttention(torch.autograd.Function):
    """What the tokens attend to, and their hidden states → the hidden states after the layer."""

    @staticmethod
    def forward(ctx: Any, mixed_BSX: Tensor, x_BSD: Tensor, block: Block, *factors: Tensor) -> Tensor:
        mixed_NX = mixed_BSX.flatten(0, -2)
        x_ND = block.out(mixed_NX).add_(x_BSD.flatten(0, -2))
        gate_up_NI = block.gate_up(block.mlp_norm(x_ND))
        ctx.save_for_backward(mixed_NX, x_ND, gate_up_NI, *factors)
        ctx.block = block
        return block.down(gate_of(block.act)(gate_up_NI)).add_(x_ND).view(x_BSD.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BSD: Tensor) -> tuple[Tensor | None, ...]:
        mixed_NX, x_ND, gate_up_NI, *_ = ctx.saved_tensors
        block: Block = ctx.block
        norm, grad_ND = block.mlp_norm, grad_BSD.flatten(0, -2)
        gated_NI, to_gate_up_NI = _gate_backward(block.act, block.down.input_grad(grad_ND), gate_up_NI)
        to_x_ND = grad_ND.clone(memory_format=torch.contiguous_format)
        to_normed_ND = block.gate_up.input_grad(to_gate_up_NI)
        normed_ND = rms_norm_backward(to_normed_ND, x_ND, norm.weight, norm.eps, to_x_ND=to_x_ND)
        grads = [
            *block.out.factor_grads(to_x_ND, mixed_NX),
            *block.gate_up.factor_grads(to_gate_up_NI, normed_ND),
            *block.down.factor_grads(grad_ND, gated_NI),
        ]
        to_mixed = block.out.input_grad(to_x_ND).view(*grad_BSD.shape[:-1], -1) if ctx.needs_input_grad[0] else None
        return to_mixed, to_x_ND.view(grad_BSD.shape), None, *grads


def _gate_backward(act: nn.Module, grad_NI: Tensor, gate_up_NI: Tensor) -> tuple[Tensor, Tensor]:
    """Return act(gate) · up once more, and the gradient to gate and up."""
    if is_silu(act):
        return silu_gate_backward(grad_NI, gate_up_NI)
    with torch.enable_grad():
        gate_up_NI = gate_up_NI.detach().requires_grad_()
        gated_NI = gate_of(act)(gate_up_NI)
    return gated_NI.detach(), torch.autograd.grad(gated_NI, gate_up_NI, grad_NI)[0]
