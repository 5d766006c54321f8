"""Verdicts that are made while something else goes on.

A draft is known long before its contest ends: its verdict can be made while the rival's tokens are sampled. That is
worth a thread only where the verifier's work is done by other processes, which such a verifier says by
`out_of_process`; work in this process would only get in the way of the sampling.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, TypeAlias

from agon_env.errors import Error
from agon_env.verifiers.verdict import Verdict, Verifier

Pair: TypeAlias = tuple[str, str]


class VerdictsAhead:
    """Verdicts of one contest that are under way, or there.

    A copy of the contest shares them: they depend on nothing but text and gold. In another process they are made again.
    """

    def __init__(self) -> None:
        """Begin without any."""
        self._begun: dict[Pair, tuple[Future[list[Verdict]], int]] = {}
        self._process = os.getpid()

    def __deepcopy__(self, memo: dict[int, Any]) -> VerdictsAhead:
        return self

    def __reduce__(self) -> tuple[type[VerdictsAhead], tuple[()]]:
        return VerdictsAhead, ()

    def _verdict(self, pair: Pair) -> Verdict | None:
        """Return a verdict that was begun, waiting for it; None if this process did not begin it."""
        if pair not in self._begun or self._process != os.getpid():
            return None
        future, place = self._begun[pair]
        return future.result()[place]  # as many as were asked for, see `_judged`


def begin_verdicts(verifier: Verifier, asked: Sequence[tuple[VerdictsAhead, Pair]]) -> None:
    """Have a thread judge completions of some contests in one call, if the verifier's work is done by other processes."""
    new = [(ahead, pair) for ahead, pair in asked if pair not in ahead._begun and ahead._process == os.getpid()]
    if not new or not getattr(verifier, "out_of_process", False):
        return
    future = _threads().submit(_judged, verifier, [pair for _, pair in new])
    for place, (ahead, pair) in enumerate(new):
        ahead._begun[pair] = future, place


def finish_verdicts(verifier: Verifier, asked: Sequence[tuple[VerdictsAhead, Pair]]) -> list[Verdict]:
    """Return the verdicts on completions of some contests: those not begun are made first, in one call."""
    missing = [(ahead, pair) for ahead, pair in asked if pair not in ahead._begun or ahead._process != os.getpid()]
    made = iter(_judged(verifier, [pair for _, pair in missing]) if missing else [])
    verdicts = (ahead._verdict(pair) or next(made) for ahead, pair in asked)
    return list(verdicts)


def _judged(verifier: Verifier, pairs: Sequence[Pair]) -> list[Verdict]:
    """Return a verdict for each pair.

    Raises:
        Error: there are more or fewer, so that it is not known whose they are.
    """
    verdicts = verifier.score_many(pairs)
    if len(verdicts) != len(pairs):
        raise Error(
            f"{type(verifier).__name__}.score_many gave {len(verdicts)} verdicts on {len(pairs)} texts; one each, in order"
        )
    return verdicts


@cache
def _threads_of(process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(2, thread_name_prefix="agon-verdicts")


def _threads() -> ThreadPoolExecutor:
    """Return the threads of this process; a fork has none of its parent's."""
    return _threads_of(os.getpid())
