"""Forty agents that misbehave, each in its own way, and how each of its contests ends.

`AGENTS` is name → (what makes it, what the reason of the forfeit says; None where the contest goes on as ever).
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any

import agents
from agon_env import Action, NoMove, Observation

LIMIT = 0.3
"""Seconds that an agent has; those that hang take longer."""


class Says(agents.Agent):
    """Returns whatever a function makes of the observations."""

    def __init__(self, what: Callable[[Sequence[Observation]], Any]) -> None:
        self.what = what

    def act(self, observations: Sequence[Observation]) -> Any:
        return self.what(observations)


def raising(error: BaseException) -> Callable[[], agents.Agent]:
    def act(_: Sequence[Observation]) -> Any:
        raise error

    return lambda: Says(act)


def each(value: Any) -> Callable[[], agents.Agent]:
    return lambda: Says(lambda observations: [value for _ in observations])


def returns(value: Any) -> Callable[[], agents.Agent]:
    return lambda: Says(lambda _: value)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


class Cyclic(Exception):
    def __init__(self) -> None:
        super().__init__("around")
        self.__cause__ = self


def _busy(_: Sequence[Observation]) -> list[str]:
    while True:
        pass


def _asleep(_: Sequence[Observation]) -> list[str]:
    time.sleep(3 * LIMIT)
    return []


def _locked(_: Sequence[Observation]) -> list[str]:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=3 * LIMIT)
    return []


def _late(observations: Sequence[Observation]) -> list[str]:
    time.sleep(1.5 * LIMIT)
    return ["too late"] * len(observations)


def _deaf(_: Sequence[Observation]) -> list[str]:
    """Swallow what interrupts it, for a while."""
    end = time.monotonic() + 3 * LIMIT
    while time.monotonic() < end:
        with contextlib.suppress(BaseException):
            time.sleep(LIMIT)
    return []


def _deep(observations: Sequence[Observation]) -> Any:
    return _deep(observations)


def _generator_that_fails(observations: Sequence[Observation]) -> Iterator[str]:
    yield "one"
    raise ValueError("in mid-answer")


class Moody(agents.Agent):
    """Fails at batches, and behaves when it is asked alone."""

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        if len(observations) > 1:
            raise ValueError("too many at once")
        return [Action("\\boxed{999999}")]


class Vandal(agents.Agent):
    """Writes into what it was shown."""

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        for observation in observations:
            for message in observation.messages:
                message["content"] = "you have lost"
        return [Action("\\boxed{999999}") for _ in observations]


class FakeAction:
    text = "looks like one"
    truncated = False


class OddTruncated:
    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")


class _Exit:
    def __call__(self, _: Sequence[Observation]) -> Any:
        sys.exit(3)


AGENTS: dict[str, tuple[Callable[[], agents.Agent], str | None]] = {
    # it raises
    "ValueError": (raising(ValueError("boom")), "raised ValueError: boom"),
    "no message": (raising(RuntimeError()), "raised RuntimeError: "),
    "a message of a megabyte": (raising(ValueError("x" * 2**20)), "…"),
    "a message with terminal codes": (raising(ValueError("\x1b[2J\x1b]0;owned\x07")), r"\\x1b\[2J"),
    "a message with line breaks": (raising(ValueError("a\nforfeit: bob")), "a forfeit: bob"),
    "a message with a lone surrogate": (raising(ValueError("\ud800")), r"\\ud800"),
    "a message that can't be read": (raising(Unprintable()), "can't be read"),
    "a cycle of causes": (raising(Cyclic()), "around"),
    "SystemExit": (lambda: Says(_Exit()), "raised SystemExit: 3"),
    "GeneratorExit": (raising(GeneratorExit()), "raised GeneratorExit"),
    "StopIteration": (raising(StopIteration("end")), "raised StopIteration"),
    "MemoryError": (raising(MemoryError()), "raised MemoryError"),
    "RecursionError": (lambda: Says(_deep), "raised RecursionError"),
    "KeyError": (raising(KeyError("choices")), "raised KeyError: 'choices'"),
    "TimeoutError": (raising(TimeoutError("the server is gone")), "raised TimeoutError"),
    "an exception group": (raising(ExceptionGroup("many", [ValueError("a"), TypeError("b")])), "raised ExceptionGroup"),
    "a generator that fails": (lambda: Says(_generator_that_fails), "raised ValueError: in mid-answer|returned 1 for"),
    # it hangs
    "busy for ever": (lambda: Says(_busy), "did not answer within"),
    "asleep": (lambda: Says(_asleep), "did not answer within"),
    "waiting for a lock": (lambda: Says(_locked), "did not answer within"),
    "late": (lambda: Says(_late), "did not answer within"),
    "deaf to interruption": (lambda: Says(_deaf), "did not answer within"),
    # it returns something else than a list of actions
    "None": (returns(None), "must return a list"),
    "a number": (returns(7), "must return a list"),
    "a text": (returns("\\boxed{999999}"), "must return a list"),
    "an action": (returns(Action("\\boxed{999999}")), "must return a list"),
    "an empty list": (returns([]), "returned 0 for"),
    "one too many": (lambda: Says(lambda observations: ["a"] * (len(observations) + 1)), "returned 2 for 1"),
    "endless": (returns(repeat("a")), "returned 2 for 1"),
    "a dict": (lambda: Says(lambda observations: dict.fromkeys(range(9), "a")), "returned 9 for 1"),
    # its actions are no texts
    "None as a text": (each(None), "said a NoneType"),
    "bytes": (each(b"\\boxed{999999}"), "said a bytes"),
    "a list as a text": (each(["a"]), "said a list"),
    "not a number": (each(float("nan")), "said a float"),
    "an object like an action": (each(FakeAction()), "said a FakeAction"),
    "a flag that is neither": (each(Action("a", truncated=OddTruncated())), "said no text"),  # type: ignore[arg-type]
    # it misbehaves, but plays
    "fails at batches": (Moody, None),
    "writes into observations": (Vandal, None),
    "a text of a megabyte": (each("9" * 2**20), None),
    "resigns": (each(NoMove(reason="I resign")), "I resign"),
}
