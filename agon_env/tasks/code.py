"""`CodeTask`: programming problems, each with tests: the embedded set, a well-known set, or a file of yours."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agon_env.errors import TaskError
from agon_env.tasks.code_rows import SHAPES, read_problem
from agon_env.tasks.problem_set import ProblemSet, bounds_of, check_choice, is_chosen
from agon_env.tasks.rows import BadRow, read_file, read_hub, sound
from agon_env.tasks.task import Problem, Split, normalise_question
from agon_env.verifiers.code import CodeVerifier
from agon_env.verifiers.verdict import Verifier

PROGRAMS = Path(__file__).parent / "data" / "programs.jsonl"
HUB_IDS = {
    "humaneval": ("openai/openai_humaneval", "test"),
    "mbpp": ("google-research-datasets/mbpp", "test"),
    "livecodebench": ("livecodebench/code_generation_lite", "test"),
    "apps": ("codeparrot/apps", "train"),
    "codecontests": ("deepmind/code_contests", "train"),
}
"""Shape → the Hugging Face data set that has it, and the split to take."""
INSTRUCTION = (
    "Reason step by step, then give the complete Python code in one ```python block. The last such block counts; only the "
    "Python standard library is available."
)


class CodeTask(ProblemSet):
    """A set of programming problems; it never changes once it is loaded."""

    name = "code"
    instruction = INSTRUCTION

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        shape: str = "agon",
        hub_id: str | None = None,
        hub_split: str | None = None,
        split: Split | None = "train",
        difficulty: tuple[float, float] | None = None,
        max_tests: int | None = None,
        verifier: CodeVerifier | None = None,
    ) -> None:
        """Load a set. Without a path and a hub id this is the embedded set of generated problems.

        Args:
            path: a JSONL or Parquet file.
            shape: how its rows are laid out: "agon", "humaneval", "mbpp", "livecodebench", "apps" or "codecontests".
            hub_id: a Hugging Face data set. If it can't be had this raises; nothing else is taken in its place.
            hub_split: the split of that data set.
            split: "train" or "test", by a stable hash of the question; None takes both.
            difficulty: keep the rows from the least to the greatest difficulty, both included.
            max_tests: keep at most so many tests of each problem, the first ones.
            verifier: judges programs; default: `CodeVerifier()`.

        Raises:
            TaskError: the data can't be read, or no problem is left.
            DependencyNotInstalled: an optional package is missing; the message holds the pip command.
        """
        self._options: dict[str, Any] = {
            "path": None if path is None else str(Path(path).expanduser().absolute()),
            "shape": shape,
            "hub_id": hub_id,
            "hub_split": hub_split,
            "split": split,
            "difficulty": difficulty,
            "max_tests": max_tests,
            "verifier": verifier,
        }
        check_choice(path=path, hub_id=hub_id, split=split)
        if shape not in SHAPES:
            raise TaskError(f"shape is one of {', '.join(SHAPES)}, not {shape!r}")
        if path is None and hub_id is None and shape != "agon":
            raise TaskError(
                f"{shape} is not embedded: give hub_id={HUB_IDS[shape][0]!r}, or the path of a JSONL or Parquet file"
            )
        if verifier is not None and not hasattr(verifier, "score_many"):
            raise TypeError(f"verifier must be a CodeVerifier, not {verifier!r}")
        if max_tests is not None and max_tests < 1:
            raise TaskError(f"max_tests is at least 1, not {max_tests}")
        if hub_id is not None:
            self.source = f"Hugging Face data set {hub_id}"
            rows = read_hub(hub_id, hub_split or HUB_IDS.get(shape, ("", "train"))[1], None)
        else:
            self.source = f"file {self._options['path']}" if path is not None else "programs generated for agon-env, embedded"
            rows = read_file(PROGRAMS if path is None else Path(self._options["path"]))
        self.verifier: Verifier = verifier or CodeVerifier()
        self.split: Split | None = split
        self.difficulty = bounds_of(difficulty)
        dropped: Counter[str] = Counter()
        found: dict[str, tuple[Problem, str | None]] = {}
        for row in rows:
            try:
                problem, solution = read_problem(sound(row), shape, max_tests=max_tests)
            except BadRow as reason:
                dropped[str(reason)] += 1
                continue
            if found.setdefault(normalise_question(problem.question), (problem, solution))[0] is not problem:
                dropped["question repeated"] += 1
        self.dropped: Mapping[str, int] = MappingProxyType(dict(dropped))
        """Why rows were left out → how many."""
        kept = [
            (problem, solution)
            for problem, solution in found.values()
            if is_chosen(problem, split=split, difficulty=difficulty)
        ]
        self._problems = tuple(problem for problem, _ in kept)
        self._solutions = {problem.id: solution for problem, solution in kept if solution is not None}
        if not self._problems:
            chosen = (
                f"of {len(found)} usable rows none is in split={split!r}, difficulty={difficulty!r}"
                if found
                else "no usable row"
            )
            reasons = ", ".join(f"{count} ({reason})" for reason, count in dropped.items()) or "none"
            raise TaskError(f"{self.source}: {chosen}; left out: {reasons}. The shape is {shape!r}; see shape=")

    def solution(self, problem: Problem) -> str:
        """Return the reference solution as an answer.

        Raises:
            TaskError: the data hold none.
        """
        if problem.id not in self._solutions:
            raise TaskError(f"{self.source} holds no solution of problem {problem.id}")
        code = self._solutions[problem.id].rstrip()
        return f"```python\n{code}\n```"

    def __reduce__(self) -> tuple[Any, tuple[dict[str, Any]]]:
        # what it was made of; the other process reads the same source
        return _restore, (self._options,)


def _restore(options: dict[str, Any]) -> CodeTask:
    return CodeTask(**options)


HumanEval = partial(CodeTask, shape="humaneval", split=None)
MBPP = partial(CodeTask, shape="mbpp", split=None)
LiveCodeBench = partial(CodeTask, shape="livecodebench", split=None)
APPS = partial(CodeTask, shape="apps", split=None)
CodeContests = partial(CodeTask, shape="codecontests", split=None)
