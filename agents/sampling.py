"""The seam between policies and whatever generates their tokens.

`SamplingParams`  how to sample.
`Completion`      what came out, token by token.
`Engine`          the protocol: torch, vLLM and Ray engines implement it.
`Request`         rows of one policy.
`sample_many`     rows of several policies, in one batch where the engine can.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

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


@dataclass(frozen=True)
class Request:
    """Rows of one policy."""

    policy: LLMPolicy
    prompts: Sequence[Sequence[int]]
    params: SamplingParams
    seeds: Sequence[int]
    begun: Sequence[int] | None = None
    """For each row the tokens at the end of its prompt that were sampled before: it goes on as if it had not stopped; behind a
    server, with luck that it has not had."""


Row: TypeAlias = tuple[int, int]
"""A row of several requests: the place of its request, and its own place in that."""

Watch: TypeAlias = Callable[[Sequence[Row], Sequence[int]], Collection[Row]]
"""Told after every step which rows have said which tokens; returns the rows that end here, cut off."""


def sample_many(requests: Sequence[Request]) -> list[list[Completion]]:
    """Return the completions of each request, as the engines of their policies sample them.

    An engine that has a method `sample_many` gets all requests of its policies at once, so that both directions of a
    duel (A drafts while B drafts) can share a batch. Every row is what `Engine.sample` makes of it, up to rounding.
    """
    completions: list[list[Completion]] = [[] for _ in requests]
    by_engine: dict[int, list[int]] = {}
    for place, request in enumerate(requests):
        by_engine.setdefault(id(request.policy.engine), []).append(place)
    for places in by_engine.values():
        asked = [requests[place] for place in places]
        together = getattr(asked[0].policy.engine, "sample_many", None)
        found = (
            together(asked)
            if together
            else [one.policy.sample(one.prompts, params=one.params, seeds=one.seeds) for one in asked]
        )
        for place, ones in zip(places, found, strict=True):
            completions[place] = ones
    return completions
