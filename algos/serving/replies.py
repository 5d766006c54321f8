"""`Reply`: what one request gets back, whole or as a stream of events, from completions that a worker writes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from starlette.types import Receive

from algos.serving import schema
from algos.serving.errors import APIError
from algos.serving.forms import Form
from algos.serving.worker import Worker
from algos.serving.writing import Asked, Begun, End, Event, Piece, Writing

Result = TypeVar("Result")


class Reply:
    """The completions of one request, as they come from the worker's thread."""

    def __init__(self, wishes: Sequence[Asked], form: Form, *, choices: int = 1, seconds: float) -> None:
        """Prepare the completions.

        Args:
            wishes: one for each choice, all of the same model, those of one prompt side by side.
            form: how they are written down.
            choices: for each prompt.
            seconds: until the request is given up.
        """
        self._form, self._choices = form, choices
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + seconds
        self._seconds = seconds
        self._queue: asyncio.Queue[tuple[int, Event]] = asyncio.Queue()
        self._early: list[tuple[int, Event]] = []
        self._writings = [Writing(asked, partial(self._emit, index)) for index, asked in enumerate(wishes)]

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
        ends: dict[int, End] = {}
        try:
            for index in range(len(self._writings)):
                if (opening := self._form.opening(index)) is not None:
                    yield _event(opening)
            async for index, event in self._events():
                if isinstance(event, Piece):
                    yield _event(self._form.piece(index, event))
                elif isinstance(event, End):
                    ends[index] = event
                    yield _event(self._form.ending(index, event))
            if include_usage:
                yield _event(self._form.used(self._usage(ends)))
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
        choices = [self._form.choice(index, own, ends[index]) for index, own in enumerate(pieces)]
        return self._form.whole(choices, self._usage(ends))

    def _usage(self, ends: Mapping[int, End]) -> dict[str, Any]:
        """Count what was read and said: each question once, the prompts of later speakers each."""
        questions = sum(ends[index].prompt_tokens[0] for index in range(0, len(ends), self._choices))
        return schema.usage(
            prompt=questions + sum(sum(end.prompt_tokens[1:]) for end in ends.values()),
            draft=sum(sum(end.tokens[:-1]) for end in ends.values()),
            answer=sum(end.tokens[-1] for end in ends.values()),
        )

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
