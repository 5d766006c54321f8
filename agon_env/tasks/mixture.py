"""`Mixture`: problems of several tasks, in given shares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agon_env.errors import TaskError
from agon_env.tasks.task import Problem, Split, Task
from agon_env.verifiers.verdict import Verdict, Verifier

_SEPARATOR = ": "


@dataclass(frozen=True)
class MixtureVerifier:
    """Hands each answer to the verifier of the task that its gold names: the gold `18` of gsm8k reads `gsm8k: 18`."""

    verifiers: Mapping[str, Verifier]

    def score(self, completion: str, gold: str) -> Verdict:
        """Judge one completion."""
        return self.score_many([(completion, gold)])[0]

    def extract(self, completion: str, gold: str) -> str | None:
        """Return what the verifier of the gold's task finds."""
        name, _, inner = gold.partition(_SEPARATOR)
        return self.verifiers[name].extract(completion, inner) if name in self.verifiers else None

    def score_many(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        """Judge many `(completion, gold)` pairs, in order; each verifier is asked once."""
        verdicts: dict[int, Verdict] = {}
        mine: dict[str, list[tuple[int, tuple[str, str]]]] = {}
        for index, (completion, gold) in enumerate(pairs):
            name, _, inner = gold.partition(_SEPARATOR)
            mine.setdefault(name, []).append((index, (completion, inner)))
        for name, asked in mine.items():
            if name in self.verifiers:
                found = self.verifiers[name].score_many([pair for _, pair in asked])
            else:
                found = [Verdict(None, None, "no gold")] * len(asked)
            verdicts.update((index, verdict) for (index, _), verdict in zip(asked, found, strict=True))
        return [verdicts[index] for index in range(len(pairs))]


class Mixture:
    """An endless task that draws each problem from one of several tasks, with given weights.

    Example:
        ```python
        Mixture({"gsm8k": 2, "math": 1}, split="train", options={"math": {"difficulty": (3, 5)}})
        ```
    """

    name = "mixture"
    instruction = ""
    size: int | None = None

    def __init__(
        self,
        weights: Mapping[str, float],
        *,
        split: Split = "train",
        seed: int = 0,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        tasks: Mapping[str, Task] | None = None,
    ) -> None:
        """Mix tasks.

        Args:
            weights: name of a task → how often it is drawn, in proportion.
            split: "train" or "test", for all tasks given by name. The same question is on the same side in each of them.
            seed: a non-negative integer; another seed gives another order of problems.
            options: name → options of that task.
            tasks: name → task, for those that are no named ones; they must have been loaded with the same `split`.

        Raises:
            TaskError: a weight or a task is wrong.
        """
        from agon_env.tasks.loading import load_task

        if not weights or not all(math.isfinite(weight) and weight > 0 for weight in weights.values()):
            raise TaskError(f"weights maps names of tasks to numbers above 0, not {dict(weights)!r}")
        known = dict(tasks or {})
        if unknown := sorted(set(options or {}) - (set(weights) - set(known))) or sorted(set(known) - set(weights)):
            raise TaskError(f"{unknown[0]!r} has options or a task, but no weight (options are for tasks given by name)")
        for name in weights:
            if name not in known:
                known[name] = load_task(name, **{"split": split, **(options or {}).get(name, {})})
            elif (other := getattr(known[name], "split", split)) != split:
                raise TaskError(f"the task {name!r} is loaded with split={other!r}, the mixture has {split!r}")
        self.split: Split = split
        self.seed = seed
        self.tasks: Mapping[str, Task] = {name: known[name] for name in weights}
        self.weights = np.array([weights[name] for name in weights], dtype=float) / sum(weights.values())
        self.source = "mixture of " + ", ".join(
            f"{task.source} ({share:.0%})" for task, share in zip(self.tasks.values(), self.weights, strict=True)
        )
        self.verifier: Verifier = MixtureVerifier({name: task.verifier for name, task in self.tasks.items()})

    def __getitem__(self, index: int) -> Problem:
        """Return the problem at `index` ≥ 0, drawn from the index's own random stream."""
        if index < 0:
            raise IndexError(f"an endless task has no index {index}; use one from 0")
        rng = np.random.Generator(np.random.Philox(key=np.array([self.seed, index], dtype=np.uint64)))
        name = list(self.tasks)[int(rng.choice(len(self.weights), p=self.weights))]
        task = self.tasks[name]
        problem = task[int(rng.integers(task.size or 2**31))]
        return replace(
            problem,
            id=f"{name}/{problem.id}",
            answer=f"{name}{_SEPARATOR}{problem.answer}",
            instruction=problem.instruction or task.instruction,
        )

    def solution(self, problem: Problem) -> str:
        """Return what the task of the problem says."""
        name, _, answer = problem.answer.partition(_SEPARATOR)
        return self.tasks[name].solution(replace(problem, id=problem.id.removeprefix(f"{name}/"), answer=answer))

    def announce(self) -> None:
        """Say what the mixed tasks have to say."""
        for task in self.tasks.values():
            if announce := getattr(task, "announce", None):
                announce()
