"""`ProposerSolver`: one player poses a problem that can be checked, the other tries to solve it several times."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from agon_env.contest import Contest
from agon_env.errors import Error, InvalidMove
from agon_env.quoting import strip_thoughts
from agon_env.verifiers.extraction import extract_answer

_SUM = re.compile(
    r"(?<![0-9.])[0-9]{1,4}(?: *[-+*] *[0-9]{1,4}){1,11}"
    r"(?!\.?[0-9]| *[-+*/^]+ *[0-9])"  # a part of a longer one is another problem than was posed
)
_NUMBER = re.compile(r"[-+]?[0-9]{1,48}")  # twelve factors of four digits have no more
FORM = "a sum of 2 to 12 whole numbers of at most four digits, joined by +, - or *"


class ProposerSolver(Contest):
    """The proposer poses a piece of arithmetic, the solver has `attempts` tries, none of which sees the others.

    With p the share of right tries, the solver is paid p and the proposer 4·p·(1 − p): 1 for a problem that the solver gets
    right half of the time, 0 for one that it always or never gets right. So the problems grow with the solver. The answer is
    computed here, never taken from the proposer; a text without such a problem may be repeated once, then it forfeits.
    """

    roles: ClassVar[tuple[str, ...]] = ("proposer", "solver")
    retries = 1

    def __init__(self, *, attempts: int = 4, **options: Any) -> None:
        """Make a contest in which the solver has so many `attempts`; other options as for every contest."""
        super().__init__(**options)
        if not isinstance(attempts, int) or not 1 <= attempts < self.max_turns:
            raise Error(f"attempts must be a whole number from 1 to {self.max_turns - 1}, not {attempts!r}")
        self.attempts = attempts

    def setup(self, rng: np.random.Generator, options: Mapping[str, Any]) -> None:
        """Name a number that the problem must begin with, so that no two contests ask for the same."""
        self.start = int(rng.integers(1, 1000))
        self.problem = ""
        self.right: list[bool] = []

    def next_role(self) -> str | None:
        """Return the proposer once, then the solver for each try."""
        return "proposer" if not self.problem else "solver" if len(self.right) < self.attempts else None

    def prompt(self, role: str) -> str:
        """Return what is to be posed, or what is to be solved."""
        if role == "proposer":
            return f"Pose {FORM}, that begins with {self.start}. A good one is solved in about half of the tries."
        return f"What is {self.problem}? Put the number in \\boxed{{}}."

    def legal_texts(self, role: str) -> tuple[str, ...] | None:
        """Return some problems that the proposer may pose; a solver may say anything."""
        return tuple(f"{self.start} {sign} {n}" for sign in "+-*" for n in range(2, 100)) if role == "proposer" else None

    def apply(self, role: str, text: str) -> str | None:
        """Take the last problem of the right form, or judge a try."""
        if role == "solver":
            answer = extract_answer(text)
            self.right.append(bool(_NUMBER.fullmatch(answer or "")) and int(answer or "") == evaluate(self.problem))
            return answer
        posed = [found for found in _SUM.findall(strip_thoughts(text)) if int(re.split(r"\D", found)[0]) == self.start]
        if not posed:
            raise InvalidMove(f"pose {FORM}, that begins with {self.start}")
        self.problem = re.sub(r" *([-+*]) *", r" \1 ", posed[-1])
        return self.problem

    def score(self) -> dict[str, float | None]:
        """Return p for the solver and 4·p·(1 − p) for the proposer."""
        p = sum(self.right) / len(self.right)
        return {"proposer": 4 * p * (1 - p), "solver": p}

    def verdicts(self) -> dict[str, Any]:
        """Return the answer, and which tries were right."""
        return {"answer": str(evaluate(self.problem)), "right": list(self.right)}


def evaluate(problem: str) -> int:
    """Return the value of a sum of products."""
    terms = re.findall(r"([-+]?) ?([0-9]+(?: \* [0-9]+)*)", problem)
    return sum((-1 if sign == "-" else 1) * math.prod(map(int, term.split(" * "))) for sign, term in terms)
