"""Asynchrony: the contests of the next step are played by workers while this step's are learned from.

They are then played with the policies as they were *before* this step's update: one step stale, never more. What they say is
weighed for that: the learner scores it under the policy as it is, and each token counts by the ratio to the policy that said
it, capped (`algos.importance`), as with any sampler that is not quite the learner. At staleness 0 nothing is played ahead, and
the run is the synchronous one.
"""

from __future__ import annotations

import copy
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from algos.errors import ConfigError
from algos.playing.play import play
from algos.playing.win_rates import WinRates
from algos.rollouts import Rollout
from algos.types import Stats

if TYPE_CHECKING:
    from agents.policy import LLMPolicy
    from algos.config import TrainConfig
    from algos.training.run import Run


@dataclass(frozen=True)
class _Played:
    """What was played ahead, and the win rates with it counted."""

    rollout: Rollout
    stats: Stats
    rates: WinRates


class Ahead:
    """Plays the contests of a run, of the next step while the caller does something else."""

    def __init__(self, *, staleness: int = 0) -> None:
        """Play nothing ahead, or one step (`staleness` 1)."""
        self.staleness = staleness
        self._next: Future[_Played] | None = None
        self._thread: ThreadPoolExecutor | None = ThreadPoolExecutor(1, "ahead") if staleness else None

    def play(self, run: Run) -> tuple[Rollout, Stats]:
        """Return the contests of the step that `run` is at, and begin those of the next one.

        The next ones are played with the policies as they are now, whatever becomes of them meanwhile.
        """
        if self._thread is None:
            return play(run)
        if self._next is None:
            rollout, stats = play(run)
        else:
            found = self._next.result()
            rollout, stats, run.rates = found.rollout, found.stats, found.rates
        self._next = None
        if run.step + 1 < run.config.steps:
            self._next = self._thread.submit(_played, _as_it_is(run))
        return rollout, stats

    def settle(self) -> None:
        """Wait until nothing is being played: whoever else gives the workers work has them to himself."""
        if self._next is not None:
            self._next.exception()  # raised when it is asked for

    def close(self) -> None:
        """Wait for what is being played, and forget it."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)


def _as_it_is(run: Run) -> Run:
    """Return the run at its next step, with its policies as they are now and win rates of its own."""
    assert run.workers is not None
    later = copy.copy(run)
    later.step = run.step + 1
    later.rates = copy.deepcopy(run.rates)
    frozen = {name: run.workers.freeze(policy) for name, policy in run.policies.items()}
    later.policies = cast("dict[str, LLMPolicy]", frozen)  # as players they are alike
    return later


def _played(run: Run) -> _Played:
    rollout, stats = play(run)
    return _Played(rollout, stats, run.rates)


def check_staleness(config: TrainConfig) -> None:
    """Refuse what can't be played ahead.

    Raises:
        ConfigError: the message says what is in the way.
    """
    if config.staleness not in (0, 1):
        raise ConfigError(f"staleness must be 0 or 1, not {config.staleness}: contests are played at most one step ahead")
    if not config.staleness:
        return
    if not config.ray.address:
        raise ConfigError("staleness=1 needs workers that play while this process learns: add --ray, or set staleness=0")
    if config.opponent != "rival" or config.ranks > 1:
        raise ConfigError('staleness=1 is for opponent="rival" and ranks=1: others look at the run while it changes')
