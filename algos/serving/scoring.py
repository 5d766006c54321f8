"""How likely the tokens of a text are to a policy: the log-probabilities that a completion can be asked for.

Dimension suffixes: `S` positions of a text, `N` tokens that have one before them, `D` width of the model, `V` vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from peft import PeftModel

from agents.policy import LLMPolicy
from algos.learning.logprobs import Head
from algos.serving.text import TokenText

LOGITS_AT_ONCE = 2**24
"""Logits that exist at once: 64 MB in float32."""


@dataclass(frozen=True)
class TokenScore:
    """How likely a token was after all that stands before it."""

    token: str
    offset: int
    """Characters of the text before it."""
    logprob: float | None
    """In nats, of the model as it is: at temperature 1. None: nothing stands before it."""
    likeliest: tuple[tuple[str, float], ...]
    """The most likely tokens at its place with their log-probabilities, the likeliest first."""


def score_text(policy: LLMPolicy, ids: Sequence[int], *, start: int, offset: int, alternatives: int) -> list[TokenScore]:
    """Score the tokens of a text from one of them on.

    Args:
        policy: whose probabilities.
        ids: the text.
        start: the first token that is scored.
        offset: where it begins.
        alternatives: how many likely tokens to tell of at each place.
    """
    spelled, stream = policy.base.tokenizer.decode, TokenText(policy.base.tokenizer, after=ids[:start])
    scores: list[TokenScore] = []
    for token, (logprob, likeliest) in zip(ids[start:], _logprobs(policy, ids, alternatives)[start:], strict=True):
        named = tuple((spelled([other]), value) for other, value in likeliest)
        scores.append(TokenScore(spelled([token]), max(0, offset), logprob, named))
        offset += len(stream.add(token))
    return scores


@torch.no_grad()
def _logprobs(policy: LLMPolicy, ids: Sequence[int], most: int) -> list[tuple[float | None, list[tuple[int, float]]]]:
    """Return for each token its log-probability, and those of the `most` likely ones at its place.

    One pass scores prompt and answer alike: the sampler has nothing to say of a prompt, and of an answer only at the
    temperature that it sampled at.
    """
    model: Any = policy.base.model
    inner: Any = model.get_base_model() if isinstance(model, PeftModel) else model
    ids_S = torch.tensor(list(ids), device=inner.get_input_embeddings().weight.device)
    found: list[tuple[float | None, list[tuple[int, float]]]] = [(None, [])]
    with policy.base.use(policy.name):
        hidden_ND = inner.get_decoder()(input_ids=ids_S[None], use_cache=False).last_hidden_state[0, :-1]
        head, chunk = Head.of(model), max(1, LOGITS_AT_ONCE // inner.config.get_text_config().vocab_size)
        for part_ND, targets_N in zip(hidden_ND.split(chunk), ids_S[1:].split(chunk), strict=True):
            logp_NV = torch.log_softmax(head(part_ND), dim=-1)
            own_N, top = logp_NV.gather(-1, targets_N[:, None])[:, 0], logp_NV.topk(most)
            found += [
                (logprob, list(zip(places, values, strict=True)))
                for logprob, places, values in zip(own_N.tolist(), top.indices.tolist(), top.values.tolist(), strict=True)
            ]
    return found
