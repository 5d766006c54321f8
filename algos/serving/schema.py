"""Requests and responses of `/v1/chat/completions`, as far as they are understood here.

A parameter that would change the text and is not supported is refused, not ignored. There is no top-p, penalty or the
like, because policies sample as they were trained (see `agents.sampling.SamplingParams`).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from algos.serving.errors import APIError


class TextPart(BaseModel):
    """A part of a message; only texts are read."""

    type: Literal["text"]
    text: str


class ChatMessage(BaseModel):
    """One message of the conversation; what else it carries, such as an earlier draft, is not read."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]

    def plain(self) -> dict[str, str]:
        """Return the message as chat templates take it."""
        content = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return {"role": "system" if self.role == "developer" else self.role, "content": content}


class StreamOptions(BaseModel):
    """What a stream holds beside the text."""

    include_usage: bool = False


_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "top_p": (1,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
}
"""Parameters that are taken only with a value that changes nothing."""


class ChatRequest(BaseModel):
    """The body of a request."""

    model_config = ConfigDict(extra="forbid")

    model: str
    messages: list[ChatMessage] = Field(min_length=1)
    max_tokens: int | None = Field(None, ge=1)
    """Most tokens of a text; of the pair's draft and of its answer, each."""
    max_completion_tokens: int | None = Field(None, ge=1)
    """Most tokens of draft and answer together; the draft has half of them."""
    temperature: float | None = Field(None, ge=0, le=2)
    seed: int | None = None
    n: int | None = Field(None, ge=1)
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    top_p: Any = None
    frequency_penalty: Any = None
    presence_penalty: Any = None
    logit_bias: Any = None
    logprobs: Any = None
    top_logprobs: Any = None
    tools: Any = None
    tool_choice: Any = None
    parallel_tool_calls: Any = None
    response_format: Any = None
    modalities: Any = None

    user: Any = None
    metadata: Any = None
    store: Any = None
    service_tier: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None

    @field_validator(*_NEUTRAL)
    @classmethod
    def _changes_nothing(cls, value: Any, info: Any) -> Any:
        if value is not None and not any(value == neutral for neutral in _NEUTRAL[info.field_name]):
            raise ValueError(f"{info.field_name} is not supported here; leave it out")
        return value

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop sequences."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())


def read_request(body: bytes) -> ChatRequest:
    """Return the request in `body`.

    Raises:
        APIError: it is not one; the message names the field.
    """
    try:
        return ChatRequest.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        param = ".".join(map(str, first["loc"])) or None
        unknown = first["type"] == "extra_forbidden"
        message = f"unrecognized request argument: {param}" if unknown else first["msg"].removeprefix("Value error, ")
        text = f"{param}: {message}" if param and not message.startswith(str(param)) and not unknown else message
        raise APIError(400, text, param=param, code="invalid_value") from error


def usage(*, prompt: int, draft: int, answer: int) -> dict[str, Any]:
    """Return the tokens that were read and sampled, those of the draft among them."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": draft + answer,
        "total_tokens": prompt + draft + answer,
        "completion_tokens_details": {"reasoning_tokens": draft},
    }


def completion(id: str, *, created: int, model: str, choices: list[dict[str, Any]], used: dict[str, Any]) -> dict[str, Any]:
    """Return a whole response."""
    return {"id": id, "object": "chat.completion", "created": created, "model": model, "choices": choices, "usage": used}


def choice(index: int, *, answer: str, draft: str | None, reason: str) -> dict[str, Any]:
    """Return one text of a response; a draft is its reasoning content."""
    message = {"role": "assistant", "content": answer, "refusal": None}
    message |= {} if draft is None else {"reasoning_content": draft}
    return {"index": index, "message": message, "finish_reason": reason, "logprobs": None}


def chunk(
    id: str, *, created: int, model: str, choices: list[dict[str, Any]], used: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return one event of a stream."""
    record = {"id": id, "object": "chat.completion.chunk", "created": created, "model": model, "choices": choices}
    return record if used is None else record | {"usage": used}


def delta(index: int, piece: dict[str, Any], *, reason: str | None = None) -> dict[str, Any]:
    """Return what one event adds to one text."""
    return {"index": index, "delta": piece, "finish_reason": reason, "logprobs": None}


def model_list(names: list[str], *, created: int) -> dict[str, Any]:
    """Return what `/v1/models` says."""
    return {"object": "list", "data": [model_card(name, created=created) for name in names]}


def model_card(name: str, *, created: int) -> dict[str, Any]:
    """Return what `/v1/models/NAME` says."""
    return {"id": name, "object": "model", "created": created, "owned_by": "agon-env"}
