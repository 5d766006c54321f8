r"""The searcher, from whose texts the embedded model learns `ChainSearch`: it tries digits, but not always with care.

*Behaviours.* Alone it guesses at once, or tries one digit after the other until the chain ends with 0 or its patience
ends. A careful text tries no digit twice. After reading a rival's draft the searcher copies its answer, searches by itself,
or checks: it works out the chain from the draft's answer, repeats the answer if that leads to 0, and else searches on.

*Beliefs.* It is wrong about some of the single steps, each with its own chance (`agents.embedded.writer`). So a draft may
claim a digit that does not lead to 0, and a check, which draws its luck anew, may find it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from agents.embedded.writer import Fact, follow, guess
from agon_env.tasks.arithmetic import last_boxed, read_steps, work_out
from agon_env.tasks.task import Problem

CHECK = "Check: "
"""What a check begins with."""


@dataclass(frozen=True)
class SearchHabits:
    """How often the searcher does what."""

    search: float = 0.75
    """Chance of searching when it answers alone; otherwise it guesses."""
    careful: float = 0.5
    """Chance that a text tries no digit twice."""
    give_up: float = 0.35
    """Chance of giving up after a try that failed."""
    most: int = 6
    """Tries after which it gives up, so that its texts stay short."""
    copy: float = 0.4
    """Chance of copying the answer of a draft."""
    check: float = 0.4
    """Chance of checking the answer of a draft; what is left is answering as if alone."""


@dataclass(frozen=True)
class Searcher:
    """Writes answers to chain searches."""

    false_beliefs: Mapping[Fact, tuple[float, int]]
    """Fact → (chance of writing the false result, the false result)."""
    habits: SearchHabits = SearchHabits()

    def answer(self, problem: Problem, draft: str | None, rng: np.random.Generator) -> str:
        """Answer in one of the habitual ways; `draft` is what the rival wrote, None without a rival."""
        luck, claim = rng.random(), _claim(draft)
        if claim is not None and luck < self.habits.copy:
            return rf"\boxed{{{claim}}}"
        if claim is not None and luck < self.habits.copy + self.habits.check:
            return self.check(problem, claim, rng)
        return self.search(problem, rng) if rng.random() < self.habits.search else guess(rng)

    def check(self, problem: Problem, claim: int, rng: np.random.Generator) -> str:
        """Try the claimed digit; repeat the claim if that leads to 0, and else search on."""
        text, last = self._try(problem, claim, rng)
        return rf"{CHECK}{text} \boxed{{{claim}}}" if last == 0 else f"{CHECK}{text}; {self.search(problem, rng)}"

    def search(self, problem: Problem, rng: np.random.Generator) -> str:
        """Try digits, true to the beliefs."""
        careful = rng.random() < self.habits.careful
        digits = rng.permutation(10) if careful else rng.integers(10, size=10)
        tries: list[str] = []
        for digit in map(int, digits[: self.habits.most]):
            text, last = self._try(problem, digit, rng)
            tries.append(text)
            if last == 0:
                return rf"{'; '.join(tries)} \boxed{{{digit}}}"
            if rng.random() < self.habits.give_up:
                break
        return f"{'; '.join(tries)} {guess(rng)}"

    def _try(self, problem: Problem, digit: int, rng: np.random.Generator) -> tuple[str, int]:
        """Return the worked chain from `digit`, and what it ends with."""
        steps = read_steps(problem.id)
        digits = follow(digit, steps, self.false_beliefs, rng)
        return work_out(digit, steps, digits), digits[-1]


def _claim(draft: str | None) -> int | None:
    """Return the digit that a draft claims."""
    box = last_boxed(draft) if draft is not None else None
    return int(box) if box is not None and box.isascii() and box.isdigit() and len(box) == 1 else None
