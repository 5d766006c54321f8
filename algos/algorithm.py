"""`Algorithm`: who sits where, how the environment pays, and how turns become advantages.

An algorithm is a short file. It knows roles and groups, never the game: the trainer plays the contests,
the learner turns the advantages into updates.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np

from algos.advantages import Advantages, group_advantages
from algos.playing.win_rates import WinRates
from algos.types import Turn


@dataclass(frozen=True)
class Algorithm:
    """The part of training that differs from method to method."""

    policies: ClassVar[tuple[str, ...]] = ("alice",)
    """Names of the policies that are trained."""
    contest_options: ClassVar[Mapping[str, Any]] = {}
    """What is asked of `agon_env.make`, for example the reward rule; the user's own options go first."""

    compares: ClassVar[bool] = True
    """Whether turns are compared within groups, so that a group of one teaches nothing."""
    ignores: ClassVar[tuple[str, ...]] = ()
    """Settings of a config that have no effect; a run that sets one of them is refused."""
    critic: ClassVar[bool] = False
    """Whether every policy has a critic (`algos.learning.values`): turns come with its `values`, and `advantages` names the
    advantages of tokens and the returns that the critic learns."""

    normalize: Literal["std", "mean"] = "std"
    """How a group's rewards become advantages: "std" divides by the standard deviation, "mean" only centres."""
    group_by: Literal["problem", "position"] = "problem"
    """What a turn is compared with: all turns of its role on the problem, or only those made in the same
    position (the answers to one draft)."""
    update: Literal["all", "last"] = "all"
    """Which turns train: "all", or only those of the role that speaks last (the challenger)."""

    @classmethod
    def takes(cls, setting: str) -> bool:
        """Return whether a field of a config has an effect: one of this name is here too; `critic` is the critics' own."""
        return cls.critic if setting == "critic" else setting in {field.name for field in fields(cls)}

    def seats(self, step: int, roles: Sequence[str]) -> dict[str, str]:
        """Return role → policy for a training step, counted from 0."""
        raise NotImplementedError

    def matches(self, step: int, roles: Sequence[str], *, rates: WinRates, rng: np.random.Generator) -> list[dict[str, str]]:
        """Return who meets whom at a step: role → policy for each match. No policy is in two of them.

        Args:
            step: counted from 0.
            roles: of the contest.
            rates: how often the policies have beaten each other.
            rng: begun anew at every step.
        """
        return [self.seats(step, roles)]

    def state(self) -> dict[str, Any]:
        """Return what the algorithm keeps from step to step, as plain JSON values; it goes into checkpoints."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` returned."""

    def learns(self, turn: Turn, roles: Sequence[str]) -> bool:
        """Return whether this turn trains the policy that made it."""
        return self.update == "all" or turn.role == roles[-1]

    def advantages(self, turns: Sequence[Turn]) -> Advantages:
        """Return the advantage of each turn, relative to its group."""
        return group_advantages([turn.reward for turn in turns], self.groups(turns), normalize=self.normalize)

    def groups(self, turns: Sequence[Turn]) -> list[Hashable]:
        """Return the name of each turn's group: its role, and its problem or its position."""
        return [(turn.role, turn.problem if self.group_by == "problem" else turn.parent) for turn in turns]
