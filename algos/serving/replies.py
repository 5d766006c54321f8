"""`Reply`: what one request gets back, whole or as a stream of events, from completions that a worker writes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import AsyncIterator, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from starlette.types import Receive

from algos.serving import schema
from algos.serving.errors import APIError
from algos.serving.worker import Worker
from algos.serving.writing import Asked, Begun, End, Event, Piece, Writing

Result = TypeVar("Result")


class Reply:
    """The completions of one request, as they come from the worker's thread."""

    def __init__(self, wishes: Sequence[Asked], *, seconds: float) -> None:
        """Prepare the completions.

        Args:
            wishes: one for each choice, all of the same model.
            seconds: until the request is given up.
        """
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + seconds
        self._seconds = seconds
        self._queue: asyncio.Queue[tuple[int, Event]] = asyncio.Queue()
        self._early: list[tuple[int, Event]] = []
        self._model = wishes[0].model
        self._writings = [Writing(asked, partial(self._emit, index)) for index, asked in enumerate(wishes)]
        self._id = f"chatcmpl-{uuid.uuid4().hex}"
        self._created = int(time.time())

    async def begin(self, worker: Worker, receive: Receive) -> None:
        """Have the completions written; return when all prompts are accepted.

        Raises:
            APIError: a prompt is refused, or the client has gone.
        """
        for writing in self._writings:
            worker.submit(writing)
        await self._while_heard(self._begun(), receive)

    async def whole(self, receive: Receive) -> dict[str, Any]:
        """Return the response when all is written.

        Raises:
            APIError: it can't be written, takes too long, or the client has gone.
        """
        return await self._while_heard(self._collected(), receive)

    async def stream(self, *, include_usage: bool) -> AsyncIterator[str]:
        """Yield the server-sent events of the response. What goes wrong is the last event but `[DONE]`."""
        head = partial(schema.chunk, self._id, created=self._created, model=self._model.name)
        ends: dict[int, End] = {}
        try:
            for index in range(len(self._writings)):
                yield _event(head(choices=[schema.delta(index, {"role": "assistant", "content": ""})]))
            async for index, event in self._events():
                if isinstance(event, Piece):
                    piece = {"reasoning_content" if event.draft else "content": event.text}
                    yield _event(head(choices=[schema.delta(index, piece)]))
                elif isinstance(event, End):
                    ends[index] = event
                    yield _event(head(choices=[schema.delta(index, {}, reason=event.reason)]))
            if include_usage:
                yield _event(head(choices=[], used=_usage(list(ends.values()))))
        except APIError as error:
            yield _event(error.body())
        yield "data: [DONE]\n\n"

    def cancel(self) -> None:
        """Stop the work that is not done."""
        for writing in self._writings:
            writing.cancel()

    # --- how it works -------------------------------------------------------------------------------

    def _emit(self, index: int, event: Event) -> None:
        """Pass an event from the worker's thread to the loop, unless that has gone."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._queue.put_nowait, (index, event))

    async def _next(self) -> tuple[int, Event]:
        try:
            async with asyncio.timeout_at(self._deadline):
                index, event = await self._queue.get()
        except TimeoutError:
            message = f"the completion was not finished in {self._seconds:g} s: ask for fewer tokens"
            raise APIError(504, message, code="timeout", headers={"x-should-retry": "false"}) from None
        if isinstance(event, Exception):
            raise event
        return index, event

    async def _begun(self) -> None:
        waiting = set(range(len(self._writings)))
        while waiting:
            index, event = await self._next()
            if isinstance(event, Begun):
                waiting.discard(index)
            else:
                self._early.append((index, event))

    async def _events(self) -> AsyncIterator[tuple[int, Event]]:
        """Yield all pieces and ends.

        Raises:
            APIError: a completion failed, or takes too long.
        """
        left = len(self._writings)
        while left:
            index, event = self._early.pop(0) if self._early else await self._next()
            left -= isinstance(event, End)
            yield index, event

    async def _collected(self) -> dict[str, Any]:
        pieces: list[list[Piece]] = [[] for _ in self._writings]
        ends: dict[int, End] = {}
        async for index, event in self._events():
            if isinstance(event, Piece):
                pieces[index].append(event)
            elif isinstance(event, End):
                ends[index] = event
        drafted = len(self._model.speakers) > 1
        choices = [
            schema.choice(
                index,
                answer="".join(piece.text for piece in own if not piece.draft),
                draft="".join(piece.text for piece in own if piece.draft) if drafted else None,
                reason=ends[index].reason,
            )
            for index, own in enumerate(pieces)
        ]
        name, used = self._model.name, _usage(list(ends.values()))
        return schema.completion(self._id, created=self._created, model=name, choices=choices, used=used)

    async def _while_heard(self, work: Coroutine[Any, Any, Result], receive: Receive) -> Result:
        """Do something for as long as the client is there."""
        task, gone = asyncio.create_task(work), asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise APIError(499, "the client has gone")
        finally:
            task.cancel()
            gone.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _event(record: dict[str, Any]) -> str:
    return f"data: {json.dumps(record)}\n\n"


def _usage(ends: Sequence[End]) -> dict[str, Any]:
    """Count what was read and said: the question once, the prompts of later speakers each."""
    return schema.usage(
        prompt=ends[0].prompt_tokens[0] + sum(sum(end.prompt_tokens[1:]) for end in ends),
        draft=sum(sum(end.tokens[:-1]) for end in ends),
        answer=sum(end.tokens[-1] for end in ends),
    )
