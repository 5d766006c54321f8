"""REINFORCE with one moving baseline per role, for contests whose turns are many, long or uneven.

A group needs contests that began alike and cost alike. Games with many turns rarely offer that: after the first
moves no two contests are in the same position. So a turn is compared with the past of its role instead of with its
neighbours: seats are rarely equal, and one baseline for both would pay a policy for sitting in the better one
(role-conditioned advantage estimation, SPIRAL, arXiv 2506.24119).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from algos.advantages import Advantages
from algos.grpo import GRPO
from algos.types import Turn


@dataclass(frozen=True)
class Reinforce(GRPO):
    """One policy in every seat. Every turn is a sample, and is paid the contest's return; groups do not matter.

    The advantage is `A = γ^k · R − b(role)`: R the reward of the contest, k the turns that the player had afterwards,
    b the moving average of what the role's turns were worth in the steps *before*. A baseline that does not look at
    the turns that it judges leaves the gradient unbiased. The first step, which has no past, takes its own mean.
    """

    compares = False
    ignores = ("normalize", "group_by")

    discount: float = 1.0
    """γ: what a reward is worth one turn of the player earlier."""
    baseline_decay: float = 0.9
    """How much of a baseline stays at each step; the rest is the step's mean."""
    baselines: dict[str, float] = field(default_factory=dict, init=False)
    """Role → baseline."""

    def __post_init__(self) -> None:
        if not (0 <= self.discount <= 1 and 0 <= self.baseline_decay < 1):
            raise ValueError(
                f"discount must be in [0, 1] and baseline_decay in [0, 1), not {self.discount} and {self.baseline_decay}"
            )

    def state(self) -> dict[str, Any]:
        """Return the baselines."""
        return dict(self.baselines)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with baselines that `state` returned."""
        self.baselines.clear()
        self.baselines.update(state)

    def advantages(self, turns: Sequence[Turn]) -> Advantages:
        """Return each turn's return less the baseline of its role, and move the baselines on."""
        worth = [None if turn.reward is None else self.discount**turn.later * turn.reward for turn in turns]
        known: defaultdict[str, list[float]] = defaultdict(list)
        for turn, value in zip(turns, worth, strict=True):
            if value is not None:
                known[turn.role].append(value)
        # fsum rounds once, so that the order of the turns changes nothing.
        means = {role: math.fsum(values) / len(values) for role, values in known.items()}
        before = {role: self.baselines.get(role, mean) for role, mean in means.items()}
        decay = self.baseline_decay
        self.baselines.update({role: decay * before[role] + (1 - decay) * mean for role, mean in means.items()})
        return Advantages(
            values=np.array([0.0 if v is None else v - before[t.role] for t, v in zip(turns, worth, strict=True)]),
            kept=np.array([value is not None for value in worth], dtype=bool),
            groups=len({turn.role for turn in turns}),
            dropped=len({turn.role for turn in turns} - known.keys()),
        )
