"""`load_task`: a task by name."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Hashable, Mapping
from typing import Any

from agon_env.errors import TaskError
from agon_env.tasks.task import Task

TASKS: dict[str, str] = {
    "arithmetic": "agon_env.tasks.arithmetic:Arithmetic",
    "subset_sum": "agon_env.tasks.subset_sum:SubsetSum",
    "chain_search": "agon_env.tasks.chain_search:ChainSearch",
    "deepmath": "agon_env.tasks.benchmarks:DeepMath",
    "gsm8k": "agon_env.tasks.benchmarks:GSM8K",
    "math": "agon_env.tasks.benchmarks:MATH",
    "math500": "agon_env.tasks.benchmarks:MATH500",
    "aime": "agon_env.tasks.benchmarks:AIME",
    "amc": "agon_env.tasks.benchmarks:AMC",
    "olympiadbench": "agon_env.tasks.benchmarks:OlympiadBench",
    "minerva": "agon_env.tasks.benchmarks:Minerva",
    "code": "agon_env.tasks.code:CodeTask",
    "humaneval": "agon_env.tasks.code:HumanEval",
    "mbpp": "agon_env.tasks.code:MBPP",
    "livecodebench": "agon_env.tasks.code:LiveCodeBench",
    "apps": "agon_env.tasks.code:APPS",
    "codecontests": "agon_env.tasks.code:CodeContests",
    "dataset": "agon_env.tasks.dataset:from_dataset",
    "reasoning_gym": "agon_env.tasks.reasoning_gym:ReasoningGym",
    "mixture": "agon_env.tasks.mixture:Mixture",
}
"""Name → what makes the task, imported when it is first asked for."""

_made: dict[tuple[str, Hashable], Task] = {}


def load_task(task: str | Task, **options: Any) -> Task:
    """Return the task called `task`, made with `options`; a task object is returned as it is.

    The same name and options give the same object: tasks are read-only, and data sets are large.

    Raises:
        TaskError: there is no such task.
        TypeError: the task does not take one of the options, or is none.
    """
    if not isinstance(task, str):
        if missing := [name for name in ("verifier", "size", "__getitem__") if not hasattr(task, name)]:
            raise TypeError(f"a task is a name or a `Task`; {task!r} has no {missing[0]}")
        if options:
            raise TypeError(f"options {sorted(options)} are for a task given by name; this one is made already")
        return task
    if task not in TASKS:
        raise TaskError(f"there is no task {task!r}; choose one of {', '.join(TASKS)}, or pass a task object")
    key = (task, _frozen(options))
    if key not in _made:
        _made[key] = _make(task, options)
    elif announce := getattr(_made[key], "announce", None):
        announce()  # each user of a shared task is told what it should know
    return _made[key]


def _make(name: str, options: Mapping[str, Any]) -> Task:
    module, _, attribute = TASKS[name].partition(":")
    maker = getattr(importlib.import_module(module), attribute)
    parameters = inspect.signature(maker).parameters.values()
    accepted = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
    if not open_ended and (unknown := sorted(set(options) - set(accepted))):
        raise TypeError(f"the task {name!r} does not take the option {unknown[0]!r}; it takes {', '.join(accepted)}")
    made: Task = maker(**options)
    return made


def _frozen(value: Any) -> Hashable:
    """Return a hashable stand-in for an option, equal for equal options."""
    if isinstance(value, Mapping):
        return tuple((key, _frozen(value[key])) for key in sorted(value))
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    hash(value)
    return (type(value).__name__, value)
