"""PPO (Schulman et al. 2017, arXiv 1707.06347) with a critic: each token against what was expected before it.

Groups do not matter, so that every contest of a step may be another one. The clipped loss is that of all algorithms here;
what PPO adds is the critic (`algos.learning.values`) and what is made of its values (`algos.gae`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from algos.advantages import Advantages
from algos.algorithm import Algorithm
from algos.competitive import CompetitiveGRPO
from algos.gae import Judgement, judge_turns
from algos.grpo import GRPO
from algos.types import Turn

SPREAD = 1e-8
"""Advantages whose standard deviation is below this are equal up to rounding: whitened, they are 0."""


@dataclass(frozen=True)
class ActorCritic(Algorithm):
    """Every policy has a critic, and advantages are those of tokens. `normalize` and `group_by` do not apply."""

    compares = False
    ignores = ("normalize", "group_by")
    critic = True

    gamma: float = 1.0
    """γ of `algos.gae`, per token."""
    lam: float = 1.0
    """λ of `algos.gae`."""
    whiten: bool = True
    """Scale the advantages of all tokens that a policy said in a step to mean 0 and standard deviation 1."""

    def __post_init__(self) -> None:
        if not (0 <= self.gamma <= 1 and 0 <= self.lam <= 1):
            raise ValueError(f"gamma and lam must be in [0, 1], not {self.gamma} and {self.lam}")

    def advantages(self, turns: Sequence[Turn]) -> Advantages:
        """Return the advantage of every token, and the returns that the critics learn.

        `values` are the means over the tokens of a turn; "groups" are policies, and one of which no reward is known is
        dropped.
        """
        judged = judge_turns(turns, gamma=self.gamma, lam=self.lam)
        policies = {turn.policy for turn in turns}
        known = {turn.policy for turn, each in zip(turns, judged, strict=True) if each is not None}
        scale = {policy: _scale(turns, judged, policy) if self.whiten else (0.0, 1.0) for policy in known}
        tokens = [() if each is None else _scaled(each, *scale[turn.policy]) for turn, each in zip(turns, judged, strict=True)]
        return Advantages(
            values=np.array([np.mean(each) if each else 0.0 for each in tokens]),
            kept=np.array([each is not None for each in judged], dtype=bool),
            groups=len(policies),
            dropped=len(policies - known),
            tokens=tokens,
            returns=[() if each is None else tuple(each.returns.tolist()) for each in judged],
        )


@dataclass(frozen=True)
class PPO(ActorCritic, GRPO):
    """One policy in every seat."""


@dataclass(frozen=True)
class CompetitivePPO(ActorCritic, CompetitiveGRPO):
    """Two policies, rivals, each with a critic of its own."""


def _scale(turns: Sequence[Turn], judged: Sequence[Judgement | None], policy: str | None) -> tuple[float, float]:
    """Return mean and standard deviation of the advantages of all tokens that a policy said."""
    own = [each.advantages for turn, each in zip(turns, judged, strict=True) if each is not None and turn.policy == policy]
    all_N = np.concatenate(own)
    # fsum rounds once, so that the order of the turns changes nothing.
    mean = math.fsum(all_N) / len(all_N)
    return mean, math.sqrt(math.fsum((all_N - mean) ** 2) / len(all_N))


def _scaled(judgement: Judgement, mean: float, std: float) -> tuple[float, ...]:
    if std < SPREAD:
        return (0.0,) * len(judgement.advantages)
    return tuple(((judgement.advantages - mean) / std).tolist())
