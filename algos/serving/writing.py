"""`Writing`: one completion on its way, speaker by speaker. Used by the worker's thread alone, apart from `cancel`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from agents.ensemble import challenged
from agents.policy import LLMPolicy
from agents.sampling import Completion, Request, SamplingParams
from agon_env.types import Message, Observation
from algos.serving.errors import APIError
from algos.serving.models import ServedModel
from algos.serving.text import StopSequences, TokenText

MOST_CHARACTERS_PER_TOKEN = 32
"""A prompt with more characters than this for each token of the limit is refused unread: reading it would take long."""


@dataclass(frozen=True)
class Asked:
    """One completion that is asked for."""

    model: ServedModel
    messages: tuple[Message, ...]
    max_tokens: int
    """Of each text."""
    max_total: int | None
    """Of all texts together; a speaker may take an equal share of what is left."""
    temperature: float
    seed: int
    stop: tuple[str, ...] = ()
    """Sequences at which the answer ends; drafts are not cut by them."""
    max_prompt: int | None = None


@dataclass(frozen=True)
class Begun:
    """The prompt was accepted."""


@dataclass(frozen=True)
class Piece:
    """Some text."""

    text: str
    draft: bool
    """Whether it belongs to a draft, not to the answer."""


@dataclass(frozen=True)
class End:
    """The completion is finished."""

    reason: Literal["stop", "length"]
    prompt_tokens: tuple[int, ...]
    """Of each speaker's prompt."""
    tokens: tuple[int, ...]
    """That each speaker sampled."""


Event: TypeAlias = Begun | Piece | End | Exception
Emit: TypeAlias = Callable[[Event], None]


class Writing:
    """A completion that is being written: who speaks, what was said, what is left to say."""

    def __init__(self, asked: Asked, emit: Emit) -> None:
        """Take a wish; `begin` must follow.

        Args:
            asked: what is to be written.
            emit: told everything that happens. An exception is the last thing it is told, as is an `End`.
        """
        self.asked, self._emit = asked, emit
        self.cancelled = False
        self.done = False
        self._prompt_tokens: list[int] = []
        self._tokens: list[int] = []
        self._said: list[int] = []
        self._stop = StopSequences(())

    def cancel(self) -> None:
        """Have the work end at the next token; may be called from any thread."""
        self.cancelled = True

    @property
    def turn(self) -> int:
        """How many have spoken."""
        return len(self._tokens)

    @property
    def policy(self) -> LLMPolicy:
        """Who speaks now."""
        return self.asked.model.speakers[self.turn]

    def begin(self) -> bool:
        """Read the prompt and say `Begun`; return True.

        Raises:
            APIError: it is too long, or can't be answered by this model.
        """
        messages, speakers = self.asked.messages, self.asked.model.speakers
        limit = min(self.policy.base.context_length - 1, self.asked.max_prompt or self.policy.base.context_length)
        if sum(len(message["content"]) for message in messages) > MOST_CHARACTERS_PER_TOKEN * limit:
            raise _too_long(limit)
        if len(speakers) > 1 and messages[-1]["role"] != "user":
            raise APIError(400, "the last message must be the user's: the pair drafts and answers it", param="messages")
        prompt = self.policy.chat.encode(messages)
        if len(prompt) > limit:
            raise _too_long(limit, len(prompt))
        self._ask(prompt)
        self._emit(Begun())
        return True

    def request(self) -> Request:
        """Return what the engine is to sample now."""
        row_seed = int(np.random.SeedSequence([self.asked.seed, self.turn]).generate_state(1, np.uint64)[0])
        return Request(
            self.policy,
            [[*self._prompt, *self._said]],
            SamplingParams(self._limit - len(self._said), self.asked.temperature),
            [row_seed],
            begun=[len(self._said)],
        )

    def take(self, token: int) -> bool:
        """Add a token that was drawn; return whether no more is to be drawn for this request.

        When the speaker is through, the next one is to speak, by another `request`; after the last one it is done.
        """
        self._said.append(token)
        ended = token in self.policy.base.eos_ids
        if not ended:
            self._say(self._text.add(token))
        if ended or self._stop.hit or len(self._said) >= self._limit:
            self._finish(ended=ended)
            return True
        return self.cancelled

    def fail(self, error: Exception) -> None:
        """Say that it went wrong, unless it is done."""
        if not self.done:
            self.done = True
            self._emit(error)

    # --- how it works -------------------------------------------------------------------------------

    @property
    def _last(self) -> bool:
        return self.turn == len(self.asked.model.speakers) - 1

    def _ask(self, prompt: list[int]) -> None:
        """Let the speaker whose turn it is begin."""
        left = self.asked.max_tokens
        if self.asked.max_total is not None:
            speakers = len(self.asked.model.speakers) - self.turn
            left = min(left, max(1, (self.asked.max_total - sum(self._tokens)) // speakers))
        self._prompt, self._prompt_tokens = prompt, [*self._prompt_tokens, len(prompt)]
        self._limit = min(left, self.policy.base.context_length - len(prompt))
        self._said = []
        self._text = TokenText(self.policy.base.tokenizer)
        self._stop = StopSequences(self.asked.stop if self._last else ())
        self._spoken = ""
        self._say(self.policy.chat.opened_thought)

    def _say(self, text: str) -> None:
        self._spoken += text
        if passed := self._stop.feed(text):
            self._emit(Piece(passed, draft=not self._last))

    def _finish(self, *, ended: bool) -> None:
        """End the speaker's text, which the model `ended` itself or which was cut."""
        whole = self.policy.decode(Completion(tuple(self._said), (), "stop" if ended else "length")).text
        if whole.startswith(self._spoken):
            self._say(whole[len(self._spoken) :])
        if held := self._stop.flush():
            self._emit(Piece(held, draft=not self._last))
        last = self._last
        self._tokens.append(len(self._said))
        if last:
            self.done = True
            self._emit(End("stop" if ended or self._stop.hit else "length", tuple(self._prompt_tokens), tuple(self._tokens)))
        else:
            self._ask(self._challenge(whole))

    def _challenge(self, draft: str) -> list[int]:
        """Return the prompt of a speaker who reads a draft, cut in its middle where the context has no room for all."""
        observation = Observation("user", "challenger", self.asked.messages)
        asked = challenged(observation, [draft], role="challenger", show_thinking=self.asked.model.show_thinking)
        context = self.policy.base.context_length
        return self.policy.chat.encode_within(asked.messages, context - min(self.asked.max_tokens, context // 2))


def _too_long(limit: int, tokens: int | None = None) -> APIError:
    have = f"; these messages take {tokens}" if tokens is not None else ""
    return APIError(
        400, f"a prompt may take {limit} tokens here{have}: shorten it", param="messages", code="context_length_exceeded"
    )
