"""Requests to the two endpoints, as far as they are understood here; see `forms` for the responses.

A parameter that would change the text and is not supported is refused, not ignored. There is no top-p, penalty or the
like, because policies sample as they were trained (see `agents.sampling.SamplingParams`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from algos.serving.errors import APIError

MOST_LOGPROBS = 5
"""Likely tokens that are told of beside each token, as OpenAI has it."""
MOST_NAMED = 100
"""Characters of a field's name that a refusal repeats."""

Item = TypeVar("Item")
Several: TypeAlias = Annotated[list[Item], Field(fail_fast=True)]
"""A list of which the first fault is enough: to tell of all those in a megabyte would hold up the server for seconds."""


class Strict(BaseModel):
    """Takes values of the right type alone: true is no number, and neither is "1"."""

    model_config = ConfigDict(strict=True)


class TextPart(Strict):
    """A part of a message; only texts are read."""

    type: Literal["text"]
    text: str


class ChatMessage(Strict):
    """One message of the conversation; what else it carries, such as an earlier draft, is not read."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | Several[TextPart]

    def plain(self) -> dict[str, str]:
        """Return the message as chat templates take it."""
        content = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return {"role": "system" if self.role == "developer" else self.role, "content": content}


class StreamOptions(Strict):
    """What a stream holds beside the text."""

    include_usage: bool = False


_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "top_p": (1,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
}
"""Parameters that are taken only with a value that changes nothing."""

_NEUTRAL_IN_A_CHAT = _NEUTRAL | {
    "logprobs": (False,),
    "top_logprobs": (0,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
}
_NEUTRAL_IN_A_TEXT = _NEUTRAL | {"best_of": (1,), "suffix": ("",)}


class AnyRequest(Strict):
    """What the bodies of both endpoints have in common."""

    model_config = ConfigDict(extra="forbid")

    model: str
    max_tokens: int | None = Field(None, ge=1)
    """Most tokens of a text; of the pair's draft and of its answer, each."""
    temperature: float | None = Field(None, ge=0, le=2)
    seed: int | None = None
    n: int | None = Field(None, ge=1)
    stop: str | Several[str] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    top_p: Any = None
    frequency_penalty: Any = None
    presence_penalty: Any = None
    logit_bias: Any = None

    user: Any = None

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop sequences."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())


class ChatRequest(AnyRequest):
    """The body of a request to `/v1/chat/completions`."""

    messages: Several[ChatMessage] = Field(min_length=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    """Most tokens of draft and answer together; the draft has half of them."""

    logprobs: Any = None
    top_logprobs: Any = None
    tools: Any = None
    tool_choice: Any = None
    parallel_tool_calls: Any = None
    response_format: Any = None
    modalities: Any = None

    metadata: Any = None
    store: Any = None
    service_tier: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None

    @field_validator(*_NEUTRAL_IN_A_CHAT)
    @classmethod
    def _changes_nothing(cls, value: Any, info: Any) -> Any:
        return _neutral(value, info.field_name, _NEUTRAL_IN_A_CHAT)


class TextRequest(AnyRequest):
    """The body of a request to `/v1/completions`."""

    prompt: tuple[str | tuple[int, ...], ...]
    """Texts, or token ids."""
    max_tokens: int | None = Field(None, ge=0)
    """Most tokens of a text. 0 says nothing: the prompt is only echoed."""
    echo: bool | None = None
    """Whether each text begins with its prompt."""
    logprobs: int | None = Field(None, ge=0, le=MOST_LOGPROBS)
    """How many likely tokens are told of beside each token of the text."""

    best_of: Any = None
    suffix: Any = None

    @field_validator("prompt", mode="before")
    @classmethod
    def _several(cls, value: Any) -> tuple[Any, ...]:
        several = value if isinstance(value, list) and value and not _is_id(value[0]) else [value]
        for one in several:
            if not (isinstance(one, str) or (isinstance(one, list) and all(map(_is_id, one)))):
                raise ValueError("prompt must be a text, a list of token ids, or a list of either")
        return tuple(one if isinstance(one, str) else tuple(one) for one in several)

    @field_validator(*_NEUTRAL_IN_A_TEXT)
    @classmethod
    def _changes_nothing(cls, value: Any, info: Any) -> Any:
        return _neutral(value, info.field_name, _NEUTRAL_IN_A_TEXT)

    @model_validator(mode="after")
    def _fits(self) -> TextRequest:
        if self.max_tokens == 0 and not self.echo:
            raise ValueError("max_tokens may be 0 only with echo")
        if self.stream and self.logprobs is not None:
            raise ValueError("logprobs are not supported in a stream; leave one of the two out")
        return self


def _neutral(value: Any, name: str, neutral: dict[str, tuple[Any, ...]]) -> Any:
    if value is not None and not any(value == same for same in neutral[name]):
        raise ValueError(f"{name} is not supported here; leave it out")
    return value


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


Request = TypeVar("Request", bound=AnyRequest)


def read_request(body: bytes, kind: type[Request]) -> Request:
    """Return the request in `body`.

    Raises:
        APIError: it is not one; the message names the field.
    """
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        param = ".".join(map(str, first["loc"]))[:MOST_NAMED] or None
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


def model_list(names: list[str], *, created: int) -> dict[str, Any]:
    """Return what `/v1/models` says."""
    return {"object": "list", "data": [model_card(name, created=created) for name in names]}


def model_card(name: str, *, created: int) -> dict[str, Any]:
    """Return what `/v1/models/NAME` says."""
    return {"id": name, "object": "model", "created": created, "owned_by": "agon-env"}
