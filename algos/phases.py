"""Where the time of a training step goes, and how much memory each part of it takes at most.

    with recording(device) as phases:
        with phase("sample"): …          anywhere beneath, for example in the learner
    phases.stats()                       time/sample, memory/peak_gib_sample, time/step

A phase within another one counts for itself alone, so that the times add up. Outside of a recording `phase` does nothing.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, TypeAlias

import torch

from algos.learning.memory import PeakMemory
from algos.types import Stats

Phase: TypeAlias = Literal["sample", "verify", "logprob", "update"]
"""Tokens are generated; moves are applied and scored by the game; tokens are scored without gradient; policies learn."""


class Phases:
    """What was spent so far."""

    def __init__(self, device: torch.device) -> None:
        """Begin; memory is that of `device`, see `PeakMemory`."""
        self._memory = PeakMemory(device)
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._peaks: defaultdict[str, float] = defaultdict(float)
        self._running = ["other"]
        self._memory.reset()
        self._begun = self._since = time.perf_counter()

    def stats(self) -> Stats:
        """Return `time/<phase>` in seconds, `time/step` from the beginning until now, and `memory/peak_gib_<phase>`."""
        self._settle()
        named = [name for name in self._seconds if name != "other"]
        return {
            **{f"time/{name}": self._seconds[name] for name in named},
            **{f"memory/peak_gib_{name}": self._peaks[name] for name in named},
            "time/step": time.perf_counter() - self._begun,
        }

    def begin(self, name: Phase) -> None:
        """Enter a phase; the one before it waits."""
        self._settle()
        self._running.append(name)

    def end(self) -> None:
        """Go on with the phase before."""
        self._settle()
        self._running.pop()

    def _settle(self) -> None:
        """Put down to the running phase what was spent since the last change."""
        name, now = self._running[-1], time.perf_counter()
        self._seconds[name] += now - self._since
        self._peaks[name] = max(self._peaks[name], self._memory.peak())
        self._memory.reset()
        self._since = time.perf_counter()


_recorder: ContextVar[Phases | None] = ContextVar("phases", default=None)


@contextmanager
def recording(device: torch.device) -> Iterator[Phases]:
    """Record the phases of the block."""
    phases = Phases(device)
    token = _recorder.set(phases)
    try:
        yield phases
    finally:
        _recorder.reset(token)


@contextmanager
def phase(name: Phase) -> Iterator[None]:
    """Count the block for a phase of the recording that it is part of, if any."""
    phases = _recorder.get()
    if phases is None:
        yield
        return
    phases.begin(name)
    try:
        yield
    finally:
        phases.end()
