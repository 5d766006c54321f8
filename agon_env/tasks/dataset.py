"""`Dataset`: problems with one verifiable answer from a Hugging Face data set, from a file, or from an embedded sample."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from agon_env.errors import TaskError
from agon_env.tasks.problem_set import ProblemSet, bounds_of, check_choice, is_chosen
from agon_env.tasks.rows import COLUMNS, guessable, problems_of, read_file, read_hub
from agon_env.tasks.task import Problem, Split
from agon_env.verifiers.math import MathVerifier
from agon_env.verifiers.tolerance import without_tolerance
from agon_env.verifiers.verdict import Verifier

SAMPLES = Path(__file__).parent / "data"
INSTRUCTION = r"Reason step by step, and put your final answer in \boxed{}."
VERIFIERS: Mapping[str, type[Verifier]] = MappingProxyType({"math": MathVerifier})
"""Name → verifier, for `from_dataset`."""


@dataclass(frozen=True)
class Origin:
    """Where a well-known data set is, and what its columns are called."""

    hub_id: str
    """The Hugging Face data set."""
    subset: str | None = None
    """Its configuration."""
    hub_split: str = "train"
    columns: Mapping[str, str] = field(default_factory=dict)
    """Names of our schema → names in the data set, for those that differ; "" for one that means something else there."""
    sample: str | None = None
    """File of the embedded sample, which is in our schema."""


class Dataset(ProblemSet):
    """A data set of problems; it never changes once it is loaded. Subclasses declare where it is."""

    name: str
    origin: ClassVar[Origin | None] = None
    instruction: str = INSTRUCTION

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        hub_id: str | None = None,
        hub_split: str | None = None,
        subset: str | None = None,
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
            hub_split: the split of the Hugging Face data set. Default: the declared one, or "train".
            subset: the configuration of the Hugging Face data set, for those that have several.
            split: "train" or "test", by a stable hash of the question; None takes both.
            difficulty: keep the rows from the least to the greatest difficulty, both included.
            drop_guessable: leave out the rows whose answer is Yes, No, True, False or a single letter.
            columns: names of the schema (`agon_env.tasks.rows.COLUMNS`) → names in the data set, for those that differ,
                for example `{"question": "prompt", "final_answer": "ground_truth"}`.

        Raises:
            TaskError: the data can't be read, or no problem is left.
            DependencyNotInstalled: an optional package is missing; the message holds the pip command.
        """
        self._options: dict[str, Any] = {
            "path": None if path is None else str(Path(path).expanduser().absolute()),
            "hub_id": hub_id,
            "hub_split": hub_split,
            "subset": subset,
            "split": split,
            "difficulty": difficulty,
            "drop_guessable": drop_guessable,
            "columns": None if columns is None else dict(columns),
        }
        self.verifier: Verifier = MathVerifier()
        self._load(**self._options)
        self.announce()

    def _load(
        self,
        *,
        path: str | None,
        hub_id: str | None,
        hub_split: str | None,
        subset: str | None,
        split: Split | None,
        difficulty: tuple[float, float] | None,
        drop_guessable: bool,
        columns: Mapping[str, str] | None,
    ) -> None:
        check_choice(path=path, hub_id=hub_id, split=split)
        if unknown := sorted(set(columns or {}) - set(COLUMNS)):
            raise TaskError(f"columns maps {', '.join(COLUMNS)} to the names in the data; it has no {unknown[0]!r}")
        self.difficulty = bounds_of(difficulty)
        self.split: Split | None = split
        self.embedded_sample = path is None and hub_id is None
        names = {name: name for name in COLUMNS}
        if self.origin is not None and not self.embedded_sample:
            names |= self.origin.columns
        names |= dict(columns or {})
        if hub_id is not None:
            self.source = f"Hugging Face data set {hub_id}"
            declared = self.origin if self.origin is not None and self.origin.hub_id == hub_id else Origin(hub_id)
            rows = read_hub(hub_id, hub_split or declared.hub_split, names.values(), subset=subset or declared.subset)
        elif path is not None:
            self.source = f"file {path}"
            rows = read_file(Path(path))
        else:
            self.source = f"embedded sample of agon-env (not {self._title})"
            rows = read_file(self._sample())
        usable, dropped = problems_of(rows, names)
        self.dropped: Mapping[str, int] = MappingProxyType(dict(dropped))
        self._problems: tuple[Problem, ...] = tuple(
            problem
            for problem in usable
            if is_chosen(problem, split=split, difficulty=difficulty) and not (drop_guessable and guessable(problem.answer))
        )
        if not self._problems:
            raise TaskError(self._nothing_left(len(usable), names))

    @property
    def _title(self) -> str:
        return type(self).__name__ if self.origin is None else self.origin.hub_id.partition("/")[2]

    def _sample(self) -> Path:
        if self.origin is None:
            raise TaskError("name a data set: the path of a JSONL or Parquet file, or hub_id=")
        if self.origin.sample is None:
            raise TaskError(
                f"{self._title} has no embedded sample; pass hub_id={self.origin.hub_id!r}, or the path of a JSONL or Parquet "
                "file"
            )
        return SAMPLES / self.origin.sample

    def announce(self) -> None:
        """Warn of what a user must know: that this is the embedded sample, that rows were dropped."""
        if self.embedded_sample and self.origin is not None:
            warnings.warn(
                f"{type(self).__name__} uses the embedded sample of agon-env: {self.size} problems, not the data set itself. "
                f"For that pass hub_id={self.origin.hub_id!r} or the path of a JSONL or Parquet file",
                stacklevel=3,
            )
        if self.dropped:
            warnings.warn(f"{self.source}: dropped {_counts(self.dropped)}", stacklevel=3)

    def solution(self, problem: Problem) -> str:
        """Return a short text that ends in the boxed answer."""
        return rf"The final answer is \boxed{{{without_tolerance(problem.answer)}}}"

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        # what it was made of, not 100,000 rows; the other process reads the same source
        return _restore, (type(self), self.name, self.verifier, self._options)

    def _nothing_left(self, usable: int, names: Mapping[str, str]) -> str:
        if usable:
            chosen = [] if self.split is None else [f"split={self.split!r}"]
            if self._options["difficulty"] is not None:
                low, high = self.difficulty
                chosen.append(f"difficulty from {low:g} to {high:g}")
            if self._options["drop_guessable"]:
                chosen.append("drop_guessable=True")
            nothing = f"{self.source}: {usable} problems, but none with {' and '.join(chosen)}"
            if chosen != ["split='test'"]:
                return f"{nothing}; {'widen one of them' if len(chosen) > 1 else 'widen it'}"
            return (
                f"{nothing}: one question in ten is held out, by its hash, and none of these is. Add rows, or train with "
                "--eval-problems 0"
            )
        wanted = ", ".join(f"{name} in column {column!r}" for name, column in names.items())
        dropped = _counts(self.dropped) or "none"
        return f"{self.source} holds no usable row; dropped {dropped}. It should hold {wanted}; see columns="


def from_dataset(
    path_or_id: str | os.PathLike[str] | None = None,
    *,
    path: str | os.PathLike[str] | None = None,
    hub_id: str | None = None,
    columns: Mapping[str, str] | None = None,
    verifier: str | Verifier = "math",
    name: str | None = None,
    **options: Any,
) -> Dataset:
    """Return any data set of questions with answers as a task.

    Args:
        path_or_id: a JSONL or Parquet file, or the id of a Hugging Face data set.
        path: the file, in place of `path_or_id`.
        hub_id: the id, in place of `path_or_id`.
        columns: names of the schema → names in the data set, see `Dataset`.
        verifier: the name of a verifier (see `VERIFIERS`), or a verifier.
        name: name of the task. Default: that of the data set.
        **options: see `Dataset`.

    Raises:
        TaskError, DependencyNotInstalled: see `Dataset`.
    """
    named = [os.fspath(where) for where in (path_or_id, path, hub_id) if where is not None]
    if len(named) != 1:
        raise TaskError(f"name one data set, by path_or_id= (or path=, or hub_id=), not {', '.join(named) or 'none'}")
    (text,) = named
    is_file = hub_id is None and (path is not None or _looks_like_a_file(text))
    if isinstance(verifier, str):
        if verifier not in VERIFIERS:
            raise TaskError(f"there is no verifier {verifier!r}; choose one of {', '.join(VERIFIERS)}, or pass a verifier")
        verifier = VERIFIERS[verifier]()
    elif not hasattr(verifier, "score_many"):
        raise TypeError(f"verifier must be a name or a `Verifier`, not {verifier!r}")
    task = Dataset(path=text if is_file else None, hub_id=None if is_file else text, columns=columns, **options)
    task.name, task.verifier = name or Path(text).stem, verifier
    return task


def _looks_like_a_file(text: str) -> bool:
    return Path(text).expanduser().exists() or Path(text).suffix in (".jsonl", ".json", ".ndjson", ".parquet", ".pq", ".csv")


def _restore(cls: type[Dataset], name: str, verifier: Verifier, options: dict[str, Any]) -> Dataset:
    task = cls.__new__(cls)
    task.name, task.verifier, task._options = name, verifier, options
    task._load(**options)
    return task


def _counts(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{count} ({reason})" for reason, count in sorted(dropped.items()))
