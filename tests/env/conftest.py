"""A tiny task, so that the rules of a contest are tested apart from the tasks that the package carries."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agon_env.games import DraftChallenge, Solo
from agon_env.tasks import Problem
from agon_env.verifiers import Verdict


class LastWordVerifier:
    """The last word of the text is the answer."""

    def __init__(self) -> None:
        self.calls = 0

    def score(self, completion: str, gold: str) -> Verdict:
        self.calls += 1
        extracted = completion.split()[-1] if completion.split() else None
        if extracted == "unscorable":
            return Verdict(None, extracted, "timeout")
        return Verdict(float(extracted == gold), extracted, "equal" if extracted == gold else "different")

    def score_many(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        return [self.score(completion, gold) for completion, gold in pairs]


class Doubling:
    """What is twice n?"""

    name = "doubling"
    source = "made for the tests"
    instruction = "End with the number."
    size = None

    def __init__(self) -> None:
        self.verifier = LastWordVerifier()

    def __getitem__(self, index: int) -> Problem:
        return Problem(str(index), f"What is twice {index}?", str(2 * index))

    def solution(self, problem: Problem) -> str:
        return f"It is {problem.answer}"

    def __deepcopy__(self, memo: object) -> Doubling:
        raise AssertionError("a task must never be copied: it may be a large data set")


@pytest.fixture
def task() -> Doubling:
    return Doubling()


@pytest.fixture
def duel(task: Doubling) -> DraftChallenge:
    return DraftChallenge(task)


@pytest.fixture
def solo(task: Doubling) -> Solo:
    return Solo(task)
