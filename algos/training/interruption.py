"""A run that is told to stop finishes its step and saves: Ctrl-C (SIGINT), or what a scheduler sends (SIGTERM)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from algos.training.checkpoint import newest_checkpoint, step_of

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):
    """The run was stopped from outside; the message says what is saved, and how to go on."""

    def __init__(self, run: Path, step: int, number: int = signal.SIGINT) -> None:
        """Say what became of the run in the folder `run`, which the signal `number` stopped after `step` steps."""
        checkpoint = newest_checkpoint(run)
        saved = step_of(checkpoint) if checkpoint is not None else 0
        if saved == step:
            kept = f"Stopped after step {step}; nothing is lost." if step else "Stopped before the first step was finished."
        else:
            kept = f"Stopped at once. The last checkpoint is that of step {saved}: the steps after it will be made again."
        super().__init__(f"{kept} Go on with:\n  agon train --resume {run}")
        self.run, self._step, self._number = run, step, number

    @property
    def exit_code(self) -> int:
        """What a process ends with that a signal has stopped, as shells have it: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + self._number

    def __reduce__(self) -> tuple[type[Interrupted], tuple[Path, int, int]]:  # ranks tell it to who has launched them
        return Interrupted, (self.run, self._step, self._number)


@contextmanager
def finish_step_on_signal(say: Callable[[str], None]) -> Iterator[list[int]]:
    """Collect the first signal to stop instead of dying of it; the second one is left to Python.

    Args:
        say: told what happens now.

    Yields:
        The signals that came, at most one.
    """
    caught: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield caught  # only the main thread may set signal handlers
        return
    previous = {number: signal.getsignal(number) for number in SIGNALS}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    def remember(number: int, frame: FrameType | None) -> None:
        caught.append(number)
        restore()
        say("Finishing this step, then saving. A second signal stops at once, and loses the steps since the last checkpoint.")

    for number in SIGNALS:
        signal.signal(number, remember)
    try:
        yield caught
    finally:
        restore()
