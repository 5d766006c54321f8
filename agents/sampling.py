"""The seam between policies and whatever generates their tokens.

`SamplingParams`  how to sample.
`Completion`      what came out, token by token.
`Engine`          the protocol: torch, vLLM and Ray engines implement it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from agents.policy import LLMPolicy

MIN_TEMPERATURE = 1e-3
"""Least temperature to sample with: logits that are divided by much less overflow, and their log-probabilities are NaN."""


@dataclass(frozen=True)
class SamplingParams:
    """How to sample. There is no top-p, top-k or the like: they bias the importance ratio of training."""

    max_tokens: int = 256
    """Most tokens of one completion, its end-of-sequence token included."""
    temperature: float = 1.0
    """The logits are divided by it before the softmax; 0 takes the most likely token."""

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, not {self.max_tokens}")
        if not (self.temperature == 0 or MIN_TEMPERATURE <= self.temperature < float("inf")):
            raise ValueError(
                f"temperature must be 0 (the most likely token) or a number from {MIN_TEMPERATURE} up, not {self.temperature}"
            )


@dataclass(frozen=True)
class Completion:
    """One sampled continuation."""

    token_ids: tuple[int, ...]
    """The sampled ids; the end-of-sequence token is among them when the model said it."""
    logprobs: tuple[float, ...]
    """Log-probability of each sampled id at the sampling temperature (at temperature 0: at 1)."""
    finish_reason: Literal["stop", "length"]
    """"stop": the model ended it; "length": it was cut at `max_tokens` or at the model's context."""


class Engine(Protocol):
    """Samples completions for prompts that are token ids already."""

    def sample(
        self,
        policy: LLMPolicy,
        prompts: Sequence[Sequence[int]],
        params: SamplingParams,
        *,
        seeds: Sequence[int],
    ) -> list[Completion]:
        """Return one completion for each prompt.

        Equal prompts share the computation of their prefix. `seeds` holds one seed per row: a row's text
        depends on its prompt, its seed and the policy's weights, not on the rows beside it.
        """
        ...
