"""Tasks: where the problems come from. `load_task("arithmetic", difficulty=8)`."""

from agon_env.tasks.contamination import require_disjoint, shared_questions
from agon_env.tasks.loading import load_task
from agon_env.tasks.task import Problem, Split, Task, split_of

__all__ = ["Problem", "Split", "Task", "load_task", "require_disjoint", "shared_questions", "split_of"]
