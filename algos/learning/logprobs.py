"""Log-probabilities of sampled tokens, without ever holding all logits.

The logits of a batch are the largest tensor of training: 1,000 tokens of a vocabulary of 150,000 take 0.6 GB
in float32. So the decoder runs first, and only the positions that predict a completion token are projected to the
vocabulary, in chunks. What the backward pass needs of a chunk is formed at once, while its logits exist: a token's
log-probability depends on no hidden state but its own, so that one vector of the model's width says it all. A
head that is trained needs more than that; its chunks are computed again in the backward pass.

Dimension suffixes: `B` rows, `S` positions, `T` completion positions, `N` completion tokens of all rows,
`D` width of the model, `V` vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from peft import PeftModel
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from agents.products import frozen_linear
from algos.learning.batching import Completions

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CHUNK_ELEMENTS = {"cpu": 2**24, "cuda": 2**27}
"""Logits of a chunk unless its size is given: 64 MB in float32, which is as fast as more on a CPU, and 0.5 GB. There
are four tensors of that size at a time."""


class UnsupportedHead(RuntimeError):
    """The chunked log-probabilities differ from what the model itself computes: its head does something unknown."""


@dataclass(frozen=True)
class Head:
    """From hidden states to logits: `softcap(scale · projection(hidden))`."""

    projection: nn.Module
    """The output embedding, with any adapter on it."""
    scale: float = 1.0
    softcap: float | None = None
    """Gemma: logits are squeezed into (−softcap, softcap) by tanh."""

    @classmethod
    def of(cls, model: nn.Module) -> Head:
        """Return the head of a causal language model, plain or wrapped by PEFT.

        Raises:
            UnsupportedHead: the model has no output embedding.
        """
        inner = _unwrap(model)
        projection = inner.get_output_embeddings()
        if projection is None:
            raise UnsupportedHead(f"{type(inner).__name__} has no output embedding: it is no causal language model")
        config = inner.config.get_text_config()
        scale = getattr(config, "logit_scale", None)  # Cohere multiplies
        divisor = getattr(config, "logits_scaling", None)  # Granite divides
        return cls(
            projection,
            scale=float(scale) if scale is not None else 1.0 / float(divisor) if divisor is not None else 1.0,
            softcap=getattr(config, "final_logit_softcapping", None),
        )

    @property
    def is_trained(self) -> bool:
        """True if a parameter of the projection, or of an adapter on it, takes a gradient."""
        return any(parameter.requires_grad for parameter in self.projection.parameters())

    def __call__(self, hidden_ND: Tensor) -> Tensor:
        """Return the logits in float32, shape (N, V)."""
        projection = self.projection
        if type(projection) is nn.Linear and not self.is_trained:
            logits_NV = frozen_linear(hidden_ND, projection.weight, projection.bias)
        else:
            logits_NV = projection(hidden_ND)
        if self.scale != 1.0:
            logits_NV = logits_NV * self.scale
        if self.softcap is not None:
            logits_NV = torch.tanh(logits_NV / self.softcap) * self.softcap
        return logits_NV.float()


def token_logprobs(
    model: nn.Module,
    rows: Completions,
    *,
    temperature: float = 1.0,
    chunk: int | None = None,
    entropy: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return the log-probability of every completion token, given all that stands before it.

    Forward and backward must see the same adapters: parts may be computed again in the backward pass.

    Args:
        model: a causal language model, plain or wrapped by PEFT.
        rows: what to score, padded or packed.
        temperature: the *logits* are divided by it before the softmax, as in sampling.
        chunk: tokens whose logits exist at once; the smaller, the less memory and the slower. Default: as many
            as `CHUNK_ELEMENTS` allows.
        entropy: also return the entropy of each prediction.

    Returns:
        `logp_BT` in nats, float32, with gradient, 0 at the padding; and `entropy_BT` in nats without gradient, or
        None. The entropy is that of the distribution at `temperature`.

    Raises:
        ValueError: the temperature is not above 0, or the chunk is empty.
    """
    if not temperature > 0:
        raise ValueError(f"the temperature must be above 0, not {temperature}; what was sampled at 0 is scored at 1")
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk must be at least 1 token, not {chunk}")
    head, hidden_ND, ids_N = Head.of(model), rows.predictors(_decoder(model)), rows.target_ids_N
    chunk = chunk or max(1, CHUNK_ELEMENTS.get(hidden_ND.device.type, CHUNK_ELEMENTS["cuda"]) // _vocabulary(model))
    pieces = list(zip(hidden_ND.split(chunk), ids_N.split(chunk), strict=True))
    trains = head.is_trained
    # A single chunk of a trained head is no larger than what may exist anyway: nothing is saved by computing it twice.
    if not torch.is_grad_enabled() or (trains and len(pieces) == 1):
        scored = [_score(head, *piece, temperature, entropy) for piece in pieces]
    elif trains:
        scored = [
            checkpoint(_score, head, *piece, temperature, entropy, use_reentrant=False, preserve_rng_state=False)
            for piece in pieces
        ]
    else:
        scored = [_FrozenHead.apply(head, *piece, temperature, entropy) for piece in pieces]
    logp_N, entropy_N = (torch.cat(values) for values in zip(*scored, strict=True))
    return _scatter(logp_N, rows.mask_BT), _scatter(entropy_N, rows.mask_BT) if entropy else None


@torch.no_grad()
def check_head(model: nn.Module) -> None:
    """Compare the chunked log-probabilities with the model's own logits on a few tokens.

    A model may do something to its logits that `Head` does not know of. This finds it before it spoils a run;
    it costs one pass over a dozen tokens.

    Raises:
        UnsupportedHead: they differ.
    """
    weight = next(model.parameters())
    generator = torch.Generator().manual_seed(0)
    ids_BS = torch.randint(_vocabulary(model), (2, 6), generator=generator).to(weight.device)
    places_BS = torch.arange(6, device=weight.device).expand(2, -1)
    attention_mask_BS = torch.ones_like(ids_BS)
    own = model(input_ids=ids_BS, attention_mask=attention_mask_BS, position_ids=places_BS, use_cache=False).logits
    hidden = _decoder(model)(
        input_ids=ids_BS, attention_mask=attention_mask_BS, position_ids=places_BS, use_cache=False
    ).last_hidden_state
    ours = Head.of(model)(hidden)
    own, ours = own.float().log_softmax(-1), ours.log_softmax(-1)
    difference = (own - ours).abs().max().item()
    tolerance = 1e-3 if weight.dtype == torch.float32 else 0.1
    if not difference <= tolerance:
        raise UnsupportedHead(
            f"log-probabilities of {type(_unwrap(model)).__name__} from its hidden states differ from the model's own by "
            f"{difference:.3g}: its head transforms the logits in a way that algos.learning.logprobs.Head must learn first"
        )


class _FrozenHead(torch.autograd.Function):
    """`_score` through a head without trainable parameters, which keeps no logits for the backward pass.

    Row n of the log-probabilities depends on row n of the hidden states alone. So the gradient of their *sum*, taken
    while the logits exist, holds in row n the gradient of log-probability n, and the backward pass only scales rows.
    """

    @staticmethod
    def forward(
        ctx: Any, head: Head, hidden_ND: Tensor, ids_N: Tensor, temperature: float, entropy: bool
    ) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            hidden_ND = hidden_ND.detach().requires_grad_()
            logp_NV = _logp(head, hidden_ND, temperature)
            logp_N = _pick(logp_NV, ids_N)
            (slope_ND,) = torch.autograd.grad(logp_N.sum(), hidden_ND)
        entropy_N = _entropy(logp_NV, wanted=entropy)
        ctx.save_for_backward(slope_ND)
        ctx.mark_non_differentiable(entropy_N)
        return logp_N.detach(), entropy_N

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_N: Tensor, _: Any) -> tuple[None, Tensor, None, None, None]:
        (slope_ND,) = ctx.saved_tensors
        return None, (grad_N[:, None] * slope_ND).to(slope_ND.dtype), None, None, None


def _score(head: Head, hidden_ND: Tensor, ids_N: Tensor, temperature: float, entropy: bool) -> tuple[Tensor, Tensor]:
    """Return log-probability and entropy of each token; the entropy is NaN where nobody asked for it."""
    logp_NV = _logp(head, hidden_ND, temperature)
    return _pick(logp_NV, ids_N), _entropy(logp_NV, wanted=entropy)


def _logp(head: Head, hidden_ND: Tensor, temperature: float) -> Tensor:
    logits_NV = head(hidden_ND)
    return torch.log_softmax(logits_NV if temperature == 1.0 else logits_NV / temperature, dim=-1)


def _pick(logp_NV: Tensor, ids_N: Tensor) -> Tensor:
    return -nn.functional.nll_loss(logp_NV, ids_N, reduction="none")  # its gradient is cheaper than that of `gather`


@torch.no_grad()
def _entropy(logp_NV: Tensor, *, wanted: bool) -> Tensor:
    if not wanted:
        return logp_NV.new_full(logp_NV.shape[:1], torch.nan)
    # 0 · −inf is NaN, and 0 times the least finite number is 0; `torch.special.entr` would take all logarithms again.
    return -logp_NV.exp().mul_(logp_NV.clamp(min=torch.finfo(logp_NV.dtype).min)).sum(-1)


def _scatter(values_N: Tensor, mask_BT: Tensor) -> Tensor:
    return values_N.new_zeros(mask_BT.shape).masked_scatter(mask_BT, values_N)


def _unwrap(model: nn.Module) -> PreTrainedModel:
    """Return the transformers model inside PEFT's wrapper; its layers hold the adapters."""
    return cast("PreTrainedModel", model.get_base_model() if isinstance(model, PeftModel) else model)


def _decoder(model: nn.Module) -> nn.Module:
    return _unwrap(model).get_decoder()


def _vocabulary(model: nn.Module) -> int:
    return int(_unwrap(model).config.get_text_config().vocab_size)
