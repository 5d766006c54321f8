"""`Writing`: one completion on its way, speaker by speaker. Used by the worker's thread alone, apart from `cancel`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from agents.ensemble import challenged
from agents.policy import LLMPolicy
from agents.sampling import Completion, Request, SamplingParams
from agon_env.types import Observation
from algos.serving.errors import APIError
from algos.serving.models import ServedModel
from algos.serving.prompts import Prompt
from algos.serving.scoring import TokenScore, score_text
from algos.serving.text import StopSequences, TokenText


@dataclass(frozen=True)
class Asked:
    """One completion that is asked for."""

    model: ServedModel
    prompt: Prompt
    max_tokens: int
    """Of each text; 0 says nothing, and only shows or scores the prompt."""
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
    scores: tuple[TokenScore, ...] | None = None
    """Of the tokens that the text shows, and of the one that ended it; None where nobody asked."""


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
        self._reason: Literal["stop", "length"] = "length"
        self._echo: str | None = None
        self._length = 0
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
        """Who speaks now, or who has spoken last."""
        return self.asked.model.speakers[: self.turn + 1][-1]

    @property
    def unscored(self) -> bool:
        """Whether all is said, and `score` must follow."""
        return self.turn == len(self.asked.model.speakers) and not self.done

    def begin(self) -> bool:
        """Read the prompt and say `Begun`; return True.

        Raises:
            APIError: it is too long, or can't be answered by this model.
        """
        asked, policy = self.asked.prompt, self.policy
        limit = min(policy.base.context_length - 1, self.asked.max_prompt or policy.base.context_length)
        if len(self.asked.model.speakers) > 1 and asked.messages[-1]["role"] != "user":
            raise APIError(400, "the last message must be the user's: the pair drafts and answers it", param="messages")
        prompt = asked.encode(policy, limit=limit)
        self._emit(Begun())
        self._echo = asked.echo(policy, prompt)
        if self._echo is not None:
            self._show(self._echo)
        self._ask(prompt, context=asked.context(prompt), opened=asked.opened(policy))
        if self._limit == 0:
            self._finish(ended=False)
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

    def score(self) -> bool:
        """Score the tokens of a text that is finished, by a pass of the model, and end; return True."""
        whole, start = [*self._prompt, *self._said], 0 if self._echo is not None else len(self._prompt)
        offset = 0 if self._echo is None else len(self._echo) - len(self.policy.chat.decode(self._prompt))
        scores = score_text(self.policy, whole, start=start, offset=offset, alternatives=self.asked.prompt.alternatives or 0)
        if self._stop.hit:
            scores = [score for score in scores if score.offset < self._length]
        self._end(tuple(scores))
        return True

    def fail(self, error: Exception) -> None:
        """Say that it went wrong, unless it is done."""
        if not self.done:
            self.done = True
            self._emit(error)

    # --- how it works -------------------------------------------------------------------------------

    @property
    def _last(self) -> bool:
        return self.turn == len(self.asked.model.speakers) - 1

    def _ask(self, prompt: list[int], *, context: Sequence[int] = (), opened: str) -> None:
        """Let the speaker whose turn it is begin.

        Args:
            prompt: what is read.
            context: the tokens of it that the text goes on from.
            opened: what of the text the prompt has written already.
        """
        left = self.asked.max_tokens
        if self.asked.max_total is not None:
            speakers = len(self.asked.model.speakers) - self.turn
            left = min(left, max(1, (self.asked.max_total - sum(self._tokens)) // speakers))
        self._prompt, self._prompt_tokens = prompt, [*self._prompt_tokens, len(prompt)]
        self._limit = min(left, self.policy.base.context_length - len(prompt))
        self._said = []
        self._text = TokenText(self.policy.base.tokenizer, after=context)
        self._stop = StopSequences(self.asked.stop if self._last else ())
        self._spoken = ""
        self._say(opened)

    def _say(self, text: str) -> None:
        self._spoken += text
        self._show(self._stop.feed(text))

    def _show(self, text: str) -> None:
        self._length += len(text)
        if text:
            self._emit(Piece(text, draft=not self._last))

    def _finish(self, *, ended: bool) -> None:
        """End the speaker's text, which the model `ended` itself or which was cut."""
        whole = self.asked.prompt.decode(
            self.policy, self._prompt, Completion(tuple(self._said), (), "stop" if ended else "length")
        )
        if whole.startswith(self._spoken):
            self._say(whole[len(self._spoken) :])
        self._show(self._stop.flush())
        last = self._last
        self._tokens.append(len(self._said))
        self._reason = "stop" if ended or self._stop.hit else "length"
        if not last:
            self._ask(self._challenge(whole), opened=self.policy.chat.opened_thought)
        elif self.asked.prompt.alternatives is None:
            self._end(None)

    def _end(self, scores: tuple[TokenScore, ...] | None) -> None:
        self.done = True
        self._emit(End(self._reason, tuple(self._prompt_tokens), tuple(self._tokens), scores))

    def _challenge(self, draft: str) -> list[int]:
        """Return the prompt of a speaker who reads a draft, cut in its middle where the context has no room for all."""
        observation = Observation("user", "challenger", self.asked.prompt.messages)
        asked = challenged(observation, [draft], role="challenger", reveal=self.asked.model.reveal)
        context = self.policy.base.context_length
        return self.policy.chat.encode_within(asked.messages, context - min(self.asked.max_tokens, context // 2))
