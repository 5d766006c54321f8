r"""`Arithmetic`: an endless family of chains of small steps modulo 10, with a dial for their length.

A chain starts with a digit and changes it step by step. `4 a*7 b-9 c+8` reads: start with 4; step a
multiplies by 7, step b subtracts 9, step c adds 8; only the last digit counts. A worked solution writes the
number after each step, `Start with 4 a*7=8 b-9=9 c+8=7 \boxed{7}`.

Every step can be undone (the factors are 3, 7 and 9), so a single slip always spoils the answer and every
digit is equally likely: guessing gains one problem in ten.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import ascii_lowercase

import numpy as np

from agon_env.quoting import strip_thoughts
from agon_env.tasks.generated import Difficulty, GeneratedTask
from agon_env.tasks.task import Problem, Split
from agon_env.verifiers.verdict import Verdict, Verifier

RULES = (
    "A number changes step by step. Each step has a letter for its name, an operation and a digit. "
    "Work modulo 10, so that the number is always a digit from 0 to 9."
)
START = "Start with "
QUESTION = RULES + "\n" + START + "{chain}\nWhat is the number after the last step?"
INSTRUCTION = r"Write the number after each step, then put the final number in \boxed{}."

OPERANDS = {"+": range(1, 10), "-": range(1, 10), "*": (3, 7, 9)}
"""Operation → the digits that it is used with. All of these steps are one-to-one modulo 10."""
MAX_DIFFICULTY = len(ascii_lowercase)
DEFAULT_DIFFICULTY = 10


def step(value: int, operation: str, operand: int) -> int:
    """Return the digit that one step makes of `value`."""
    results = {"+": value + operand, "-": value - operand, "*": value * operand}
    return results[operation] % 10


class ArithmeticVerifier:
    r"""Compares the last complete `\boxed{…}` outside of hidden reasoning with the gold digit, as text."""

    def score(self, completion: str, gold: str) -> Verdict:
        """Return 1 for the gold digit; 0 for anything else, also for an empty gold."""
        extracted = self.extract(completion, gold)
        if extracted is None:
            return Verdict(0.0, None, "no answer")
        right = extracted.strip() == gold.strip() != ""
        return Verdict(float(right), extracted, "equal" if right else "different")

    def extract(self, completion: str, gold: str) -> str | None:
        """Return what is in the box."""
        return last_boxed(strip_thoughts(completion))

    def score_many(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        """Judge many `(completion, gold)` pairs, in order."""
        return [self.score(completion, gold) for completion, gold in pairs]


class Arithmetic(GeneratedTask):
    """Chains of `difficulty` steps modulo 10; a function of seed and index, without an end."""

    name = "arithmetic"
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
        super().__init__(split=split, difficulty=difficulty, seed=seed, dial="steps", bounds=(1, MAX_DIFFICULTY))
        self.verifier: Verifier = ArithmeticVerifier()

    def draw(self, rng: np.random.Generator, difficulty: int) -> Problem:
        """Return a chain of `difficulty` steps."""
        start = int(rng.integers(10))
        return make_problem(start, draw_steps(rng, difficulty))

    def solution(self, problem: Problem) -> str:
        """Return the number after each step, and the answer in a box."""
        value, steps = read_chain(problem.id)
        return write_solution(value, steps, results(value, steps))


def draw_steps(rng: np.random.Generator, count: int) -> list[tuple[str, int]]:
    """Return `count` random steps, pairs of operation and operand."""
    operations = [list(OPERANDS)[i] for i in rng.integers(len(OPERANDS), size=count)]
    return [(operation, int(rng.choice(OPERANDS[operation]))) for operation in operations]


def make_problem(start: int, steps: Sequence[tuple[str, int]]) -> Problem:
    """Return the problem that starts with the digit `start` and takes `steps`, pairs of operation and operand."""
    chain = " ".join([str(start), *name_steps(steps)])
    answer = results(start, steps)[-1]
    return Problem(chain, QUESTION.format(chain=chain), str(answer), difficulty=len(steps), topic="arithmetic modulo 10")


def name_steps(steps: Sequence[tuple[str, int]]) -> list[str]:
    """Return the texts of the steps, each with a letter for its name: `a*7`, `b-9`."""
    return [f"{letter}{operation}{operand}" for letter, (operation, operand) in zip(ascii_lowercase, steps, strict=False)]


def read_chain(chain: str) -> tuple[int, list[tuple[str, int]]]:
    """Return start and steps of a chain such as `4 a*7 b-9`, which is also the id of its problem."""
    start, _, steps = chain.partition(" ")
    return int(start), read_steps(steps)


def read_steps(steps: str) -> list[tuple[str, int]]:
    """Return the steps in a text such as `a*7 b-9`."""
    return [(text[1], int(text[2])) for text in steps.split()]


def results(start: int, steps: Sequence[tuple[str, int]]) -> list[int]:
    """Return the digit after each step."""
    digits = [start]
    for operation, operand in steps:
        digits.append(step(digits[-1], operation, operand))
    return digits[1:]


def write_solution(start: int, steps: Sequence[tuple[str, int]], digits: Sequence[int]) -> str:
    r"""Return the worked text that claims `digits` after the steps; it ends with the last one in `\boxed{}`."""
    return rf"{work_out(start, steps, digits)} \boxed{{{digits[-1]}}}"


def work_out(start: int, steps: Sequence[tuple[str, int]], digits: Sequence[int]) -> str:
    """Return the text that claims `digits` after the steps: `Start with 4 a*7=8 b-9=9`."""
    worked = [f"{name}={digit}" for name, digit in zip(name_steps(steps), digits, strict=True)]
    return START + " ".join([str(start), *worked])


_BRACE = re.compile(r"\\boxed\{|\\[{}]|[{}]")


def last_boxed(text: str) -> str | None:
    r"""Return the content of the `\boxed{…}` that closes last, None if none is complete. Takes linear time."""
    found: str | None = None
    opened: list[int | None] = []
    for brace in _BRACE.finditer(text):
        if brace[0] == "}":
            start = opened.pop() if opened else None
            found = text[start : brace.start()] if start is not None else found
        elif brace[0] in ("{", "\\boxed{"):
            opened.append(brace.end() if brace[0] != "{" else None)
    return found
