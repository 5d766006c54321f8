"""Competitive GRPO (Agon, arXiv 2607.07690): two policies, each paid for out-solving the other.

Nothing in the loss knows of the contest. The competition is in the reward (`competitive`: the outcome plus
a bonus for what the rival lost), in what the challenger reads (the rival's draft), and in the seats, which
the policies swap every step so that both learn to draft and to answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from algos.algorithm import Algorithm


@dataclass(frozen=True)
class CompetitiveGRPO(Algorithm):
    """A policy for each seat, rotating."""

    policies: ClassVar[tuple[str, ...]] = ("alice", "bob")
    contest_options = {"reward": "competitive"}  # noqa: RUF012

    swap_roles: bool = True
    """Rotate the seats every step; False leaves each policy in its seat."""

    def seats(self, step: int, roles: Sequence[str]) -> dict[str, str]:
        """Return role → policy: in their order at even steps, rotated by one at every further step."""
        if len(roles) < len(self.policies):
            raise ValueError(
                f"competitive GRPO needs a contest for {len(self.policies)} players; this one has the roles "
                f"{', '.join(roles)}. Take a duel, or train with grpo."
            )
        shift = step if self.swap_roles else 0
        return {role: self.policies[(index + shift) % len(self.policies)] for index, role in enumerate(roles)}
