"""Training and held-out problems must not share a question, in whatever dress it comes."""

from __future__ import annotations

from agon_env.errors import TaskError
from agon_env.tasks.task import Problem, Task, normalise_question


def shared_questions(train: Task, held_out: Task) -> list[Problem]:
    """Return the problems of `held_out` whose question is in `train` too, but for case, spacing and punctuation.

    Endless tasks are looked through as far as the other one is long, and to 10,000 problems at most.
    """
    sizes = [task.size for task in (train, held_out)]
    most = max([size for size in sizes if size is not None] or [10_000])
    seen = {normalise_question(train[i].question) for i in range(sizes[0] if sizes[0] is not None else most)}
    problems = (held_out[i] for i in range(sizes[1] if sizes[1] is not None else most))
    return [problem for problem in problems if normalise_question(problem.question) in seen]


def require_disjoint(train: Task, held_out: Task) -> None:
    """Make sure that no held-out question is trained on.

    Tasks with split="train" and split="test" never share one, whatever data sets they are from; this is for
    those that take whole data sets, such as a benchmark's own test split.

    Raises:
        TaskError: there are shared questions; the message counts them and shows one.
    """
    if found := shared_questions(train, held_out):
        raise TaskError(
            f"{len(found)} questions are in {train.source} and in {held_out.source}, for example {found[0].question[:80]!r}; "
            "load one with split='train' and the other with split='test', or drop them"
        )
