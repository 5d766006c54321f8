"""Texts as other libraries can carry them."""

from __future__ import annotations

from collections.abc import Iterable

from agon_env.types import Message


def storable(text: str) -> str:
    """Return the text with U+FFFD in the place of lone surrogates, which UTF-8, and with it Arrow and servers, can't hold."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def storable_messages(messages: Iterable[Message]) -> list[Message]:
    """Return chat messages with their contents as `storable` gives them."""
    return [{"role": message["role"], "content": storable(message["content"])} for message in messages]
