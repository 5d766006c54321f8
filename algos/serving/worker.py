"""`Worker`: the one thread that has the model. It samples for whatever waits, in batches.

Completions of one policy and one temperature are written together. A batch runs until its rows have ended, or until
others wait that it has no place for: then its rows stop after some tokens and go on with them in the next batch. So a
short question does not wait for a long answer, and a lone one is never disturbed.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from agents.sampling import Completion, Request, Row, Watch, sample_many
from algos.serving.errors import APIError
from algos.serving.writing import Writing

_log = logging.getLogger("agon.serve")

Key: TypeAlias = tuple[int, str, float]
"""What must be equal in a batch: model, adapter, temperature."""


class Worker:
    """Writes completions, many at a time."""

    def __init__(self, *, max_rows: int = 64, slice_tokens: int = 48) -> None:
        """Make a worker; `start` must follow.

        Args:
            max_rows: most completions in one batch.
            slice_tokens: tokens after which a batch makes room for others that wait.
        """
        self.max_rows, self.slice_tokens = max_rows, slice_tokens
        self._inbox: queue.SimpleQueue[Writing | None] = queue.SimpleQueue()
        self._active: list[Writing] = []
        self._served: dict[Key, int] = {}
        self._turn = 0
        self._closing = False
        self._over = False
        self._thread = threading.Thread(target=self._run, name="agon-serve", daemon=True)

    @property
    def alive(self) -> bool:
        """Whether the thread works."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def submit(self, writing: Writing) -> None:
        """Take on a completion; may be called from any thread. It fails if the worker has stopped."""
        self._inbox.put(writing)
        if self._over:
            self._refuse_inbox()

    def stop(self) -> None:
        """Have the work end at the next token; what is not finished fails. May be called from any thread."""
        self._closing = True
        self._inbox.put(None)

    def close(self) -> None:
        """Stop, and wait until the thread has ended."""
        self.stop()
        self._thread.join()

    # --- the thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._closing:
                self._receive(wait=not self._active)
                self._active = [writing for writing in self._active if not (writing.done or writing.cancelled)]
                if self._closing:
                    break
                if (spoken := next((writing for writing in self._active if writing.unscored), None)) is not None:
                    self._alone(spoken, spoken.score, failed=True)  # one at a time: others wait for no more than one pass
                if batch := self._next_batch():
                    self._write(batch)
        finally:
            self._over = True
            self._refuse(self._active)
            self._refuse_inbox()

    def _refuse_inbox(self) -> None:
        """Fail what nobody will take in any more."""
        with contextlib.suppress(queue.Empty):
            while True:
                if (writing := self._inbox.get_nowait()) is not None:
                    self._refuse([writing])

    def _refuse(self, writings: Sequence[Writing]) -> None:
        for writing in writings:
            writing.fail(APIError(503, "the server is shutting down", code="shutting_down"))

    def _receive(self, *, wait: bool) -> None:
        """Take in what has come; with `wait`, at least one thing."""
        while wait or not self._inbox.empty():
            writing = self._inbox.get()
            wait = False
            if writing is None or writing.cancelled:
                continue
            if self._alone(writing, writing.begin, failed=False):
                self._active.append(writing)

    def _next_batch(self) -> list[Writing]:
        """Return the oldest completions of the kind that was served longest ago; none if nothing is to be sampled."""
        waiting = [writing for writing in self._active if not (writing.done or writing.unscored)]
        keys = {_key(writing): None for writing in waiting}
        self._served = {key: self._served[key] for key in keys if key in self._served}
        if not keys:
            return []
        key = min(keys, key=lambda key: self._served.get(key, -1))
        self._turn += 1
        self._served[key] = self._turn
        return [writing for writing in waiting if _key(writing) == key][: self.max_rows]

    def _write(self, batch: Sequence[Writing]) -> None:
        key, steps, turns = _key(batch[0]), 0, {id(writing): writing.turn for writing in batch}

        def watch(rows: Sequence[Row], tokens: Sequence[int]) -> Collection[Row]:
            nonlocal steps
            steps += 1
            self._receive(wait=False)
            stopped = [row for row, token in zip(rows, tokens, strict=True) if self._take(batch[row[0]], token)]
            if self._closing or (steps >= self.slice_tokens and self._others_wait(turns, key, len(rows) - len(stopped))):
                return rows
            return stopped

        watchable = getattr(batch[0].policy.engine, "watchable", False)
        try:
            completions = self._sample([writing.request() for writing in batch], watch if watchable else None)
        except Exception as error:
            _log.exception("a batch of %d completions failed", len(batch))
            for writing in batch:
                writing.fail(APIError(500, f"sampling failed: {type(error).__name__}", code="sampling_failed"))
            return
        if not watchable:
            for writing, completion in zip(batch, completions, strict=True):
                any(self._take(writing, token) for token in completion.token_ids)

    def _others_wait(self, turns: Mapping[int, int], key: Key, running: int) -> bool:
        """Return whether others would gain if this batch stopped: of another kind, or of this one with a free place.

        Args:
            turns: those in the batch → which turn they have there; who is through with it waits for the next one.
            key: of the batch.
            running: rows that go on.
        """
        waiting = [writing for writing in self._active if not (writing.done or writing.cancelled)]
        others = [writing for writing in waiting if turns.get(id(writing)) != writing.turn]
        return any(_key(writing) != key or running < self.max_rows for writing in others)

    def _sample(self, requests: Sequence[Request], watch: Watch | None) -> list[Completion]:
        """Sample one row for each request; an engine that can't be watched is asked for a few tokens at a time."""
        if watch is not None:
            found = requests[0].policy.engine.sample_many(requests, watch=watch)  # type: ignore[attr-defined]
        else:
            found = sample_many([_shortened(request, self.slice_tokens) for request in requests])
        return [completion for (completion,) in found]

    def _take(self, writing: Writing, token: int) -> bool:
        """Add a token to a completion; return whether no more is to be drawn for it."""
        return self._alone(writing, lambda: writing.take(token), failed=True)

    def _alone(self, writing: Writing, action: Callable[[], bool], *, failed: bool) -> bool:
        """Do something for one completion. If that fails, only that one fails, and `failed` is returned."""
        try:
            return action()
        except Exception as error:
            if not isinstance(error, APIError):
                _log.exception("a completion failed")
                error = APIError(500, f"the completion failed: {type(error).__name__}", code="completion_failed")
            writing.fail(error)
            return failed


def _key(writing: Writing) -> Key:
    policy = writing.policy
    return id(policy.base), policy.name, writing.asked.temperature


def _shortened(request: Request, tokens: int) -> Request:
    return replace(request, params=replace(request.params, max_tokens=min(request.params.max_tokens, tokens)))
