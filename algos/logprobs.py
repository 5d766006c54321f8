"""Log-probabilities of sampled tokens, without ever holding all logits.

The logits of a batch are the largest tensor of training: 1,000 tokens of a vocabulary of 150,000 take 0.6 GB
in float32. So the decoder runs first, only the positions that predict a completion token are projected to the
vocabulary, in chunks, and a chunk's logits are computed again in the backward pass instead of being kept.

Dimension suffixes: `B` rows, `S` positions, `T` completion positions, `N` completion tokens of all rows,
`D` width of the model, `V` vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from peft import PeftModel
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from algos.batching import PaddedRows

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CHUNK_ELEMENTS = 2**27
"""Logits that exist at once unless a chunk size is given: 0.5 GB in float32."""


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

    def __call__(self, hidden_ND: Tensor) -> Tensor:
        """Return the logits in float32, shape (N, V)."""
        logits_NV = self.projection(hidden_ND)
        if self.scale != 1.0:
            logits_NV = logits_NV * self.scale
        if self.softcap is not None:
            logits_NV = torch.tanh(logits_NV / self.softcap) * self.softcap
        return logits_NV.float()


def token_logprobs(
    model: nn.Module,
    rows: PaddedRows,
    *,
    temperature: float = 1.0,
    chunk: int | None = None,
    entropy: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return the log-probability of every completion token, given all that stands before it.

    Forward and backward must see the same adapters: chunks are computed again in the backward pass.

    Args:
        model: a causal language model, plain or wrapped by PEFT.
        rows: what to score.
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
    hidden_BSD = _decoder(model)(
        input_ids=rows.input_ids_BS,
        attention_mask=rows.attention_mask_BS,
        position_ids=rows.position_ids_BS,
        use_cache=False,
    ).last_hidden_state
    head, hidden_ND, ids_N = Head.of(model), hidden_BSD[rows.predicts_BS], rows.target_ids_N
    chunk = chunk or max(1, CHUNK_ELEMENTS // _vocabulary(model))
    pieces = list(zip(hidden_ND.split(chunk), ids_N.split(chunk), strict=True))
    # One chunk is no larger than what is allowed to exist anyway, so there is nothing to save by computing it twice.
    recompute = len(pieces) > 1 and torch.is_grad_enabled()
    scored = [
        checkpoint(_score, head, *piece, temperature, entropy, use_reentrant=False, preserve_rng_state=False)
        if recompute
        else _score(head, *piece, temperature, entropy)
        for piece in pieces
    ]
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
            f"{difference:.3g}: its head transforms the logits in a way that algos.logprobs.Head must learn first"
        )


def _score(head: Head, hidden_ND: Tensor, ids_N: Tensor, temperature: float, entropy: bool) -> tuple[Tensor, Tensor]:
    """Return log-probability and entropy of each token; the entropy is NaN where nobody asked for it."""
    logits_NV = head(hidden_ND)
    logp_NV = torch.log_softmax(logits_NV if temperature == 1.0 else logits_NV / temperature, dim=-1)
    logp_N = logp_NV.gather(-1, ids_N.unsqueeze(-1)).squeeze(-1)
    with torch.no_grad():
        entropy_N = torch.special.entr(logp_NV.exp()).sum(-1) if entropy else torch.full_like(logp_N, torch.nan)
    return logp_N, entropy_N


def _scatter(values_N: Tensor, mask_BT: Tensor) -> Tensor:
    return values_N.new_zeros(mask_BT.shape).masked_scatter(mask_BT, values_N)


def _unwrap(model: nn.Module) -> PreTrainedModel:
    """Return the transformers model inside PEFT's wrapper; its layers hold the adapters."""
    return cast("PreTrainedModel", model.get_base_model() if isinstance(model, PeftModel) else model)


def _decoder(model: nn.Module) -> nn.Module:
    return _unwrap(model).get_decoder()


def _vocabulary(model: nn.Module) -> int:
    return int(_unwrap(model).config.get_text_config().vocab_size)
