"""The common block in training: what `engines.common_block` is to decoding, with gradients.

The modules of transformers write every intermediate of a norm, a rotation or a gate to memory, and autograd keeps them.
Here each is one step with a backward pass of its own, and layers with the same input are one product (`agents.lora`).
Attention stays the model's own. `fuse` has a model's layers go this way where that comes to the same.

Dimension suffixes: B rows, S positions, D hidden width, H query heads, K key-value heads, X heads of both kinds, W width
of a head, I width of the MLP.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from transformers import PreTrainedModel
from transformers.activations import SiLUActivation
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from agents.adapters import weights_for
from agents.engines.common_block import HeadNorm, is_common
from agents.lora import LoraWeights, lora_linear

_LINEARS = (
    ("self_attn", ("q_proj", "k_proj", "v_proj")),
    ("self_attn", ("o_proj",)),
    ("mlp", ("gate_proj", "up_proj")),
    ("mlp", ("down_proj",)),
)
"""The linear layers of a block, those with the same input together."""
_FORWARD_RECOMPUTES = "__call__" not in vars(GradientCheckpointingLayer)
"""Whether it is the `forward` of transformers' layers, which is replaced here, that sees to activation checkpointing."""
Attend: TypeAlias = Callable[..., tuple[Tensor, Tensor | None]]
"""An attention function as transformers registers them."""
_CACHES = ("cache", "past_key_values")
"""What transformers calls the cache; the second until 5.40."""


@torch.no_grad()
def fuse(model: PreTrainedModel) -> bool:
    """Compute the layers of a model of common blocks by fused steps, in passes without a cache.

    Two models may be made of the same modules and multiply them otherwise, so a few tokens are computed in both ways.

    Args:
        model: frozen but for its adapters.

    Returns:
        Whether the layers are fused now; else they are as they were.
    """
    decoder = model.get_decoder()
    if not is_common(model) or any(_weights(layer, decoder.embed_tokens.weight) is None for layer in decoder.layers):
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


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Return x / sqrt(mean(x²) + eps) · weight over the last dimension; the weight takes no gradient."""
    return _RmsNorm.apply(x, weight, eps)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return the rotary embedding of x: pairs of places i and i + W/2 turned by their angle.

    Args:
        x: of any shape that ends in W.
        cos: broadcast to it.
        sin: likewise, negative in the first half of W.
    """
    return _Rotate.apply(x, cos, sin)


def swiglu(gate_up: Tensor) -> Tensor:
    """Return silu(gate) · up of a tensor whose last dimension holds both side by side."""
    return _SwiGlu.apply(gate_up)


def _layer_forward(layer: Any, hidden_states: Tensor, **kwargs: Any) -> Tensor:
    """Return what the layer's own `forward` returns, which is asked itself in all but the usual case."""
    weights = _weights(layer, hidden_states)
    attend = ALL_ATTENTION_FUNCTIONS.get(layer.self_attn.config._attn_implementation)
    if weights is None or attend is None or any(kwargs.get(name) is not None for name in _CACHES):
        return type(layer).forward(layer, hidden_states, **kwargs)

    def run(x_BSD: Tensor) -> Tensor:
        return _fused(layer, x_BSD, weights=weights, attend=attend, **kwargs)

    if _FORWARD_RECOMPUTES and layer.gradient_checkpointing and layer.training and torch.is_grad_enabled():
        return layer._gradient_checkpointing_func(run, hidden_states)
    return run(hidden_states)


def _fused(layer: Any, x_BSD: Tensor, *, weights: Sequence[Sequence[LoraWeights]], attend: Attend, **kwargs: Any) -> Tensor:
    qkv, out, gate_up, down = weights
    x_BSD = x_BSD + lora_linear(_attention(layer, x_BSD, qkv, attend, **kwargs), *out)
    wide = lora_linear(_norm(layer.post_attention_layernorm, x_BSD), *gate_up)
    return x_BSD + lora_linear(_gated(layer.mlp.act_fn, wide), *down)


def _attention(
    layer: Any,
    x_BSD: Tensor,
    qkv: Sequence[LoraWeights],
    attend: Attend,
    *,
    position_embeddings: tuple[Tensor, Tensor],
    attention_mask: Tensor | None = None,
    **kwargs: Any,
) -> Tensor:
    """Return what the tokens attend to, before it is projected, shape (B, S, H · W)."""
    attention = layer.self_attn
    width: int = attention.head_dim
    heads, kv_heads = (len(weights.weight_OI) // width for weights in qkv[:2])
    cos_BSW, sin_BSW = position_embeddings
    sign_W = cos_BSW.new_ones(width)
    sign_W[: width // 2] = -1
    qkv_BSXW = lora_linear(_norm(layer.input_layernorm, x_BSD), *qkv).unflatten(-1, (-1, width))
    qk_BSXW, v_BSKW = qkv_BSXW.split([heads + kv_heads, kv_heads], 2)
    if hasattr(attention, "q_norm"):
        norm = HeadNorm.of([(attention.q_norm, heads), (attention.k_norm, kv_heads)])
        qk_BSXW = rms_norm(qk_BSXW, norm.weight_XW, norm.eps)
    qk_BSXW = rotate(qk_BSXW, cos_BSW[:, :, None], (sin_BSW * sign_W)[:, :, None])
    q_BHSW, k_BKSW, v_BKSW = (x.transpose(1, 2) for x in (*qk_BSXW.split([heads, kv_heads], 2), v_BSKW))
    dropout = attention.attention_dropout if attention.training else 0.0
    mixed_BSHW, _ = attend(
        attention, q_BHSW, k_BKSW, v_BKSW, attention_mask, dropout=dropout, scaling=attention.scaling, **kwargs
    )
    return mixed_BSHW.flatten(2)


def _weights(layer: Any, x: Tensor) -> list[list[LoraWeights]] | None:
    """Return what each group of linear layers with one input multiplies by; None where any of them is odd."""
    found = [[weights_for(getattr(getattr(layer, part), name), x) for name in names] for part, names in _LINEARS]
    usual = [[weights for weights in group if weights is not None] for group in found]
    return usual if all(map(len, usual)) and list(map(len, usual)) == list(map(len, found)) else None


def _norm(module: Any, x: Tensor) -> Tensor:
    return rms_norm(x, module.weight, module.variance_epsilon)


def _gated(act: nn.Module, gate_up: Tensor) -> Tensor:
    if isinstance(act, nn.SiLU | SiLUActivation):
        return swiglu(gate_up)
    gate, up = gate_up.chunk(2, -1)
    return act(gate) * up


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        inverse = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.shape[-1]).add_(eps).rsqrt_()
        ctx.save_for_backward(x, weight, inverse)
        return (x * inverse).mul_(weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        x, weight, inverse = ctx.saved_tensors
        grad = grad * weight
        slope = torch.linalg.vecdot(grad, x).unsqueeze(-1).mul_(inverse).mul_(inverse).div_(x.shape[-1])
        return grad.addcmul_(x, slope, value=-1).mul_(inverse), None, None


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _turned(x, cos, sin)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _turned(grad, cos, -sin), None, None


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return (x * cos).addcmul_(x.roll(x.shape[-1] // 2, -1), sin)


class _SwiGlu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate_up: Tensor) -> Tensor:
        ctx.save_for_backward(gate_up)
        gate, up = gate_up.chunk(2, -1)
        return F.silu(gate).mul_(up)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (gate_up,) = ctx.saved_tensors
        gate, up = gate_up.chunk(2, -1)
        grad_gate_up = torch.empty_like(gate_up)
        grad_gate, grad_up = grad_gate_up.chunk(2, -1)
        torch.mul(grad, F.silu(gate), out=grad_up)
        torch.ops.aten.silu_backward.grad_input(grad * up, gate, grad_input=grad_gate)
        return grad_gate_up
