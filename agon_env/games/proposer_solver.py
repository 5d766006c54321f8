"""`ProposerSolver`: one player poses a problem that can be checked, the other tries to solve it several times."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from agon_env.contest import Contest
from agon_env.errors import Error, InvalidMove
from agon_env.games.posed import KINDS
from agon_env.quoting import strip_thoughts
from agon_env.verifiers.extraction import extract_answer

_NUMBER = re.compile(r"[-+]?[0-9]{1,48}")  # a product of twelve numbers of four digits has no more


class ProposerSolver(Contest):
    """The proposer poses a piece of arithmetic, the solver has `attempts` tries, none of which sees the others.

    With p the share of right tries, the solver is paid p and the proposer 4·p·(1 − p): 1 for a problem that the solver gets
    right half of the time, 0 for one that it always or never gets right. So the problems grow with the solver. The answer is
    computed here, never taken from the proposer; a text without such a problem may be repeated once, then it forfeits.
    """

    roles: ClassVar[tuple[str, ...]] = ("proposer", "solver")
    retries = 1

    def __init__(self, *, problems: str = "sums", attempts: int = 4, **options: Any) -> None:
        """Make a contest about "sums" or "chains" with so many `attempts`; other options as for every contest."""
        super().__init__(**options)
        if problems not in KINDS:
            raise Error(f"problems must be {' or '.join(KINDS)}, not {problems!r}")
        if not isinstance(attempts, int) or not 1 <= attempts < self.max_turns:
            raise Error(f"attempts must be a whole number from 1 to {self.max_turns - 1}, not {attempts!r}")
        self.kind, self.attempts = KINDS[problems], attempts

    def setup(self, rng: np.random.Generator, options: Mapping[str, Any]) -> None:
        """Draw what the problem must begin with."""
        self.start = self.kind.start(rng)
        self.problem = ""
        self.right: list[bool] = []

    def next_role(self) -> str | None:
        """Return the proposer once, then the solver for each try."""
        return "proposer" if not self.problem else "solver" if len(self.right) < self.attempts else None

    def prompt(self, role: str) -> str:
        """Return what is to be posed, or what is to be solved."""
        return self.kind.question(self.problem) if role == "solver" else self.kind.request(self.start)

    def legal_texts(self, role: str) -> tuple[str, ...] | None:
        """Return some texts that the proposer may say; a solver may say anything."""
        return self.kind.examples(self.start) if role == "proposer" else None

    def apply(self, role: str, text: str) -> str | None:
        """Take the last problem of the right form, or judge a try."""
        if role == "solver":
            answer = extract_answer(text)
            self.right.append(bool(_NUMBER.fullmatch(answer or "")) and int(answer or "") == self.kind.answer(self.problem))
            return answer
        self.problem = self.kind.find(strip_thoughts(text), self.start) or ""
        if not self.problem:
            raise InvalidMove(f"pose {self.kind.form}, that begins with {self.start}")
        return self.problem

    def score(self) -> dict[str, float | None]:
        """Return p for the solver and 4·p·(1 − p) for the proposer."""
        p = sum(self.right) / len(self.right)
        return {"proposer": 4 * p * (1 - p), "solver": p}

    def verdicts(self) -> dict[str, Any]:
        """Return the answer, and which tries were right."""
        return {"answer": str(self.kind.answer(self.problem)), "right": list(self.right)}
