"""What a model is asked: a conversation, which its chat template writes, or a text that it continues as it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agents.policy import LLMPolicy
from agents.sampling import Completion
from agon_env.types import Message
from algos.serving.errors import APIError

MOST_CHARACTERS_PER_TOKEN = 32
"""A prompt with more characters than this for each token of the limit is refused unread: reading it would take long."""


class Prompt(Protocol):
    """What comes before what a policy says."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation, to which a second speaker answers too."""
        ...

    @property
    def alternatives(self) -> int | None:
        """How many likely tokens are told of beside each token that was said; None: the tokens are not scored."""
        ...

    def encode(self, policy: LLMPolicy, *, limit: int) -> list[int]:
        """Return the token ids.

        Raises:
            APIError: there are more than `limit`, or the policy's model can't read them.
        """
        ...

    def context(self, ids: Sequence[int]) -> Sequence[int]:
        """Return the tokens of the prompt that the first token of the answer joins on to."""
        ...

    def echo(self, policy: LLMPolicy, ids: Sequence[int]) -> str | None:
        """Return the prompt as a text that the answer begins with; None: it does not."""
        ...

    def opened(self, policy: LLMPolicy) -> str:
        """Return what of the answer the prompt has written already."""
        ...

    def decode(self, policy: LLMPolicy, ids: Sequence[int], said: Completion) -> str:
        """Return the text of the answer, without the end-of-sequence token."""
        ...


@dataclass(frozen=True)
class Conversation:
    """Messages, in the form of the model's chat template."""

    messages: tuple[Message, ...]
    alternatives = None

    def encode(self, policy: LLMPolicy, *, limit: int) -> list[int]:
        """Return the token ids; see `Prompt`."""
        characters = sum(len(message["content"]) for message in self.messages)
        if characters > MOST_CHARACTERS_PER_TOKEN * limit or len(self.messages) > limit:  # a template marks every message
            raise _too_long(limit, param="messages")
        ids = policy.chat.encode(self.messages)
        if len(ids) > limit:
            raise _too_long(limit, param="messages", tokens=len(ids))
        return ids

    def context(self, ids: Sequence[int]) -> Sequence[int]:
        """Return nothing: the template ends where the answer begins."""
        return ()

    def echo(self, policy: LLMPolicy, ids: Sequence[int]) -> None:
        """Return None: a conversation is not repeated."""

    def opened(self, policy: LLMPolicy) -> str:
        """Return the mark of hidden reasoning, where the template writes it."""
        return policy.chat.opened_thought

    def decode(self, policy: LLMPolicy, ids: Sequence[int], said: Completion) -> str:
        """Return the text of the answer; see `Prompt`."""
        return policy.decode(said).text


@dataclass(frozen=True)
class Opening:
    """A text, or its token ids, that is continued without a chat template.

    A text is read as the tokenizer reads it by itself: with a first token where it sets one, and with special tokens
    wherever their names stand, because whoever writes templates of their own needs them.
    """

    text: str | tuple[int, ...]
    echoed: bool = False
    alternatives: int | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """Nothing: only one speaker continues a text."""
        return ()

    def encode(self, policy: LLMPolicy, *, limit: int) -> list[int]:
        """Return the token ids; see `Prompt`."""
        if isinstance(self.text, str):
            if len(self.text) > MOST_CHARACTERS_PER_TOKEN * limit:
                raise _too_long(limit, param="prompt")
            ids = list(policy.base.tokenizer(self.text.encode("utf-8", "replace").decode())["input_ids"])
        else:
            ids = list(self.text)
            vocabulary = policy.base.model.get_input_embeddings().num_embeddings
            if any(not 0 <= id < vocabulary for id in ids):
                raise APIError(400, f"token ids of this model are from 0 to {vocabulary - 1}", param="prompt")
        if not ids:
            raise APIError(400, "the prompt is empty: the model needs a token to go on from", param="prompt")
        if len(ids) > limit:
            raise _too_long(limit, param="prompt", tokens=len(ids))
        return ids

    def context(self, ids: Sequence[int]) -> Sequence[int]:
        """Return the whole prompt: whether a first word has a space before it depends on what it follows."""
        return ids

    def echo(self, policy: LLMPolicy, ids: Sequence[int]) -> str | None:
        """Return the prompt, if that was asked for; see `Prompt`."""
        if not self.echoed:
            return None
        return self.text if isinstance(self.text, str) else policy.chat.decode(ids)

    def opened(self, policy: LLMPolicy) -> str:
        """Return nothing: there is no template."""
        return ""

    def decode(self, policy: LLMPolicy, ids: Sequence[int], said: Completion) -> str:
        """Return the text of the answer; see `Prompt`."""
        answer = said.token_ids[:-1] if said.finish_reason == "stop" else said.token_ids
        before, whole = policy.chat.decode(ids), policy.chat.decode([*ids, *answer])
        return whole.removeprefix(before) if whole.startswith(before) else policy.chat.decode(answer)


def _too_long(limit: int, *, param: str, tokens: int | None = None) -> APIError:
    have = f"; this one takes {tokens}" if tokens is not None else ""
    message = f"a prompt may take {limit} tokens here{have}: shorten it"
    return APIError(400, message, param=param, code="context_length_exceeded")
