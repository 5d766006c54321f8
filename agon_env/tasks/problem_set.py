"""`ProblemSet`: what the finite tasks have in common, a fixed tuple of problems."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from agon_env.errors import TaskError
from agon_env.tasks.task import Problem, Split, split_of


class ProblemSet:
    """A sequence of problems that never changes once it is loaded; copies of it are the same object."""

    _problems: tuple[Problem, ...]

    @property
    def size(self) -> int:
        """Number of problems."""
        return len(self._problems)

    def __len__(self) -> int:
        return len(self._problems)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._problems)

    def __getitem__(self, index: int) -> Problem:
        """Return the problem at `index` ≥ 0; after the last one the first follows again."""
        if index < 0:
            raise IndexError(f"a task has no index {index}; use one from 0")
        return self._problems[index % len(self._problems)]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def check_choice(*, path: object, hub_id: object, split: object) -> None:
    """Refuse two sources at once, and a split that there is not.

    Raises:
        TaskError: one of these.
    """
    if path is not None and hub_id is not None:
        raise TaskError(f"give a path or a hub_id, not both: {path}, {hub_id}")
    if split not in ("train", "test", None):
        raise TaskError(f'split is "train", "test" or None for both, not {split!r}')


def bounds_of(difficulty: tuple[float, float] | None) -> tuple[float, float]:
    """Return the least and the greatest difficulty to keep; everything for None.

    Raises:
        TaskError: it is no such pair.
    """
    try:
        low, high = (float("-inf"), float("inf")) if difficulty is None else (float(bound) for bound in difficulty)
    except (TypeError, ValueError):
        raise TaskError(f"difficulty is (least, greatest), for example (7, 9.5), not {difficulty!r}") from None
    if not low <= high:
        raise TaskError(f"difficulty is (least, greatest), not {difficulty!r}")
    return low, high


def is_chosen(problem: Problem, *, split: Split | None, difficulty: tuple[float, float] | None) -> bool:
    """Return whether a problem is in the split and between the difficulties; one without difficulty is in no range."""
    if split is not None and split_of(problem.question) != split:
        return False
    low, high = bounds_of(difficulty)
    return difficulty is None or (problem.difficulty is not None and low <= problem.difficulty <= high)
