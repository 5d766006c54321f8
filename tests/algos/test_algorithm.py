"""Which turns are compared with one another. Trap T35 of the reported faults: groups by the wrong key."""

import numpy as np
import pytest

from algos.algorithm import Algorithm
from algos.types import Turn


def turn(role: str, problem: int, draft: int, reward: float | None) -> Turn:
    parent = (problem,) if role == "drafter" else (problem, draft)
    return Turn("alice", "alice", role, problem, parent, (1,), None, "", reward, {}, reward)


# Two problems, two drafts of each, two answers to each draft.
DRAFTS = [turn("drafter", 0, 0, 0.0), turn("drafter", 0, 1, 1.0), turn("drafter", 1, 0, 1.0), turn("drafter", 1, 1, 1.0)]
ANSWERS = [
    turn("challenger", problem, draft, reward)
    for (problem, draft), rewards in {(0, 0): (0.0, 1.0), (0, 1): (1.0, 1.0), (1, 0): (0.0, 0.0), (1, 1): (1.0, 1.5)}.items()
    for reward in rewards
]


@pytest.mark.parametrize("order", [1, -1])
def test_t35_turns_are_compared_within_their_problem_and_role(order):
    result = Algorithm(normalize="mean").advantages([*DRAFTS, *ANSWERS][::order])
    values = result.values[::order]
    np.testing.assert_allclose(values[:4], [-0.5, 0.5, 0, 0])
    np.testing.assert_allclose(values[4:8], [-0.75, 0.25, 0.25, 0.25])
    np.testing.assert_allclose(values[8:], [-0.625, -0.625, 0.375, 0.875])
    assert (result.groups, result.dropped) == (4, 1)


def test_t35_answers_may_be_compared_within_their_draft():
    result = Algorithm(normalize="mean", group_by="position").advantages([*DRAFTS, *ANSWERS])
    np.testing.assert_allclose(result.values, [-0.5, 0.5, 0, 0, -0.5, 0.5, 0, 0, 0, 0, -0.25, 0.25])
    assert (result.groups, result.dropped) == (6, 3)
