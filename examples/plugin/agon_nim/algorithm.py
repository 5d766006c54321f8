"""`BestOfGroup`: learn from the best turns of each group alone (RAFT, Dong et al. 2023, arXiv 2304.06767).

What was paid most is imitated, nothing is unlearned. So it can't push a policy far from what it said before, which makes it
steadier than GRPO and slower.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from algos.advantages import Advantages
from algos.grpo import GRPO
from algos.types import Turn


@dataclass(frozen=True)
class BestOfGroup(GRPO):
    """One policy in every seat; the turns that were paid most have advantage 1, the others 0.

    Settings of its own would be fields with defaults here, set by `--algorithm-options NAME=VALUE`; those that `TrainConfig`
    has under the same name are handed over.
    """

    ignores = ("normalize",)

    def advantages(self, turns: Sequence[Turn]) -> Advantages:
        """Return 1 for the best turns of each group whose rewards are not all alike, and learn from them alone."""
        rewards: dict[Hashable, dict[int, float]] = defaultdict(dict)
        for row, (turn, group) in enumerate(zip(turns, self.groups(turns), strict=True)):
            if turn.reward is not None:  # it could not be computed: nothing to learn from
                rewards[group][row] = turn.reward
        values, dropped = np.zeros(len(turns)), 0
        for paid in rewards.values():
            best = max(paid.values())
            if min(paid.values()) == best:
                dropped += 1
            else:
                values[[row for row, reward in paid.items() if reward == best]] = 1.0
        return Advantages(values=values, kept=values > 0, groups=len(rewards), dropped=dropped)
