"""`load_task`: a task by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from agon_env.errors import TaskError
from agon_env.tasks.task import Task


def _arithmetic(**options: Any) -> Task:
    from agon_env.tasks.arithmetic import Arithmetic

    return Arithmetic(**options)


def _deepmath(**options: Any) -> Task:
    from agon_env.tasks.deepmath import DeepMath

    return DeepMath(**options)


TASKS: dict[str, Callable[..., Task]] = {"arithmetic": _arithmetic, "deepmath": _deepmath}
"""Name → what makes the task. Imports are inside, so that a task costs nothing until it is asked for."""


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
    frozen = tuple((key, tuple(value) if isinstance(value, list) else value) for key, value in sorted(options.items()))
    return _cached(task, frozen)


@lru_cache(maxsize=64)
def _cached(name: str, options: tuple[tuple[str, Any], ...]) -> Task:
    return TASKS[name](**dict(options))
