"""The routes of the server, with their limits: `/v1/chat/completions`, `/v1/completions`, `/v1/models`, `/health`."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from agents.sampling import MIN_TEMPERATURE
from algos.errors import ConfigError
from algos.serving import schema
from algos.serving.entrance import CLOSE, Entrance
from algos.serving.errors import APIError
from algos.serving.forms import ChatForm, Form, TextForm
from algos.serving.models import ServedModel
from algos.serving.prompts import Conversation, Opening, Prompt
from algos.serving.replies import Reply
from algos.serving.worker import Worker
from algos.serving.writing import Asked

TOKENS_OF_A_TEXT = 16
"""Most tokens of a text of `/v1/completions`, where the request does not say; OpenAI's default."""


@dataclass(frozen=True)
class Limits:
    """What one client, or all of them, may ask for."""

    concurrency: int = 128
    """Completions that are written or wait at one time; more are refused with 429."""
    tokens: int = 2048
    """Most tokens of one text."""
    prompt_tokens: int | None = None
    """Most tokens of a prompt; None: what the model's context holds."""
    choices: int = 8
    """Most completions of one prompt (`n`)."""
    stops: int = 8
    """Most stop sequences of one request."""
    stop_characters: int = 256
    """Longest stop sequence."""
    body_bytes: int = 1 << 20
    """Largest body of a request."""
    body_seconds: float = 20.0
    """For a body to arrive."""
    seconds: float = 600.0
    """For a completion; what is not finished then is given up."""


class ChatServer:
    """Answers requests with the worker's help."""

    def __init__(
        self,
        models: Mapping[str, ServedModel],
        *,
        limits: Limits | None = None,
        api_key: str | None = None,
        max_rows: int = 64,
    ) -> None:
        """Serve `models`.

        Args:
            models: by name; see `algos.serving.models.served_models`.
            limits: what clients may ask for.
            api_key: what they must know; None lets everybody in who can reach the server.
            max_rows: most completions in one batch.

        Raises:
            ConfigError: the key is empty.
        """
        if api_key is not None and not api_key.strip():
            raise ConfigError("the key that clients must send is empty: choose one, or serve without a key")
        self.models, self.limits = models, limits or Limits()
        self.worker = Worker(max_rows=max_rows)
        self._key = None if api_key is None else _digest(api_key.strip().encode())
        self._created = int(time.time())
        self.busy = 0
        """Completions that are written or wait."""

    def app(self, *, allowed_hosts: Sequence[str], any_address: bool = False) -> Starlette:
        """Return the ASGI application.

        Args:
            allowed_hosts: names by which the server may be called; see `Entrance`.
            any_address: whether it may be called by any number as well.
        """
        return Starlette(
            routes=[
                Route("/health", self._health),
                Route("/v1/models", self._guarded(self._list)),
                Route("/v1/models/{name:path}", self._guarded(self._describe)),
                Route("/v1/chat/completions", self._guarded(self._chat), methods=["POST"]),
                Route("/v1/completions", self._guarded(self._continue), methods=["POST"]),
            ],
            middleware=[Middleware(Entrance, allowed_hosts=allowed_hosts, any_address=any_address)],
            exception_handlers={HTTPException: _as_openai, Exception: _as_openai},
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self.worker.start()
        yield
        await asyncio.to_thread(self.worker.close)

    # --- routes -------------------------------------------------------------------------------------

    def _guarded(self, endpoint: Callable[[Request], Any]) -> Callable[[Request], Any]:
        """Let an endpoint see only requests that may be served, and say refusals as OpenAI does."""

        async def guarded(request: Request) -> Response:
            try:
                self._check(request)
                return await endpoint(request)
            except APIError as refused:
                return refused.response()

        return guarded

    def _check(self, request: Request) -> None:
        """Refuse pages of other origins, and clients without the key.

        Raises:
            APIError: 403 or 401.
        """
        origin, host = request.headers.get("origin"), request.headers.get("host")
        elsewhere = request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none")  # also where no origin is sent
        if elsewhere or (origin is not None and origin not in (f"http://{host}", f"https://{host}")):
            raise APIError(403, "pages of other origins are not served", code="origin_not_allowed")
        if self._key is None:
            return
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(_digest(given.strip().encode("latin-1")), self._key):
            message = "send the server's key: Authorization: Bearer KEY"
            raise APIError(401, message, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"} if self.worker.alive else {"status": "failed"}, 200 if self.worker.alive else 503)

    async def _list(self, request: Request) -> Response:
        return JSONResponse(schema.model_list(list(self.models), created=self._created))

    async def _describe(self, request: Request) -> Response:
        return JSONResponse(schema.model_card(self._model(request.path_params["name"]).name, created=self._created))

    async def _chat(self, request: Request) -> Response:
        asked = schema.read_request(await self._body(request), schema.ChatRequest)
        model, total = self._model(asked.model), asked.max_completion_tokens
        self._at_most("max_completion_tokens", total, self.limits.tokens * len(model.speakers))
        if total is not None and total < len(model.speakers):
            message = f"{model.name} speaks {len(model.speakers)} times, and needs as many tokens"
            raise APIError(400, message, param="max_completion_tokens", code="invalid_value")
        prompt = Conversation(tuple(message.plain() for message in asked.messages))
        most = self.limits.tokens if total is not None else model.max_tokens
        wishes = self._wishes(asked, model, [prompt], max_tokens=most, max_total=total)
        return await self._answer(request, asked, wishes, ChatForm(model.name, drafted=len(model.speakers) > 1))

    async def _continue(self, request: Request) -> Response:
        asked = schema.read_request(await self._body(request), schema.TextRequest)
        model = self._model(asked.model)
        if len(model.speakers) > 1:
            message = f"{model.name} drafts and answers a question: ask it at /v1/chat/completions, or one policy alone here"
            raise APIError(400, message, param="model", code="invalid_value")
        prompts = [Opening(text, echoed=bool(asked.echo), alternatives=asked.logprobs) for text in asked.prompt]
        wishes = self._wishes(asked, model, prompts, max_tokens=TOKENS_OF_A_TEXT)
        return await self._answer(request, asked, wishes, TextForm(model.name))

    async def _answer(self, request: Request, asked: schema.AnyRequest, wishes: list[Asked], form: Form) -> Response:
        """Have the completions written, and return them whole or as a stream."""
        if not self.worker.alive:
            raise APIError(503, "the server can't sample any more; its log says why", code="worker_failed")
        self._enter(len(wishes))
        reply = Reply(wishes, form, choices=asked.n or 1, seconds=self.limits.seconds)

        def end() -> None:
            reply.cancel()
            self.busy -= len(wishes)

        try:
            await reply.begin(self.worker, request.receive)
            if asked.stream:
                include_usage = asked.stream_options is not None and asked.stream_options.include_usage
                return EventStream(reply.stream(include_usage=include_usage), seconds=self.limits.seconds, end=end)
            whole = await reply.whole(request.receive)
        except BaseException:
            end()
            raise
        end()
        return JSONResponse(whole)

    # --- what is asked ------------------------------------------------------------------------------

    async def _body(self, request: Request) -> bytes:
        """Return the body of a request.

        Raises:
            APIError: it is no JSON by its own account, too large, or too slow.
        """
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise APIError(415, "send JSON, with Content-Type: application/json")
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                async for part in request.stream():
                    body += part
                    if len(body) > self.limits.body_bytes:
                        message = f"a request may have {self.limits.body_bytes} bytes"
                        raise APIError(413, message, code="request_too_large", headers=CLOSE)
        except TimeoutError:
            raise APIError(408, f"the body did not arrive in {self.limits.body_seconds:g} s", headers=CLOSE) from None
        except ClientDisconnect:
            raise APIError(400, "the client has gone") from None
        return bytes(body)

    def _model(self, name: str) -> ServedModel:
        if name not in self.models:
            message = f"there is no model {name[:100]!r}; there are {', '.join(self.models)}"
            raise APIError(404, message, param="model", code="model_not_found")
        return self.models[name]

    def _at_most(self, name: str, value: int | None, most: int) -> None:
        if value is not None and value > most:
            raise APIError(400, f"{name} may be at most {most} here, not {value}", param=name, code="invalid_value")

    def _wishes(
        self,
        asked: schema.AnyRequest,
        model: ServedModel,
        prompts: Sequence[Prompt],
        *,
        max_tokens: int,
        max_total: int | None = None,
    ) -> list[Asked]:
        """Return the completions that a request asks for, those of each prompt side by side.

        Args:
            asked: the request.
            model: which one it asks.
            prompts: what it asks.
            max_tokens: of a text, where the request does not say.
            max_total: of all texts of an answer.

        Raises:
            APIError: it asks for more than the limits allow.
        """
        limits = self.limits
        self._at_most("max_tokens", asked.max_tokens, limits.tokens)
        self._at_most("n", asked.n, limits.choices)
        if len(prompts) * (asked.n or 1) > limits.concurrency:
            message = f"a request may ask for {limits.concurrency} completions here, not {len(prompts) * (asked.n or 1)}"
            raise APIError(400, message, param="prompt", code="invalid_value")
        if len(asked.stops) > limits.stops or any(len(stop) > limits.stop_characters for stop in asked.stops):
            message = f"there may be at most {limits.stops} stop sequences of {limits.stop_characters} characters"
            raise APIError(400, message, param="stop", code="invalid_value")
        temperature = model.temperature if asked.temperature is None else asked.temperature
        first = secrets.randbits(62) if asked.seed is None else asked.seed % 2**62
        return [
            Asked(
                model=model,
                prompt=prompt,
                max_tokens=min(max_tokens, limits.tokens) if asked.max_tokens is None else asked.max_tokens,
                max_total=max_total,
                temperature=0.0 if temperature < MIN_TEMPERATURE else temperature,
                seed=first + index,
                stop=asked.stops,
                max_prompt=limits.prompt_tokens,
            )
            for prompt in prompts
            for index in range(asked.n or 1)
        ]

    def _enter(self, completions: int) -> None:
        if self.busy + completions > self.limits.concurrency:
            message = f"the server writes {self.limits.concurrency} completions at a time; try again later"
            raise APIError(429, message, code="server_busy", headers={"Retry-After": "1"})
        self.busy += completions


class EventStream(StreamingResponse):
    """Server-sent events; ends what it is about whether or not the client hears them to the end."""

    def __init__(self, events: AsyncIterator[str], *, seconds: float, end: Callable[[], None]) -> None:
        """Send `events`, then call `end`, whatever happens; a client that has not taken them after `seconds` is left."""
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._seconds, self._end = seconds, end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await super().__call__(scope, receive, send)
        finally:
            self._end()


def _digest(key: bytes) -> bytes:
    """Return what keys are compared by: of one length, so that the time of the comparison tells nothing."""
    return hashlib.sha256(key).digest()


async def _as_openai(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return APIError(error.status_code, str(error.detail), headers=error.headers).response()
    return APIError(500, "the server failed; its log says why").response()
