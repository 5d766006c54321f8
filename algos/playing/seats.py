"""Who sits where when several policies train together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from algos.algorithm import Algorithm


@dataclass(frozen=True)
class RotatingSeats(Algorithm):
    """A policy for each seat; they rotate, so that each learns every role."""

    policies: ClassVar[tuple[str, ...]] = ("alice", "bob")

    swap_roles: bool = True
    """Rotate the seats every step; False leaves each policy in its seat."""

    def seats(self, step: int, roles: Sequence[str]) -> dict[str, str]:
        """Return role → policy: in their order at even steps, rotated by one at every further step."""
        if len(roles) < len(self.policies):
            raise ValueError(
                f"{type(self).__name__} needs a contest for {len(self.policies)} players; this one has the roles "
                f"{', '.join(roles)}. Take a duel, or train with grpo."
            )
        shift = step if self.swap_roles else 0
        return {role: self.policies[(index + shift) % len(self.policies)] for index, role in enumerate(roles)}
