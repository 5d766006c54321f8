"""`Debate`: two sides argue about one problem, and are judged by what they hold in the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from agon_env.errors import Error
from agon_env.games.draft_challenge import CHALLENGE, DRAFT_INTRODUCTION, ProblemContest
from agon_env.quoting import quote, strip_thoughts
from agon_env.rewards import RewardRule
from agon_env.tasks import Task

DEBATE = "You and a rival debate a problem. You may change your mind; what counts is the answer in your last statement."
YOURS = "You have answered:"


class Debate(ProblemContest):
    """Two players, one problem: both state an answer, read each other and reply, `rounds` times in all.

    The sides speak in turn, and each reads all that was said before. The answer in the last statement of a side is verified; by
    default a side is paid for being right where the other is not, and pays where it is the other way round.
    """

    roles: ClassVar[tuple[str, ...]] = ("opening", "replying")

    def __init__(
        self,
        task: str | Task,
        *,
        reward: str | RewardRule = "zero_sum",
        bonus: float | None = None,
        rounds: int = 2,
        **options: Any,
    ) -> None:
        """Make a debate.

        Args:
            task: a task, or the name of one.
            reward: name of a reward rule, or a rule.
            bonus: λ of the competitive rule.
            rounds: statements of each side.
            **options: see `ProblemContest`.
        """
        super().__init__(task, reward=reward, bonus=bonus, **options)
        if not isinstance(rounds, int) or not 1 <= rounds <= self.max_turns // 2:
            raise Error(f"rounds must be a whole number from 1 to {self.max_turns // 2}, not {rounds!r}")
        self.rounds = rounds  # type: ignore[misc]  # of all debates, unless told otherwise

    def setup(self, rng: np.random.Generator, options: Mapping[str, Any]) -> None:
        """Take or draw a problem."""
        super().setup(rng, options)
        self.statements: list[tuple[str, str]] = []

    def prompt(self, role: str) -> str:
        """Return the problem and what was said so far, quoted."""
        left = self.rounds - sum(side == role for side, _ in self.statements)
        now = "This is your last statement." if left == 1 else f"You speak {left} times."
        said = [
            f"{YOURS if side == role else DRAFT_INTRODUCTION}\n\n{quote(strip_thoughts(text))}"
            for side, text in self.statements
        ]
        return "\n\n".join([f"{DEBATE} {now}", super().prompt(role), *said, *([CHALLENGE] if said else [])])

    def apply(self, role: str, text: str) -> str | None:
        """Keep the statement."""
        self.statements.append((role, text))
        return super().apply(role, text)
