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
from algos.errors import AlgorithmError
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


def matches_of(
    algorithm: Algorithm, step: int, roles: Sequence[str], *, rates: WinRates, rng: np.random.Generator
) -> list[dict[str, str]]:
    """Return `algorithm.matches`, if it can be played.

    Raises:
        AlgorithmError: a role has no policy or there is none of that name, a policy or role is unknown, nobody plays, or a
            policy is in two matches.
    """
    matches = algorithm.matches(step, roles, rates=rates, rng=rng)
    name = type(algorithm).__name__
    if not isinstance(matches, Sequence) or not all(isinstance(seats, Mapping) for seats in matches) or not matches:
        raise AlgorithmError(
            f"{name} must seat policies as role → policy, for one match at least, not {matches!r} (seats, matches)"
        )
    for seats in matches:
        if set(seats) != set(roles):
            raise AlgorithmError(
                f"{name} must seat a policy in each of the roles {', '.join(roles)}, and in no other: not {seats}"
            )
        if unknown := [policy for policy in seats.values() if policy not in algorithm.policies]:
            raise AlgorithmError(
                f"{name} seats {unknown[0]!r} as {seats}, but its policies are {', '.join(algorithm.policies)}: name in "
                "`policies` whoever is trained"
            )
    playing = [policy for seats in matches for policy in set(seats.values())]
    if twice := [policy for policy in algorithm.policies if playing.count(policy) > 1]:
        raise AlgorithmError(f"{name} seats {twice[0]!r} in two matches of step {step}: {matches}; let it play one of them")
    return list(matches)


def advantages_of(algorithm: Algorithm, turns: Sequence[Turn]) -> Advantages:
    """Return `algorithm.advantages`, if it can be learned from.

    Raises:
        AlgorithmError: it is something else than `Advantages`, is not one value per turn (or per token where it names those
            of tokens), a value is not finite where there is no critic, or a critic is left without returns.
    """
    found, told = algorithm.advantages(turns), f"{type(algorithm).__name__}.advantages()"
    if not isinstance(found, Advantages):
        raise AlgorithmError(f"{told} must return algos.advantages.Advantages, not a {type(found).__name__}: {found!r:.200}")
    if algorithm.critic and (found.tokens is None or found.returns is None):
        raise AlgorithmError(f"{told} must name `tokens` and `returns`, since every policy has a critic (`critic = True`)")
    parts = {"values": found.values, "kept": found.kept, "tokens": found.tokens, "returns": found.returns}
    for part, each in parts.items():
        if each is not None and len(each) != len(turns):
            raise AlgorithmError(
                f"{told} must name one of `{part}` for each of {len(turns)} turns, in their order, not {len(each)}"
            )
    if not algorithm.critic and not np.isfinite(np.asarray(found.values, dtype=float)).all():  # of a critic the guards tell
        raise AlgorithmError(
            f"{told} must return finite `values`, not {found.values}: leave turns without a reward out of `kept`"
        )
    for turn, kept, tokens in zip(turns, found.kept, found.tokens or (), strict=False):
        if kept and turn.completion is not None and len(tokens) != len(turn.completion.token_ids):
            raise AlgorithmError(
                f"{told} must name one of `tokens` for each token of a turn that is kept: {len(turn.completion.token_ids)}, "
                f"not {len(tokens)}"
            )
    return found
