"""Advantages: how much better a turn did than the others of its group.

A group holds the turns that began alike: the same problem and the same role, or the same draft and the
same role. Their mean reward is the baseline, so no value model is needed (GRPO, arXiv 2402.03300).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from agon_env.types import Reward

Normalize: TypeAlias = Literal["std", "mean", "leave_one_out"]


@dataclass(frozen=True)
class Advantages:
    """One advantage per turn, and which turns carry a signal."""

    values: NDArray[np.float64]
    """The advantages, shape (N,); 0 where `kept` is False."""
    kept: NDArray[np.bool_]
    """True for the turns to learn from, shape (N,): their reward is known and their group has spread."""
    groups: int
    """How many groups there were."""
    dropped: int
    """How many of them were dropped: without spread, or with fewer than two known rewards."""
    tokens: Sequence[tuple[float, ...]] | None = None
    """With a critic: one advantage per token of each turn, which take the place of `values`; none where `kept` is False."""
    returns: Sequence[tuple[float, ...]] | None = None
    """With a critic: what it should have said of each turn's states; none where `kept` is False."""


def group_advantages(
    rewards: Sequence[Reward],
    groups: Sequence[Hashable],
    *,
    normalize: Normalize = "std",
    tolerance: float = 1e-6,
) -> Advantages:
    """Compare every reward with the rewards of its group.

    `normalize="std"` is `A = (R − mean) / std` with the *population* standard deviation (divided by n, not by
    n − 1), as in Eq. 1 of Agon (arXiv 2607.07690); TRL and verl divide by n − 1, which makes their advantages
    smaller by √((n − 1)/n). `normalize="mean"` is `A = R − mean`, as in Dr. GRPO (arXiv 2503.20783).
    `normalize="leave_one_out"` is `A = R − mean of the others`, as in RLOO (arXiv 2402.14740).

    The order of the rows does not matter, to the last bit. A group of one has nothing to be compared with: its
    advantage is 0, and it is dropped.

    Args:
        rewards: N rewards. None is a reward that could not be computed: it stays out of the baseline, and its
            own advantage is 0.
        groups: N names of groups. Rows with equal names are compared.
        normalize: "std", "mean" or "leave_one_out".
        tolerance: a group whose largest and smallest reward differ by no more is taken for constant: its
            advantages are exactly 0, and it is dropped. (A test of `std == 0` would blow up the rounding error
            of equal rewards to advantages of 1.)

    Returns:
        The advantages, and which rows are worth learning from.

    Raises:
        ValueError: there are not as many groups as rewards, a reward is not finite, or an option is unknown.
    """
    if len(rewards) != len(groups):
        raise ValueError(f"every reward needs a group: got {len(rewards)} rewards and {len(groups)} groups")
    if normalize not in get_args(Normalize):
        raise ValueError(f"normalize must be one of {', '.join(get_args(Normalize))}, not {normalize!r}")
    values, kept = np.zeros(len(rewards)), np.zeros(len(rewards), dtype=bool)
    members: defaultdict[Hashable, list[tuple[int, float]]] = defaultdict(list)
    for row, (reward, group) in enumerate(zip(rewards, groups, strict=True)):
        if reward is None:
            members.setdefault(group, [])
            continue
        if not math.isfinite(reward):
            raise ValueError(f"the reward of row {row} is {reward}; a reward is finite, or None where it could not be computed")
        members[group].append((row, float(reward)))
    dropped = 0
    for known in members.values():
        group_rewards = [reward for _, reward in known]
        if len(known) < 2 or max(group_rewards) - min(group_rewards) <= tolerance:
            dropped += 1
            continue
        rows = [row for row, _ in known]
        values[rows] = _compare(group_rewards, normalize)
        kept[rows] = True
    return Advantages(values=values, kept=kept, groups=len(members), dropped=dropped)


def _compare(rewards: Sequence[float], normalize: Normalize) -> NDArray[np.float64]:
    # fsum rounds once, so that the order of the rows changes nothing.
    mean = math.fsum(rewards) / len(rewards)
    centred = np.asarray(rewards) - mean
    if normalize == "mean":
        return centred
    if normalize == "leave_one_out":
        return centred * (len(rewards) / (len(rewards) - 1))
    return centred / math.sqrt(math.fsum(centred**2) / len(rewards))
