"""How the policies of a run are judged on held-out problems: as a pair, or every group of a league against each other."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations

from agents.policy import LLMPolicy
from agents.sampling import SamplingParams
from agon_env.contest import Contest
from algos.evaluate import Evaluation, evaluate, figures
from algos.evaluation.records import Record
from algos.rollouts import Rollouts, Sample, rollout


def evaluate_policies(
    held_out: Contest,
    policies: Mapping[str, LLMPolicy],
    *,
    problems: int,
    params: SamplingParams,
    samples: int = 1,
    seed: int,
    both_orders: bool = True,
    sample: Sample,
    play: Rollouts = rollout,
    on_contest: Callable[[int], None] | None = None,
) -> tuple[Evaluation, list[Contest]]:
    """Play held-out problems with policies as they are.

    Where there are fewer policies than seats, one sits in several. Where there are more, every group that fits plays,
    all on the same problems.

    Args:
        held_out: the template of the contests.
        policies: name → policy.
        problems: contests to play, divided among the groups.
        params: how the policies sample.
        samples: contests on each problem.
        seed: the same seed gives the same contests.
        both_orders: the policies rotate through the seats from problem to problem; False leaves each in its own.
        sample: generates the tokens.
        play: plays the contests.
        on_contest: told how many contests have ended.

    Returns:
        The figures of all contests, in whose records the players of a league are called like the policies; and the contests.
    """
    names, seats = list(policies), held_out.players
    groups = list(combinations(names, len(seats))) or [tuple(names[seat % len(names)] for seat in range(len(seats)))]
    records: list[Record] = []
    contests: list[Contest] = []
    for group in groups:
        done = len(contests)
        evaluation, played = evaluate(
            lambda: copy.deepcopy(held_out),
            {player: policies[name] for player, name in zip(seats, group, strict=True)},
            problems=max(1, problems // len(groups)),
            params=params,
            samples=samples,
            seed=seed,
            both_orders=both_orders,
            sample=sample,
            play=play,
            on_contest=None if on_contest is None else lambda more, done=done: on_contest(done + more),  # type: ignore[misc]
        )
        if len(groups) == 1:
            return evaluation, played
        called = dict(zip(seats, group, strict=True))
        records += [
            replace(record, players={role: called[player] for role, player in record.players.items()})
            for record in evaluation.records
        ]
        contests += played
    return figures(records), contests
