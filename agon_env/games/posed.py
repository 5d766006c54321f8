"""Problems that a player may pose, because their answers can be computed: sums of whole numbers, and chains modulo 10."""

from __future__ import annotations

import math
import re
from typing import Protocol

import numpy as np

from agon_env.tasks.arithmetic import INSTRUCTION, OPERANDS, RULES, START, draw_steps, make_problem, name_steps, read_chain

GOOD = "A good one is solved in about half of the tries."


class PosedProblems(Protocol):
    """A kind of problem. One is a text in canonical form, as `find` returns it."""

    form: str
    """What a problem must look like, in words."""

    def start(self, rng: np.random.Generator) -> str:
        """Draw what a problem has to begin with, so that no two contests ask for the same."""
        ...

    def request(self, start: str) -> str:
        """Return what a proposer reads."""
        ...

    def examples(self, start: str) -> tuple[str, ...]:
        """Return some texts that pose a problem which begins with `start`, always the same."""
        ...

    def find(self, text: str, start: str) -> str | None:
        """Return the last problem in `text` that begins with `start`."""
        ...

    def question(self, problem: str) -> str:
        """Return what a solver reads."""
        ...

    def answer(self, problem: str) -> int:
        """Return the answer."""
        ...


class Sums:
    """Sums of products of whole numbers: `417 + 2 * 3 - 1`."""

    form = "a sum of 2 to 12 whole numbers of at most four digits, joined by +, - or *"
    _pattern = re.compile(
        r"(?<![0-9.])[0-9]{1,4}(?: *[-+*] *[0-9]{1,4}){1,11}"
        r"(?!\.?[0-9]| *[-+*/^]+ *[0-9])"  # a part of a longer one is another problem than was posed
    )

    def start(self, rng: np.random.Generator) -> str:
        """Draw the first number."""
        return str(rng.integers(1, 1000))

    def request(self, start: str) -> str:
        """Ask for a sum."""
        return f"Pose {self.form}, that begins with {start}. {GOOD}"

    def examples(self, start: str) -> tuple[str, ...]:
        """Return sums of two."""
        return tuple(f"{start} {sign} {n}" for sign in "+-*" for n in range(2, 100))

    def find(self, text: str, start: str) -> str | None:
        """Return the last sum, with one space around each sign."""
        found = [sum for sum in self._pattern.findall(text) if int(re.split(r"\D", sum)[0]) == int(start)]
        return re.sub(r" *([-+*]) *", r" \1 ", found[-1]) if found else None

    def question(self, problem: str) -> str:
        """Ask for the number."""
        return f"What is {problem}? Put the number in \\boxed{{}}."

    def answer(self, problem: str) -> int:
        """Compute the sum; products go first."""
        terms = re.findall(r"([-+]?) ?([0-9]+(?: \* [0-9]+)*)", problem)
        return sum((-1 if sign == "-" else 1) * math.prod(map(int, term.split(" * "))) for sign, term in terms)


class Chains:
    """The chains of the task `arithmetic`, modulo 10: `4 a*7 b-9 c+8`."""

    form = "a chain of 2 to 26 steps, named a, b, c and so on, each + or - a digit from 1 to 9, or times 3, 7 or 9"
    _pattern = re.compile(r"(?<!\w)[0-9](?: [a-z][-+*][0-9])++(?!\w)")  # nor is the beginning of a longer text one

    def start(self, rng: np.random.Generator) -> str:
        """Draw the first digit and the first step."""
        return f"{rng.integers(10)} {name_steps(draw_steps(rng, 1))[0]}"

    def request(self, start: str) -> str:
        """Ask for a chain, in the words of the task: a model that has learned to solve chains knows them."""
        return f"{RULES}\nPose {self.form}. {GOOD}\n{START}{start}"

    def examples(self, start: str) -> tuple[str, ...]:
        """Return chains of 2 to 17 steps."""
        rng = np.random.default_rng(list(start.encode()))
        digit, (first,) = read_chain(start)
        return tuple(START + make_problem(digit, [first, *draw_steps(rng, more)]).id for more in range(1, 17))

    def find(self, text: str, start: str) -> str | None:
        """Return the last chain whose steps have the right names and operands."""
        found = [chain for chain in self._pattern.findall(text) if chain.startswith(f"{start} ") and _is_chain(chain)]
        return found[-1] if found else None

    def question(self, problem: str) -> str:
        """Ask for the last number, in the words of the task."""
        return f"{make_problem(*read_chain(problem)).question}\n\n{INSTRUCTION}"

    def answer(self, problem: str) -> int:
        """Work out the chain."""
        return int(make_problem(*read_chain(problem)).answer)


def _is_chain(text: str) -> bool:
    start, steps = read_chain(text)
    return make_problem(start, steps).id == text and all(operand in OPERANDS[operation] for operation, operand in steps)


KINDS: dict[str, PosedProblems] = {"sums": Sums(), "chains": Chains()}
"""Name → a kind of problem."""
