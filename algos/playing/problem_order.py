"""In which order a run goes through the problems of a task."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from agon_env.contest import Contest

STRIDE = 1_000_003
"""On an endless task, runs of different seeds begin this many problems apart."""


def task_size(contest: Contest) -> int | None:
    """Return how many problems the contest's task has; None for an endless one, or where there is no task."""
    return getattr(getattr(contest, "task", None), "size", None)


def problem_index(position: int, *, size: int | None, seed: int) -> int:
    """Return the index of the problem at a position of the course through a task.

    A data set is gone through once in a random order before anything is repeated, then in another order: files are
    often sorted, and a run should not meet all of the algebra first. An endless task has no order to mix.

    Args:
        position: counted from 0, without an end.
        size: problems of the task; None for an endless one.
        seed: another seed gives another course.
    """
    if size is None:
        return seed * STRIDE + position
    epoch, place = divmod(position, size)
    return int(_order(size, seed, epoch)[place])


@lru_cache(maxsize=8)
def _order(size: int, seed: int, epoch: int) -> NDArray[np.int64]:
    return np.random.default_rng([seed, epoch]).permutation(size)
