"""How the two endpoints write what was said: as messages of a chat, or as texts that go on."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from algos.serving.scoring import TokenScore
from algos.serving.writing import End, Piece


class Form(Protocol):
    """How one request is answered."""

    def choice(self, index: int, pieces: Sequence[Piece], end: End) -> dict[str, Any]:
        """Return one text of a whole response."""
        ...

    def whole(self, choices: Sequence[dict[str, Any]], used: dict[str, Any]) -> dict[str, Any]:
        """Return a whole response."""
        ...

    def opening(self, index: int) -> dict[str, Any] | None:
        """Return the event with which a text begins in a stream, if there is one."""
        ...

    def piece(self, index: int, piece: Piece) -> dict[str, Any]:
        """Return the event that adds to a text."""
        ...

    def ending(self, index: int, end: End) -> dict[str, Any]:
        """Return the event with which a text ends."""
        ...

    def used(self, used: dict[str, Any]) -> dict[str, Any]:
        """Return the event that says what was used."""
        ...


def _now() -> int:
    return int(time.time())


@dataclass(frozen=True)
class ChatForm:
    """`/v1/chat/completions`: messages; a draft is the reasoning content."""

    model: str
    drafted: bool
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")
    created: int = field(default_factory=_now)

    def choice(self, index: int, pieces: Sequence[Piece], end: End) -> dict[str, Any]:
        """Return one message; see `Form`."""
        answer, draft = ("".join(piece.text for piece in pieces if piece.draft is drafted) for drafted in (False, True))
        message = {"role": "assistant", "content": answer, "refusal": None}
        message |= {"reasoning_content": draft} if self.drafted else {}
        return {"index": index, "message": message, "finish_reason": end.reason, "logprobs": None}

    def whole(self, choices: Sequence[dict[str, Any]], used: dict[str, Any]) -> dict[str, Any]:
        """Return a whole response; see `Form`."""
        return self._record("chat.completion", choices) | {"usage": used}

    def opening(self, index: int) -> dict[str, Any]:
        """Return the event that names who speaks."""
        return self._event(index, {"role": "assistant", "content": ""})

    def piece(self, index: int, piece: Piece) -> dict[str, Any]:
        """Return the event that adds to draft or answer; see `Form`."""
        return self._event(index, {"reasoning_content" if piece.draft else "content": piece.text})

    def ending(self, index: int, end: End) -> dict[str, Any]:
        """Return the event with which a message ends; see `Form`."""
        return self._event(index, {}, reason=end.reason)

    def used(self, used: dict[str, Any]) -> dict[str, Any]:
        """Return the event that says what was used; see `Form`."""
        return self._record("chat.completion.chunk", []) | {"usage": used}

    def _event(self, index: int, delta: dict[str, Any], *, reason: str | None = None) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "finish_reason": reason, "logprobs": None}
        return self._record("chat.completion.chunk", [choice])

    def _record(self, kind: str, choices: Sequence[dict[str, Any]]) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model, "choices": [*choices]}


@dataclass(frozen=True)
class TextForm:
    """`/v1/completions`: texts; events of a stream look like whole responses."""

    model: str
    id: str = field(default_factory=lambda: f"cmpl-{uuid.uuid4().hex}")
    created: int = field(default_factory=_now)

    def choice(self, index: int, pieces: Sequence[Piece], end: End) -> dict[str, Any]:
        """Return one text; see `Form`."""
        scored = None if end.scores is None else _logprobs(end.scores)
        return _text(index, "".join(piece.text for piece in pieces), reason=end.reason) | {"logprobs": scored}

    def whole(self, choices: Sequence[dict[str, Any]], used: dict[str, Any]) -> dict[str, Any]:
        """Return a whole response; see `Form`."""
        return self._record(choices) | {"usage": used}

    def opening(self, index: int) -> None:
        """Return nothing: the first event holds text."""

    def piece(self, index: int, piece: Piece) -> dict[str, Any]:
        """Return the event that adds to a text; see `Form`."""
        return self._record([_text(index, piece.text)])

    def ending(self, index: int, end: End) -> dict[str, Any]:
        """Return the event with which a text ends; see `Form`."""
        return self._record([_text(index, "", reason=end.reason)])

    def used(self, used: dict[str, Any]) -> dict[str, Any]:
        """Return the event that says what was used; see `Form`."""
        return self._record([]) | {"usage": used}

    def _record(self, choices: Sequence[dict[str, Any]]) -> dict[str, Any]:
        head = {"id": self.id, "object": "text_completion", "created": self.created, "model": self.model}
        return head | {"choices": [*choices]}


def _text(index: int, text: str, *, reason: str | None = None) -> dict[str, Any]:
    return {"index": index, "text": text, "finish_reason": reason, "logprobs": None}


def _logprobs(scores: Sequence[TokenScore]) -> dict[str, Any]:
    """Return scores as `/v1/completions` has them: a token of the text is among the likely ones even if it is not."""
    likely: list[dict[str, float] | None] = []
    for score in scores:
        if score.logprob is None:
            likely.append(None)
            continue
        named: dict[str, float] = {}
        for token, value in (*score.likeliest, (score.token, score.logprob)):
            named.setdefault(token, value)  # tokens that are parts of a character may be spelled alike: the likelier one stays
        likely.append(named)
    return {
        "tokens": [score.token for score in scores],
        "token_logprobs": [score.logprob for score in scores],
        "top_logprobs": likely,
        "text_offset": [score.offset for score in scores],
    }
