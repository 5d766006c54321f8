"""RLOO (Ahmadian et al. 2024, arXiv 2402.14740): each turn against the mean of the *others* of its group.

A baseline that holds the own reward shrinks the gradient by (n − 1)/n in a group of n. Leaving it out makes the gradient
unbiased in groups of any size, small ones included. Nothing is divided by a standard deviation, so that the size of the
reward speaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from algos.advantages import Advantages, group_advantages
from algos.grpo import GRPO
from algos.types import Turn


@dataclass(frozen=True)
class RLOO(GRPO):
    """One policy in every seat; `normalize` does not apply."""

    ignores = ("normalize",)

    def advantages(self, turns: Sequence[Turn]) -> Advantages:
        """Return `A = R − mean of the others` within each group."""
        return group_advantages([turn.reward for turn in turns], self.groups(turns), normalize="leave_one_out")
