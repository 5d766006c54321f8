"""An engine that says the same token again and again, slowly if asked to: for tests of who waits for whom."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from agents.sampling import Completion, Request, Watch


class ScriptedEngine:
    """Says `token` until a row is full or stopped, `seconds` apart."""

    watchable = True

    def __init__(self, *, token: int, seconds: float = 0.0) -> None:
        self.token, self.seconds = token, seconds
        self.batches: list[int] = []
        self.steps = 0
        self.broken = False

    def sample(self, policy: Any, prompts: Any, params: Any, *, seeds: Any) -> list[Completion]:
        return self.sample_many([Request(policy, prompts, params, seeds)])[0]

    def sample_many(self, requests: Sequence[Request], *, watch: Watch | None = None) -> list[list[Completion]]:
        if self.broken:
            raise RuntimeError("the accelerator is on fire")
        self.batches.append(len(requests))
        said = [0] * len(requests)
        running = list(range(len(requests)))
        while running:
            time.sleep(self.seconds)
            self.steps += 1
            for row in running:
                said[row] += 1
            stopped = watch([(row, 0) for row in running], [self.token] * len(running)) if watch is not None else ()
            over = {row for row, _ in stopped}
            running = [row for row in running if row not in over and said[row] < requests[row].params.max_tokens]
        return [[Completion((self.token,) * count, (0.0,) * count, "length")] for count in said]


class BlindEngine(ScriptedEngine):
    """The same, of which single tokens can't be seen."""

    watchable = False
