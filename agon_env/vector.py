"""`VectorContest`: many contests in lockstep, which is what batched sampling needs."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from agon_env.contest import Contest
from agon_env.errors import Error
from agon_env.types import Action, Observation, Outcome, Reward

StepResult: TypeAlias = tuple[Observation | None, dict[str, Reward], bool, bool, dict[str, Any]]
"""What `Contest.step` returns."""


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
        with _collecting_later():
            return {i: env.reset(seed=each_seed[i], options=each_option[i]) for i, env in enumerate(self.envs)}

    def pending(self) -> dict[int, Observation]:
        """Return the observations that wait for an action, by index; empty when all contests are over."""
        with _collecting_later():
            return {i: env.observe() for i, env in enumerate(self.envs) if not env.done}

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
        if not isinstance(actions, Mapping):
            raise TypeError(
                "step takes a mapping from the index of a contest to its action, for example "
                f"dict(zip(contests.pending(), texts)), not a {type(actions).__name__}"
            )
        checked: dict[int, Action] = {}
        indices = range(len(self))
        for index, action in actions.items():
            if index not in indices:
                raise Error(f"there is no contest {index!r}; they are numbered 0 to {len(self) - 1}")
            try:
                checked[index] = self.envs[index].check_action(action)
            except (Error, TypeError) as error:
                error.add_note(f"This is about contest {index} of {len(self)}; none of them has moved.")
                raise
        return self._step_all(checked)

    def _step_all(self, actions: Mapping[int, Action]) -> dict[int, StepResult]:
        """Step, and score the contests of a class that end by it in one call, so that answers are verified side by side."""
        with _collecting_later():
            moves = {index: self.envs[index].advance(action) for index, action in actions.items()}
        ended: dict[type[Contest], list[int]] = {}
        going_on: dict[type[Contest], list[Contest]] = {}
        for index, move in moves.items():
            if move.reason is None:
                going_on.setdefault(type(self.envs[index]), []).append(self.envs[index])
            elif move.offender is None:
                ended.setdefault(type(self.envs[index]), []).append(index)
        for cls, envs in going_on.items():
            cls.begin_scores(envs)
        scores: dict[int, Mapping[str, Reward]] = {}
        for cls, indices in ended.items():
            scores |= zip(indices, cls.score_all([self.envs[index] for index in indices]), strict=True)
        with _collecting_later():
            return {index: self.envs[index].conclude(move, scores.get(index)) for index, move in moves.items()}

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


@contextmanager
def _collecting_later() -> Iterator[None]:
    """Put off Python's search for cycles until a sweep over the contests is done.

    What a sweep makes lives on, so that every search amid it goes through thousands of contests and frees nothing: with
    4,096 of them that took as long as the turns themselves.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
