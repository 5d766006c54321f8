r"""`SubsetSum`: choose some of the numbers so that they add up to a target. Hard to find, easy to check.

`24 = 3 of 7 12 5 9 3 8` reads: three of the six numbers have the sum 24. A worked solution writes what is left of
the target after each number that it takes, `24 - 7 = 17 - 12 = 5 - 5 = 0 \boxed{7 + 12 + 5}`; a search strings such attempts
together, `24 - 9 = 15 - 3 = 12 - 8 = 4; 24 - 7 = 17 - 12 = 5 - 5 = 0 \boxed{7 + 12 + 5}`.

Any choice that adds up is credited. Every target has one, and is greater than each of the numbers, so that no
number answers by itself.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, combinations

import numpy as np

from agon_env.errors import TaskError
from agon_env.quoting import strip_thoughts
from agon_env.tasks.arithmetic import last_boxed
from agon_env.tasks.generated import Difficulty, GeneratedTask, is_integer
from agon_env.tasks.task import Problem, Split
from agon_env.verifiers.verdict import Verdict, Verifier

QUESTION = "Choose {terms} of these numbers, each at most once, so that their sum is {target}.\nNumbers: {numbers}"
INSTRUCTION = r"Write what is left of the sum after each number that you take, then put the numbers in \boxed{}, joined by +."

GREATEST = 15
"""The numbers of a problem are different ones from 1 to this."""
MAX_DIFFICULTY = 12
DEFAULT_DIFFICULTY = 8
DEFAULT_TERMS = 3

_CHOICE = re.compile(r"\s*\d{1,3}(?:\s*\+\s*\d{1,3})*\s*", re.ASCII)


class SubsetSumVerifier:
    r"""Adds up the last complete `\boxed{…}` outside of hidden reasoning, where it is a sum of the right numbers."""

    def score(self, completion: str, gold: str) -> Verdict:
        """Return 1 for a choice that adds up; `gold` is the id of the problem, such as `24 = 3 of 7 12 5 9`."""
        extracted = self.extract(completion, gold)
        if extracted is None:
            return Verdict(0.0, None, "no answer")
        chosen = read_choice(extracted)
        if chosen is None:
            return Verdict(0.0, extracted, "not a sum of numbers")
        target, terms, numbers = read_subset_sum(gold)
        if len(chosen) != terms:
            return Verdict(0.0, extracted, f"not {terms} numbers")
        if Counter(chosen) - Counter(numbers):
            return Verdict(0.0, extracted, "other numbers than those given")
        right = sum(chosen) == target
        return Verdict(float(right), extracted, "adds up" if right else "another sum")

    def extract(self, completion: str, gold: str) -> str | None:
        """Return what is in the box."""
        return last_boxed(strip_thoughts(completion))

    def score_many(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        """Judge many `(completion, gold)` pairs, in order."""
        return [self.score(completion, gold) for completion, gold in pairs]


class SubsetSum(GeneratedTask):
    """Problems with `difficulty` numbers, of which `terms` are to be chosen; endless."""

    name = "subset_sum"
    instruction = INSTRUCTION
    verifier: Verifier

    def __init__(
        self,
        *,
        split: Split = "train",
        difficulty: Difficulty = DEFAULT_DIFFICULTY,
        terms: int = DEFAULT_TERMS,
        seed: int = 0,
    ) -> None:
        """Make a family.

        Args:
            split: "train" or "test"; no question is in both.
            difficulty: how many numbers there are, from terms + 1 to 12, or the least and the greatest count.
            terms: how many of them make the sum, from 2 to 5.
            seed: a non-negative integer; another seed gives another order of problems.

        Raises:
            TaskError: one of them is out of range.
        """
        if not (is_integer(terms) and 2 <= terms <= 5):
            raise TaskError(f"terms is how many numbers make the sum, an integer from 2 to 5, not {terms!r}")
        super().__init__(split=split, difficulty=difficulty, seed=seed, dial="numbers", bounds=(int(terms) + 1, MAX_DIFFICULTY))
        self.terms = int(terms)
        self.verifier = SubsetSumVerifier()

    def draw(self, rng: np.random.Generator, difficulty: int) -> Problem:
        """Return a problem with `difficulty` numbers: a choice is made and its sum told."""
        while True:
            numbers = [int(n) + 1 for n in rng.permutation(GREATEST)[:difficulty]]
            chosen = rng.permutation(numbers)[: self.terms]
            if chosen.sum() > max(numbers):
                return make_subset_sum(int(chosen.sum()), self.terms, numbers)

    def solution(self, problem: Problem) -> str:
        """Return the first choice that adds up, worked out."""
        target, terms, numbers = read_subset_sum(problem.id)
        chosen = next(choice for choice in combinations(numbers, terms) if sum(choice) == target)
        return f"{write_attempt(target, chosen)} {boxed(chosen)}"


def make_subset_sum(target: int, terms: int, numbers: Sequence[int]) -> Problem:
    """Return the problem of making `target` of `terms` of the `numbers`."""
    listed = " ".join(map(str, numbers))
    id = f"{target} = {terms} of {listed}"
    question = QUESTION.format(terms=terms, target=target, numbers=listed)
    return Problem(id, question, id, difficulty=len(numbers), topic="subset sum")


def read_subset_sum(id: str) -> tuple[int, int, list[int]]:
    """Return target, terms and numbers of the id of a problem, such as `24 = 3 of 7 12 5 9`."""
    target, _, terms, _, *numbers = id.split()
    return int(target), int(terms), list(map(int, numbers))


def read_choice(text: str) -> list[int] | None:
    """Return the numbers of a sum such as `7+12+5`; None if it is anything else."""
    return [int(number) for number in text.split("+")] if _CHOICE.fullmatch(text) else None


def write_attempt(target: int, chosen: Sequence[int]) -> str:
    """Return the text that takes the numbers one by one, with what is left after each: `24 - 7 = 17 - 12 = 5 - 5 = 0`."""
    left = accumulate(chosen, operator.sub, initial=target)
    return "".join([str(next(left)), *(f" - {number} = {rest}" for number, rest in zip(chosen, left, strict=True))])


def boxed(chosen: Sequence[int]) -> str:
    r"""Return the answer that chooses these numbers: `\boxed{7 + 12 + 5}`."""
    return rf"\boxed{{{' + '.join(map(str, chosen))}}}"
