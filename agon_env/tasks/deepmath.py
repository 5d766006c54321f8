r"""`DeepMath`: hard problems with one verifiable answer, in the schema of DeepMath-103K (arXiv 2504.11456).

A row holds `question`, `final_answer` (bare LaTeX), `difficulty` (half points on the 1–10 scale of the Art of
Problem Solving) and `topic`. Rows come from a Hugging Face data set, from a file, or from a small sample that
is part of this package.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agon_env.errors import TaskError
from agon_env.tasks.rows import COLUMNS, guessable, problems_of, read_file, read_hub
from agon_env.tasks.task import Problem, Split, split_of
from agon_env.verifiers.math import MathVerifier
from agon_env.verifiers.verdict import Verifier

HUB_ID = "zwhe99/DeepMath-103K"
SAMPLE = Path(__file__).parent / "data" / "deepmath_sample.jsonl"
INSTRUCTION = r"Reason step by step, and put your final answer in \boxed{}."


class DeepMath:
    """A data set of mathematical problems; it never changes once it is loaded."""

    name = "deepmath"
    instruction = INSTRUCTION

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        hub_id: str | None = None,
        hub_split: str = "train",
        split: Split | None = "train",
        difficulty: tuple[float, float] | None = None,
        drop_guessable: bool = False,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        """Load a data set. Without a path and a hub id this is the embedded sample, and a warning says so.

        Args:
            path: a JSONL or Parquet file.
            hub_id: a Hugging Face data set, for example "zwhe99/DeepMath-103K". If it can't be had this raises;
                nothing else is taken in its place.
            hub_split: the split of the Hugging Face data set; DeepMath-103K has "train" alone.
            split: "train" or "test", by a stable hash of the question; None takes both.
            difficulty: keep the rows from the least to the greatest difficulty, both included.
            drop_guessable: leave out the rows whose answer is Yes, No, True, False or a single letter.
            columns: names of this schema → names in the data set, for those that differ, for example
                `{"question": "prompt", "final_answer": "ground_truth"}`.

        Raises:
            TaskError: the data can't be read, or no problem is left.
            DependencyNotInstalled: an optional package is missing; the message holds the pip command.
        """
        self._options: dict[str, Any] = {
            "path": None if path is None else str(Path(path).expanduser().absolute()),
            "hub_id": hub_id,
            "hub_split": hub_split,
            "split": split,
            "difficulty": difficulty,
            "drop_guessable": drop_guessable,
            "columns": None if columns is None else dict(columns),
        }
        self._load(**self._options)
        self.announce()

    def _load(
        self,
        *,
        path: str | None,
        hub_id: str | None,
        hub_split: str,
        split: Split | None,
        difficulty: tuple[float, float] | None,
        drop_guessable: bool,
        columns: Mapping[str, str] | None,
    ) -> None:
        if path is not None and hub_id is not None:
            raise TaskError(f"give a path or a hub_id, not both: {path}, {hub_id}")
        if split not in ("train", "test", None):
            raise TaskError(f'split is "train", "test" or None for both, not {split!r}')
        if unknown := sorted(set(columns or {}) - set(COLUMNS)):
            raise TaskError(f"columns maps {', '.join(COLUMNS)} to the names in the data; it has no {unknown[0]!r}")
        names = {name: name for name in COLUMNS} | dict(columns or {})
        low, high = self.difficulty = (float("-inf"), float("inf")) if difficulty is None else _bounds(difficulty)
        self.split: Split | None = split
        self.verifier: Verifier = MathVerifier()
        self.embedded_sample = path is None and hub_id is None
        if hub_id is not None:
            self.source = f"Hugging Face data set {hub_id}"
            rows = read_hub(hub_id, hub_split, names.values())
        else:
            self.source = f"file {path}" if path is not None else "embedded sample of agon-env (not DeepMath-103K)"
            rows = read_file(SAMPLE if path is None else Path(path))
        usable, dropped = problems_of(rows, names)
        self.dropped: Mapping[str, int] = MappingProxyType(dict(dropped))
        self._problems: tuple[Problem, ...] = tuple(
            problem
            for problem in usable
            if (split is None or split_of(problem.question) == split)
            and (difficulty is None or (problem.difficulty is not None and low <= problem.difficulty <= high))
            and not (drop_guessable and guessable(problem.answer))
        )
        if not self._problems:
            raise TaskError(self._nothing_left(len(usable), names))

    def announce(self) -> None:
        """Warn of what a user must know: that this is the embedded sample, that rows were dropped."""
        if self.embedded_sample:
            warnings.warn(
                f"DeepMath uses the embedded sample of agon-env: {self.size} problems, not the data set itself. For that pass "
                f"hub_id={HUB_ID!r} or the path of a JSONL or Parquet file",
                stacklevel=3,
            )
        if self.dropped:
            warnings.warn(f"{self.source}: dropped {_counts(self.dropped)}", stacklevel=3)

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

    def solution(self, problem: Problem) -> str:
        """Return a short text that ends in the boxed answer."""
        return rf"The final answer is \boxed{{{problem.answer}}}"

    def __deepcopy__(self, memo: dict[int, Any]) -> DeepMath:
        return self

    def __reduce__(self) -> tuple[Any, tuple[dict[str, Any]]]:
        # what it was made of, not 100,000 rows; the other process reads the same source
        return _restore, (self._options,)

    def _nothing_left(self, usable: int, names: Mapping[str, str]) -> str:
        if usable:
            low, high = self.difficulty
            chosen = f"split={self.split!r} with difficulty from {low} to {high}"
            return f"{self.source}: {usable} problems, but none in {chosen}; widen one of them"
        wanted = ", ".join(f"{name} in column {column!r}" for name, column in names.items())
        dropped = _counts(self.dropped) or "none"
        return f"{self.source} holds no usable row; dropped {dropped}. It should hold {wanted}; see columns="


def _restore(options: dict[str, Any]) -> DeepMath:
    task = DeepMath.__new__(DeepMath)
    task._options = options
    task._load(**options)
    return task


def _bounds(difficulty: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = (float(bound) for bound in difficulty)
    except (TypeError, ValueError):
        raise TaskError(f"difficulty is (least, greatest), for example (7, 9.5), not {difficulty!r}") from None
    if not low <= high:
        raise TaskError(f"difficulty is (least, greatest), not {difficulty!r}")
    return low, high


def _counts(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{count} ({reason})" for reason, count in sorted(dropped.items()))
