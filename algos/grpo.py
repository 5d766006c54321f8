"""GRPO (Shao et al. 2024, arXiv 2402.03300): one policy, paid for its outcome, compared with its own group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from algos.algorithm import Algorithm


@dataclass(frozen=True)
class GRPO(Algorithm):
    """One policy in every seat.

    On a solo contest this is plain GRPO. On a duel both seats learn in one policy (self-play).
    """

    def seats(self, step: int, roles: Sequence[str]) -> dict[str, str]:
        """Return the one policy for every role."""
        return dict.fromkeys(roles, self.policies[0])
