r"""`ChainSearch`: which digit leads a chain to 0? Hard to find, easy to check.

`a*7 b-9 c+8` reads: multiply by 7, subtract 9, add 8, and only the last digit counts. All steps are one-to-one
modulo 10, so exactly one of the ten digits leads to 0. To check a digit is to work out the chain once,
`Start with 3 a*7=1 b-9=2 c+8=0 \boxed{3}`; to find it takes several such tries, written one after the other:
`Start with 5 a*7=5 b-9=6 c+8=4; Start with 3 a*7=1 b-9=2 c+8=0 \boxed{3}`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agon_env.tasks.arithmetic import MAX_DIFFICULTY as MOST_STEPS
from agon_env.tasks.arithmetic import (
    RULES,
    START,
    ArithmeticVerifier,
    draw_steps,
    name_steps,
    read_steps,
    results,
    work_out,
)
from agon_env.tasks.generated import Difficulty, GeneratedTask
from agon_env.tasks.task import Problem, Split
from agon_env.verifiers.verdict import Verifier

QUESTION = RULES + "\n" + START + "? {chain}\nWhich first digit makes the number 0 after the last step?"
INSTRUCTION = r"Try digits: write the number after each step. Then put the first digit in \boxed{}."

DEFAULT_DIFFICULTY = 4


class ChainSearch(GeneratedTask):
    """Chains of `difficulty` steps modulo 10 that are to end with 0; endless."""

    name = "chain_search"
    instruction = INSTRUCTION

    def __init__(self, *, split: Split = "train", difficulty: Difficulty = DEFAULT_DIFFICULTY, seed: int = 0) -> None:
        """Make a family.

        Args:
            split: "train" or "test"; no question is in both.
            difficulty: number of steps from 1 to 26, or the least and the greatest, between which it is drawn.
            seed: a non-negative integer; another seed gives another order of problems.

        Raises:
            TaskError: one of them is out of range.
        """
        super().__init__(split=split, difficulty=difficulty, seed=seed, dial="steps", bounds=(1, MOST_STEPS))
        self.verifier: Verifier = ArithmeticVerifier()

    def draw(self, rng: np.random.Generator, difficulty: int) -> Problem:
        """Return a chain of `difficulty` steps."""
        return make_chain_search(draw_steps(rng, difficulty))

    def solution(self, problem: Problem) -> str:
        """Return the try that succeeds."""
        return write_tries([int(problem.answer)], read_steps(problem.id))


def make_chain_search(steps: Sequence[tuple[str, int]]) -> Problem:
    """Return the problem of the digit that `steps`, pairs of operation and operand, lead to 0."""
    chain = " ".join(name_steps(steps))
    answer = next(digit for digit in range(10) if results(digit, steps)[-1] == 0)
    return Problem(chain, QUESTION.format(chain=chain), str(answer), difficulty=len(steps), topic="search modulo 10")


def write_tries(digits: Sequence[int], steps: Sequence[tuple[str, int]]) -> str:
    r"""Return the text that works out the chain from one digit after the other; it ends with the last one in `\boxed{}`."""
    tries = "; ".join(work_out(digit, steps, results(digit, steps)) for digit in digits)
    return rf"{tries} \boxed{{{digits[-1]}}}"
