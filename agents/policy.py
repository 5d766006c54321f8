"""`LLMPolicy`: a player whose moves a language model samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from agents.agent import Agent
from agents.chat import ChatFormat
from agents.errors import PromptTooLong
from agents.sampling import Completion, Engine, SamplingParams
from agon_env.types import Action, Observation

if TYPE_CHECKING:
    from torch import nn

    from agents.shared_base import SharedBase


class LLMPolicy(Agent):
    """One adapter of a shared base, or the bare base, as a player.

    Made by `SharedBase.policy`. For training it is four things: `encode` (observation → token ids), `sample`
    (token ids → completions), `decode` (completion → action) and `parameters`.
    """

    def __init__(
        self,
        base: SharedBase,
        name: str,
        *,
        params: SamplingParams,
        engine: Engine,
        thinking: bool | None = None,
        on_long_prompt: Literal["error", "cut"] = "error",
        seed: int = 0,
    ) -> None:
        """Make a handle; `SharedBase.policy` is the usual way.

        Args:
            base: the model and its adapters.
            name: the adapter, or "base" for none.
            params: how `act` samples, and `sample` by default.
            engine: what generates the tokens.
            thinking: whether a chat template that knows thinking turns it on; None is the template's default.
            on_long_prompt: what becomes of a prompt that leaves no room for `max_tokens` in the context:
                "error" raises `PromptTooLong`, "cut" takes text out of the middle of the longest message.
            seed: begins the stream of seeds that `act` samples with.
        """
        self.base = base
        self.name = name
        self.params = params
        self.engine = engine
        self.on_long_prompt = on_long_prompt
        self.chat = ChatFormat(base.tokenizer, thinking=thinking)
        self.tokens_spent = 0
        """Tokens that `act` has sampled so far."""
        self.seed(seed)

    def __repr__(self) -> str:
        return f"LLMPolicy({self.name!r} on {self.base.name!r})"

    # --- playing ------------------------------------------------------------------------------------

    def seed(self, seed: int) -> None:
        """Begin the stream of row seeds of `act` anew; players of different names get different streams."""
        self._seeds = np.random.default_rng([seed, *self.name.encode()])

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        """Sample one action for each observation, all in one batch."""
        prompts = [self.encode(observation) for observation in observations]
        seeds = [int(seed) for seed in self._seeds.integers(2**63, size=len(prompts))]
        completions = self.sample(prompts, seeds=seeds)
        self.tokens_spent += sum(len(completion.token_ids) for completion in completions)
        return [self.decode(completion) for completion in completions]

    # --- what learning needs ------------------------------------------------------------------------

    def encode(self, observation: Observation, *, params: SamplingParams | None = None) -> tuple[int, ...]:
        """Return the prompt of an observation as token ids.

        Args:
            observation: what the player sees.
            params: what it will be sampled with; the prompt leaves room for their `max_tokens`. Default: the policy's own.

        Raises:
            PromptTooLong: it leaves no room for a completion, and may not be cut.
        """
        ids = self.chat.encode(observation.messages)
        max_tokens = (params or self.params).max_tokens
        room = self.base.context_length - max_tokens
        if len(ids) <= room:
            return tuple(ids)
        problem = (
            f"the prompt of {observation.role} takes {len(ids)} tokens, but a context of {self.base.context_length} "
            f"less {max_tokens} to sample has room for {room}"
        )
        if self.on_long_prompt == "error":
            raise PromptTooLong(f'{problem}. Sample fewer tokens, or make the policy with on_long_prompt="cut"')
        try:
            return tuple(self.chat.encode_within(observation.messages, room))
        except ValueError as error:
            raise PromptTooLong(f"{problem}, and it can't be cut to that: {error}") from error

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        params: SamplingParams | None = None,
        seeds: Sequence[int],
    ) -> list[Completion]:
        """Return one completion for each prompt; see `agents.sampling.Engine`."""
        return self.engine.sample(self, prompts, params or self.params, seeds=seeds)

    def decode(self, completion: Completion) -> Action:
        """Return a completion as an action: its text, verbatim, without the end-of-sequence token.

        Where the chat template has opened hidden reasoning (`<think>`) for the model, the text begins with that
        mark: without it, nobody could tell reasoning that was cut off from an answer.
        """
        ended = completion.finish_reason == "stop"
        token_ids = completion.token_ids[:-1] if ended else completion.token_ids
        return Action(self.chat.opened_thought + self.chat.decode(token_ids), truncated=not ended)

    def parameters(self) -> list[nn.Parameter]:
        """Return what may be trained: the adapter's parameters, always the same objects; empty for the bare base."""
        return self.base.parameters(self.name)

    def save(self, folder: str | Path) -> None:
        """Write the adapter to `folder`, in the layout that `PeftModel.from_pretrained` loads."""
        self.base.save(self.name, folder)
