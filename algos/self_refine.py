"""Self-refine: one policy in both seats, paid for its outcome. It drafts, reads its own draft, and answers.

It tells what comes from reading a draft at all, without a rival: the contest, the exchange and the budget are those of
the competitive method; the second policy and the bonus are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from algos.grpo import GRPO


@dataclass(frozen=True)
class SelfRefine(GRPO):
    """One policy in every seat of a contest for two or more, each turn paid for its own score."""

    contest_options = {"reward": "outcome"}  # noqa: RUF012

    def seats(self, step: int, roles: Sequence[str]) -> dict[str, str]:
        """Return the one policy for every role."""
        if len(roles) < 2:
            raise ValueError(
                f"self-refine needs a contest in which a role reads another's text; this one has the role {roles[0]} alone. "
                "Take a duel, or train with grpo."
            )
        return super().seats(step, roles)
