"""`load_task`: a task by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from agon_env.errors import TaskError
from agon_env.tasks.task import Task


def _arithmetic(**options: Any) -> Task:
    from agon_env.tasks.arithmetic import Arithmetic

    return _make("arithmetic", Arithmetic, options)


def _deepmath(**options: Any) -> Task:
    from agon_env.tasks.deepmath import DeepMath

    return _make("deepmath", DeepMath, options)


def _code(**options: Any) -> Task:
    from agon_env.tasks.code import CodeTask

    return _make("code", CodeTask, options)


def _benchmark(shape: str) -> Callable[..., Task]:
    def make(**options: Any) -> Task:
        from agon_env.tasks.code import HUB_IDS, CodeTask

        hub_id = None if "path" in options else HUB_IDS[shape][0]
        return _make(shape, CodeTask, {"shape": shape, "hub_id": hub_id, "split": None} | options)

    return make


TASKS: dict[str, Callable[..., Task]] = {
    "arithmetic": _arithmetic,
    "deepmath": _deepmath,
    "code": _code,
    **{shape: _benchmark(shape) for shape in ("humaneval", "mbpp", "livecodebench", "apps", "codecontests")},
}
"""Name → what makes the task. Imports are inside, so that a task costs nothing until it is asked for."""

_made: dict[tuple[str, Hashable], Task] = {}


def load_task(task: str | Task, **options: Any) -> Task:
    """Return the task called `task`, made with `options`; a task object is returned as it is.

    The same name and options give the same object: tasks are read-only, and data sets are large.

    Raises:
        TaskError: there is no such task.
        TypeError: the task does not take one of the options.
    """
    if not isinstance(task, str):
        if options:
            raise TypeError(f"options {sorted(options)} are for a task given by name; this one is made already")
        return task
    if task not in TASKS:
        raise TaskError(f"there is no task {task!r}; choose one of {', '.join(TASKS)}, or pass a task object")
    key = (task, _frozen(options))
    if key not in _made:
        _made[key] = TASKS[task](**options)
    elif announce := getattr(_made[key], "announce", None):
        announce()  # each user of a shared task is told what it should know
    return _made[key]


def _make(name: str, cls: type[Any], options: Mapping[str, Any]) -> Task:
    accepted = list(inspect.signature(cls).parameters)
    if unknown := sorted(set(options) - set(accepted)):
        raise TypeError(f"the task {name!r} does not take the option {unknown[0]!r}; it takes {', '.join(accepted)}")
    made: Task = cls(**options)
    return made


def _frozen(value: Any) -> Hashable:
    """Return a hashable stand-in for an option, equal for equal options."""
    if isinstance(value, Mapping):
        return tuple((key, _frozen(value[key])) for key in sorted(value))
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    hash(value)
    return (type(value).__name__, value)
