"""`VectorContest`: many contests in lockstep, which is what batched sampling needs."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from typing import Any

from agon_env.contest import Contest, Ending, StepResult
from agon_env.errors import Error
from agon_env.types import Action, Observation, Outcome, Reward

MANY = 64
"""While more contests than these begin, move or are concluded, Python's search for cycles waits."""


class VectorContest:
    """Contests that are stepped together; each has its own players, turn and end.

    Example:
        ```python
        contests = agon_env.make_vec("ArithmeticDuel-v0", 64)
        contests.reset(seed=0)
        while not contests.done:
            waiting = contests.pending()
            texts = sample([obs.text for obs in waiting.values()])
            contests.step(dict(zip(waiting, texts)))
        [outcome.rewards for outcome in contests.outcomes]
        ```
    """

    def __init__(self, envs: Sequence[Contest]) -> None:
        """Take contests, which may be anywhere between their reset and their end."""
        self.envs: tuple[Contest, ...] = tuple(envs)
        if len({id(env) for env in self.envs}) < len(self.envs):
            raise Error("the same contest is given twice; use env.fork() for a copy")
        self._numbered: dict[int, Contest] = dict(enumerate(self.envs))
        bases = {base for kind in {type(env) for env in self.envs} for base in kind.__mro__}
        self._look_ahead = any("begin_scores" in vars(base) for base in bases - {Contest})

    def __len__(self) -> int:
        return len(self.envs)

    def reset(
        self,
        *,
        seed: int | None = None,
        seeds: Sequence[int | None] | None = None,
        options: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None,
    ) -> dict[int, tuple[Observation, dict[str, Any]]]:
        """Start all contests anew.

        Args:
            seed: contest i gets `seed + i`, as in Gymnasium.
            seeds: one seed per contest, instead.
            options: for all contests, or one per contest.

        Returns:
            Index → observation and info, as `Contest.reset` returns them.
        """
        if seed is not None and seeds is not None:
            raise Error("give either seed or seeds, not both")
        each_seed = (
            [None if seed is None else seed + i for i in range(len(self))] if seeds is None else self._per_env("seeds", seeds)
        )
        each_option = (
            [options] * len(self) if options is None or isinstance(options, Mapping) else self._per_env("options", options)
        )
        paused = len(self) > MANY and _pause_search()
        try:
            return {i: env.reset(seed=each_seed[i], options=each_option[i]) for i, env in enumerate(self.envs)}
        finally:
            if paused:
                gc.enable()

    def pending(self) -> dict[int, Observation]:
        """Return the observations that wait for an action, by index; empty when all contests are over."""
        waiting = {}
        for index, contest in self._numbered.items():
            if contest._role is not None or not contest.done:  # the first, a plain field, decides for most
                waiting[index] = contest.observe()
        return waiting

    def step(self, actions: Mapping[int, str | Action]) -> dict[int, StepResult]:
        """Play one action in each of the named contests; the others wait.

        Returns:
            Index → what `Contest.step` returned.

        Raises:
            Error: there is no contest of that index.
            TypeError: `actions` is no mapping.
            ResetNeeded, EpisodeOver, TypeError: one of the actions can't be played. In each of these cases no
                contest has moved.
        """
        if type(actions) is not dict and not isinstance(actions, Mapping):  # a dict is known at once
            raise TypeError(
                "step takes a mapping from the index of a contest to its action, for example "
                f"dict(zip(contests.pending(), texts)), not a {type(actions).__name__}"
            )
        contests = self._numbered
        results: dict[int, Any] = {}  # first what is played, then what came of it
        for index in actions:
            try:
                contest = contests[index]
            except KeyError:
                raise Error(f"there is no contest {index!r}; they are numbered 0 to {len(self) - 1}") from None
            try:
                results[index] = contest.check_action(actions[index])
            except (Error, TypeError) as error:
                error.add_note(f"This is about contest {index} of {len(self)}; none of them has moved.")
                raise
        over = self._look_ahead
        paused = len(results) > MANY and _pause_search()
        try:
            for index in results:
                results[index] = result = contests[index].advance(results[index])
                if isinstance(result, Ending):
                    over = True
        finally:
            if paused:
                gc.enable()
        if over:
            self._conclude(results)
        return results

    def _conclude(self, results: dict[int, Any]) -> None:
        """Put what `step` returns in the place of every `Ending`; the contests of a class are scored in one call.

        So their answers are verified side by side.
        """
        envs = self.envs
        ended: dict[type[Contest], list[int]] = {}
        going_on: dict[type[Contest], list[int]] = {}
        for index, result in results.items():
            (ended if isinstance(result, Ending) else going_on).setdefault(type(envs[index]), []).append(index)
        if self._look_ahead:
            for cls, indices in going_on.items():
                cls.begin_scores([envs[index] for index in indices])
        scores: dict[int, Mapping[str, Reward]] = {}
        for cls, indices in ended.items():
            if scored := [index for index in indices if results[index].scored]:
                scores |= zip(scored, cls.score_all([envs[index] for index in scored]), strict=True)
        paused = len(results) > MANY and _pause_search()
        try:
            for indices in ended.values():
                for index in indices:
                    results[index] = envs[index].conclude(results[index], scores.get(index))
        finally:
            if paused:
                gc.enable()

    @property
    def done(self) -> bool:
        """True once every contest has ended."""
        return all(env.done for env in self.envs)

    @property
    def outcomes(self) -> list[Outcome | None]:
        """How each contest ended; None for those that have not."""
        return [env.outcome for env in self.envs]

    def close(self) -> None:
        """Close every contest."""
        for env in self.envs:
            env.close()

    def _per_env(self, what: str, values: Sequence[Any]) -> list[Any]:
        if isinstance(values, str) or len(values) != len(self):
            raise Error(f"{what} must hold one value per contest ({len(self)}), not {values!r}")
        return list(values)


def _pause_search() -> bool:
    """Stop Python's search for cycles, and return whether it was on.

    What thousands of contests make in a step lives on, so that a search amid it finds nothing.
    """
    was_on = gc.isenabled()
    gc.disable()
    return was_on
