"""The contests of a run: made as its config says, and refused where nothing could be learned from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import agon_env
from agon_env.contest import Contest
from agon_env.errors import TaskError
from agon_env.tasks import Task, require_disjoint
from algos.algorithm import Algorithm, matches_of
from algos.config import TrainConfig
from algos.errors import ConfigError
from algos.playing.win_rates import WinRates


def make_contests(config: TrainConfig, algorithm: Algorithm) -> tuple[Contest, Contest]:
    """Return the template of training contests and that of evaluation contests.

    Raises:
        ConfigError: the contest does not take an option, has too few seats for the algorithm, or has no problems of its
            own to be judged on.
    """
    options = {**algorithm.contest_options, **config.contest_options()}
    try:
        contest = agon_env.make(config.env, **options)
        held_out = agon_env.make(config.env, **{**options, **contest.held_out}) if config.eval_problems else contest
        matches_of(algorithm, 0, contest.roles, rates=WinRates(), rng=np.random.default_rng(0))
    except (TypeError, ValueError) as error:
        raise ConfigError(str(error)) from error
    if config.eval_problems:
        _check_held_out(config, contest)
        _check_disjoint(contest, held_out)
    if algorithm.compares:
        _check_groups(config, contest.roles)
    return contest, held_out


def _check_held_out(config: TrainConfig, contest: Contest) -> None:
    if "index" in contest.option_names and not contest.held_out:
        raise ConfigError(
            f"the task of {config.env} has no held-out problems to evaluate on: give it a `held_out` task, or set "
            "eval_problems=0"
        )
    if named := sorted(set(config.contest_options()) & set(contest.held_out)):
        raise ConfigError(
            f"{named[0]!r} tells held-out problems from those to train on, so it is not an option of a run that is "
            "evaluated: leave it out, or set eval_problems=0"
        )


def _check_disjoint(contest: Contest, held_out: Contest) -> None:
    """Refuse tasks that share a question; those of the splits "train" and "test" never do."""
    train_task, held_out_task = getattr(contest, "task", None), getattr(held_out, "task", None)
    splits = {getattr(task, "split", None) for task in (train_task, held_out_task)}
    if isinstance(train_task, Task) and isinstance(held_out_task, Task) and splits != {"train", "test"}:
        try:
            require_disjoint(train_task, held_out_task)
        except TaskError as error:
            raise ConfigError(str(error)) from error


def _check_groups(config: TrainConfig, roles: Sequence[str]) -> None:
    """Refuse groups of one, from which nothing can be learned, and answers that nobody gives."""
    if len(roles) == 1 and config.answers > 1:
        raise ConfigError(
            f"a contest for one player has no answers to a draft: raise group_size instead of answers={config.answers}"
        )
    if config.group_by == "position" and config.answers < 2 and len(roles) > 1:
        raise ConfigError('group_by="position" compares the answers to one draft, so answers must be at least 2')
