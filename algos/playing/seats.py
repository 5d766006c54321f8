"""Who sits where when several policies train together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from algos.algorithm import Algorithm


@dataclass(frozen=True)
class RotatingSeats(Algorithm):
    """A policy for each seat; they rotate, so that each learns every role.

    A policy in two seats of one contest would be paid for beating itself, so there must be as many policies as roles: a
    subclass for three players names three `policies`.
    """

    policies: ClassVar[tuple[str, ...]] = ("alice", "bob")

    swap_roles: bool = True
    """Rotate the seats every step; False leaves each policy in its seat."""

    def seats(self, step: int, roles: Sequence[str]) -> dict[str, str]:
        """Return role → policy: in their order at step 0, rotated by one at every further step.

        Raises:
            ValueError: there are more roles than policies, or fewer.
        """
        if len(roles) != len(self.policies):
            raise ValueError(
                f"{type(self).__name__} needs a contest for {len(self.policies)} players, one for each of its policies; this "
                f"one has the roles {', '.join(roles)}. Train with grpo, which has one policy in every seat, or with a "
                "subclass that names a policy for each role in `policies`"
            )
        shift = step if self.swap_roles else 0
        return {role: self.policies[(index + shift) % len(roles)] for index, role in enumerate(roles)}
