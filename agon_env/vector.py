"""`VectorContest`: many contests in lockstep, which is what batched sampling needs."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agon_env.contest import Contest, Ending, StepResult
from agon_env.errors import Error
from agon_env.types import Action, Observation, Outcome, Reward

MANY = 64
"""With more actions in a step, Python's search for cycles waits until they are played."""


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
        self._numbers = range(len(self.envs))
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
        return {i: env.reset(seed=each_seed[i], options=each_option[i]) for i, env in enumerate(self.envs)}

    def pending(self) -> dict[int, Observation]:
        """Return the observations that wait for an action, by index; empty when all contests are over."""
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
        if not isinstance(actions, (dict, Mapping)):  # a dict is known at once
            raise TypeError(
                "step takes a mapping from the index of a contest to its action, for example "
                f"dict(zip(contests.pending(), texts)), not a {type(actions).__name__}"
            )
        envs, numbers = self.envs, self._numbers
        changed: dict[int, str | Action] = {}  # by a game that overrides check_action
        for index, action in actions.items():
            if index not in numbers:
                raise Error(f"there is no contest {index!r}; they are numbered 0 to {len(self) - 1}")
            try:
                checked = envs[index].check_action(action)
            except (Error, TypeError) as error:
                error.add_note(f"This is about contest {index} of {len(self)}; none of them has moved.")
                raise
            if checked is not action:
                changed[index] = checked
        if changed:
            actions = {**actions, **changed}
        results, endings = (self._advance if len(actions) <= MANY else self._advance_many)(actions)
        return self._conclude(actions, results, endings) if endings or self._look_ahead else results

    def _conclude(
        self, actions: Mapping[int, str | Action], results: dict[int, StepResult], endings: Mapping[int, Ending]
    ) -> dict[int, StepResult]:
        """Score the contests of a class that end by these actions in one call, so that answers are verified side by side."""
        if self._look_ahead:
            for cls, indices in self._by_class(results).items():
                cls.begin_scores([self.envs[index] for index in indices])
        if not endings:
            return results
        scores: dict[int, Mapping[str, Reward]] = {}
        for cls, indices in self._by_class(index for index, ending in endings.items() if ending.scored).items():
            scores |= zip(indices, cls.score_all([self.envs[index] for index in indices]), strict=True)
        results |= {index: self.envs[index].conclude(ending, scores.get(index)) for index, ending in endings.items()}
        return {index: results[index] for index in actions}

    def _advance(self, actions: Mapping[int, str | Action]) -> tuple[dict[int, StepResult], dict[int, Ending]]:
        """Play the actions; return what the contests that go on have to say, and how the others end."""
        envs = self.envs
        results: dict[int, StepResult] = {}
        endings: dict[int, Ending] = {}
        for index, action in actions.items():
            env = envs[index]
            ending = env.advance(action)
            if ending is None:
                results[index] = env.conclude(None, None)
            else:
                endings[index] = ending
        return results, endings

    def _advance_many(self, actions: Mapping[int, str | Action]) -> tuple[dict[int, StepResult], dict[int, Ending]]:
        """Advance; what thousands of turns make lives on, so that amid them Python's searches for cycles find nothing."""
        if not gc.isenabled():
            return self._advance(actions)
        gc.disable()
        try:
            return self._advance(actions)
        finally:
            gc.enable()

    def _by_class(self, indices: Iterable[int]) -> dict[type[Contest], list[int]]:
        classes: dict[type[Contest], list[int]] = {}
        for index in indices:
            classes.setdefault(type(self.envs[index]), []).append(index)
        return classes

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
