"""From chat messages to token ids, in such a way that what a message says can't pose as the chat template.

The template's own text is tokenised with its special tokens. A special token that is spelled out inside a
message is broken up: it becomes ordinary tokens that decode to the same characters. Messages without such
text get exactly the ids of `tokenizer.apply_chat_template(..., add_generation_prompt=True)`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from jinja2 import TemplateError

from agents.errors import ChatTemplateFailed, ChatTemplateMissing
from agon_env.quoting import cut_middle, open_thought
from agon_env.types import Message

PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
"""A template for models that have none: `role: content`, separated by blank lines."""

_SURROGATE = re.compile("[\ud800-\udfff]")


class ChatFormat:
    """How one tokenizer writes conversations."""

    def __init__(self, tokenizer: Any, *, thinking: bool | None = None) -> None:
        """Prepare a tokenizer.

        Args:
            tokenizer: a Hugging Face tokenizer with a chat template.
            thinking: passed to the template as `enable_thinking`; None leaves the template's default. Templates
                that do not know it ignore it.

        Raises:
            ChatTemplateMissing: the tokenizer has no chat template.
        """
        if not tokenizer.chat_template:
            raise ChatTemplateMissing(
                "the tokenizer has no chat template, so it is probably of a base model; load an instruct model, "
                'or pass chat_template="plain" (role: content) or a Jinja template of your own',
            )
        self.tokenizer = tokenizer
        self.thinking = thinking
        template = tokenizer.chat_template if isinstance(tokenizer.chat_template, str) else str(tokenizer.chat_template)
        added = {token.content: token.special for token in tokenizer.added_tokens_decoder.values()}
        special = {text for text, is_special in added.items() if is_special} | set(tokenizer.all_special_tokens)
        marks = {text for text in added if text in template and len(text.strip()) > 2}
        self._special = _any_of(special)
        # The marks that the template itself writes, such as <think>, are special to the reader whatever they are
        # to the tokenizer. In its own messages they stay whole, so that the template can take out past thoughts.
        self._marks = _any_of(special | marks)

    @cached_property
    def opened_thought(self) -> str:
        r"""What of an answer's hidden reasoning the template writes itself, for example "<think>\n"; else ""."""
        probe = "What was said last."
        text, _ = self._render([{"role": "user", "content": probe}])
        return open_thought(text.rpartition(probe)[2])

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Return the token ids of the conversation with the opening of the answer.

        Raises:
            ChatTemplateFailed: the template raises.
        """
        return self._tokenize(*self._render(messages))

    def encode_within(self, messages: Sequence[Message], limit: int) -> list[int]:
        """Return the token ids, at most `limit` of them: the longest message loses text from its middle.

        Raises:
            ValueError: the conversation is too long even without that message's text.
        """
        ids = self.encode(messages)
        kept = [len(message["content"]) for message in messages]
        while len(ids) > limit:
            if not any(kept):
                raise ValueError(f"the chat template alone takes {len(ids)} tokens, more than {limit}")
            longest = kept.index(max(kept))
            # A character is at most a few tokens; taking out as many characters as there are tokens too many ends soon.
            kept[longest] = max(0, kept[longest] - max(len(ids) - limit, kept[longest] // 16, 5))
            contents = [cut_middle(message["content"], keep) for message, keep in zip(messages, kept, strict=True)]
            ids = self.encode([{**message, "content": text} for message, text in zip(messages, contents, strict=True)])
        return ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of sampled tokens, verbatim: special tokens among them are spelled out."""
        return self.tokenizer.decode(list(token_ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def _render(self, messages: Sequence[Message]) -> tuple[str, str]:
        """Return the conversation as text, and the string that stands in it where tokens must not join."""
        contents = [_SURROGATE.sub("\ufffd", message["content"]) for message in messages]
        seam = "\ufdd0"  # a character that Unicode reserves for internal use
        while any(seam in content for content in contents):
            seam += "\ufdd0"
        broken = [
            {**message, "content": _break(content, self._special if message["role"] == "assistant" else self._marks, seam)}
            for message, content in zip(messages, contents, strict=True)
        ]
        try:
            return self._apply(broken), seam
        except TemplateError:  # the template takes no system message, or none but alternating roles
            pass
        except Exception as error:  # it is a program of somebody else's
            raise _failed(error) from error
        try:
            return self._apply(_alternating(broken)), seam
        except Exception as error:
            raise _failed(error) from error

    def _apply(self, messages: Sequence[Message]) -> str:
        options = {} if self.thinking is None else {"enable_thinking": self.thinking}
        return self.tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True, **options)

    def _tokenize(self, text: str, seam: str) -> list[int]:
        pieces = [piece for piece in text.split(seam) if piece]
        return [token for ids in self.tokenizer(pieces, add_special_tokens=False)["input_ids"] for token in ids]


def _failed(error: Exception) -> ChatTemplateFailed:
    return ChatTemplateFailed(
        f"the chat template can't write the messages ({type(error).__name__}: {error}): mend it, or pass another as "
        "chat_template="
    )


def _alternating(messages: Sequence[Message]) -> list[Message]:
    """Return the conversation with alternating roles: the system speaks as the user, neighbours of a role are joined."""
    joined: list[Message] = []
    for message in messages:
        role = "user" if message["role"] == "system" else message["role"]
        if joined and joined[-1]["role"] == role:
            joined[-1]["content"] += "\n\n" + message["content"]
        else:
            joined.append({"role": role, "content": message["content"]})
    return joined


def _any_of(texts: set[str]) -> re.Pattern[str] | None:
    """Return a pattern that finds any of the texts that can be broken, the longest first."""
    choices = sorted((text for text in texts if len(text) > 1), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, choices))) if choices else None


def _break(text: str, pattern: re.Pattern[str] | None, seam: str) -> str:
    """Put the seam behind the first character of every match, until nothing matches."""
    while pattern is not None and pattern.search(text):
        text = pattern.sub(lambda match: match[0][0] + seam + match[0][1:], text)
    return text
