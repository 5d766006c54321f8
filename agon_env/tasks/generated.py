"""`GeneratedTask`: what endless families of problems have in common."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from agon_env.errors import TaskError
from agon_env.tasks.task import Problem, Split, split_of

Difficulty: TypeAlias = int | Sequence[int]
"""One setting of the dial, or the least and the greatest, between which it is drawn."""


class GeneratedTask:
    """An endless family of problems: a function of seed and index, with a dial for their difficulty.

    A family subclasses it, names itself and writes `draw`.
    """

    source = "generated"
    size: int | None = None

    def __init__(self, *, split: Split, difficulty: Difficulty, seed: int, dial: str, bounds: tuple[int, int]) -> None:
        """Make a family.

        Args:
            split: "train" or "test"; no question is in both.
            difficulty: an integer in `bounds`, or (least, greatest).
            seed: a non-negative integer; another seed gives another order of problems.
            dial: what the difficulty is a number of, for error messages.
            bounds: the least and the greatest difficulty that the family has.

        Raises:
            TaskError: one of them is out of range.
        """
        asked = tuple(difficulty) if isinstance(difficulty, list | tuple) else (difficulty, difficulty)
        least, greatest = bounds
        if not (len(asked) == 2 and all(map(is_integer, asked)) and least <= asked[0] <= asked[1] <= greatest):
            raise TaskError(
                f"difficulty is a number of {dial} from {least} to {greatest}, or (least, greatest), not {difficulty!r}"
            )
        if split not in ("train", "test"):
            raise TaskError(f'split is "train" or "test", not {split!r}')
        if not (is_integer(seed) and 0 <= seed < 2**64):
            raise TaskError(f"seed is an integer from 0 to 2**64 - 1, not {seed!r}")
        self.split: Split = split
        self.difficulty = (int(asked[0]), int(asked[1]))
        self.seed = int(seed)

    def __getitem__(self, index: int) -> Problem:
        """Return the problem at `index`: the first one of the index's own random stream that is in the split.

        Raises:
            IndexError: the index is not in [0, 2**64).
        """
        if not 0 <= operator.index(index) < 2**64:
            raise IndexError(f"an endless task has no index {index}; use one from 0 to 2**64 - 1")
        rng = np.random.Generator(np.random.Philox(key=np.array([self.seed, index], dtype=np.uint64)))
        low, high = self.difficulty
        while True:
            problem = self.draw(rng, int(rng.integers(low, high + 1)))
            if split_of(problem.question) == self.split:
                return problem

    def draw(self, rng: np.random.Generator, difficulty: int) -> Problem:
        """Return a random problem of that difficulty."""
        raise NotImplementedError


def is_integer(value: object) -> bool:
    """Return whether `value` is an integer and no truth value."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
