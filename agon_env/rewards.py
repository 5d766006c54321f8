"""Reward rules: how the scores of the players become their rewards.

A rule is a pure function of the scores, `{role: score}` in turn order, to the *components* of each
role's reward, `{role: {component: value}}`. The reward is the sum of its components; they are kept
apart because normalising the advantage by its standard deviation hides their sizes.

With s the own score and r the mean score of the rivals (Agon, arXiv 2607.07690):

| rule                    | reward                   |
|-------------------------|--------------------------|
| `outcome`               | s                        |
| `competitive(bonus=λ)`  | s + λ·max(0, s − r)      |
| `cooperative`           | score of the last role   |
| `zero_sum`              | s − r                    |

A score that could not be computed is `None`, and so is every component that depends on it. Without rivals
there is no bonus, and nothing to be won in a zero sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import fsum
from typing import Protocol, TypeAlias

from agon_env.types import Reward

Scores: TypeAlias = Mapping[str, Reward]
Components: TypeAlias = dict[str, dict[str, Reward]]
Range: TypeAlias = tuple[float, float]


class RewardRule(Protocol):
    """Scores by role, in turn order → components of the reward by role."""

    zero_sum: bool

    def __call__(self, scores: Scores) -> Components:
        """Return the components of every role's reward."""
        ...

    def range(self, scores: Range = (0.0, 1.0)) -> Range:
        """Return the least and the greatest reward for scores in the closed interval `scores`."""
        ...


def total(components: Mapping[str, Reward]) -> Reward:
    """Sum the components of one reward; None as soon as one of them is missing."""
    known = [value for value in components.values() if value is not None]
    return float(sum(known)) if len(known) == len(components) else None


def rival_score(scores: Scores, role: str) -> Reward:
    """Return the mean score of everyone but `role`; None if one of them is missing, the own score if there is nobody."""
    rivals = [score for other, score in scores.items() if other != role] or [scores[role]]
    known = [score for score in rivals if score is not None]
    return fsum(known) / len(known) if len(known) == len(rivals) else None


@dataclass(frozen=True)
class OutcomeReward:
    """Everyone is paid for its own score."""

    zero_sum = False

    def __call__(self, scores: Scores) -> Components:
        """Return `{role: {"outcome": s}}`."""
        return {role: {"outcome": score} for role, score in scores.items()}

    def range(self, scores: Range = (0.0, 1.0)) -> Range:
        """Return the range of the scores."""
        return scores


@dataclass(frozen=True)
class CompetitiveReward:
    """The own score, plus a bonus for what the rival lost and you won (the conversion)."""

    bonus: float = 0.5
    """λ ≥ 0, the price of the margin over the rival."""
    zero_sum = False

    def __post_init__(self) -> None:
        if not self.bonus >= 0:
            raise ValueError(f"bonus must be a number ≥ 0, not {self.bonus!r}")

    def __call__(self, scores: Scores) -> Components:
        """Return `{role: {"outcome": s, "bonus": λ·max(0, s − r)}}`."""
        bonuses = {role: self._bonus(score, rival_score(scores, role)) for role, score in scores.items()}
        return {role: {"outcome": score, "bonus": bonuses[role]} for role, score in scores.items()}

    def _bonus(self, own: Reward, rival: Reward) -> Reward:
        return None if own is None or rival is None else self.bonus * max(0.0, own - rival)

    def range(self, scores: Range = (0.0, 1.0)) -> Range:
        """Return (0, 1 + λ) for scores in [0, 1]."""
        low, high = scores
        return low, high + self.bonus * (high - low)


@dataclass(frozen=True)
class CooperativeReward:
    """Everyone is paid for the final answer: the score of the role that speaks last."""

    zero_sum = False

    def __call__(self, scores: Scores) -> Components:
        """Return `{role: {"team": score of the last role}}`."""
        final = list(scores.values())[-1]
        return {role: {"team": final} for role in scores}

    def range(self, scores: Range = (0.0, 1.0)) -> Range:
        """Return the range of the scores."""
        return scores


@dataclass(frozen=True)
class ZeroSumReward:
    """The margin over the rivals; sums to zero over the players."""

    zero_sum = True

    def __call__(self, scores: Scores) -> Components:
        """Return `{role: {"outcome": s, "rival": −r}}`."""
        return {role: {"outcome": score, "rival": _negated(rival_score(scores, role))} for role, score in scores.items()}

    def range(self, scores: Range = (0.0, 1.0)) -> Range:
        """Return (-1, 1) for scores in [0, 1]."""
        low, high = scores
        return low - high, high - low


def _negated(score: Reward) -> Reward:
    return None if score is None else 0.0 - score


RULES: dict[str, Callable[..., RewardRule]] = {
    "outcome": OutcomeReward,
    "competitive": CompetitiveReward,
    "cooperative": CooperativeReward,
    "zero_sum": ZeroSumReward,
}


def make_rule(name: str | RewardRule, *, bonus: float | None = None) -> RewardRule:
    """Return the rule called `name`, or `name` itself if it is a rule already.

    Args:
        name: a key of `RULES`, or a rule.
        bonus: λ of the competitive rule; None is the rule's own. No other rule has one.

    Raises:
        ValueError: there is no rule of that name, or it has no bonus.
        TypeError: it is neither a name nor a rule.
    """
    if isinstance(name, str) and name not in RULES:
        raise ValueError(f"there is no reward rule {name!r}; choose one of {', '.join(RULES)}, or pass a rule object")
    if not isinstance(name, str) and not (callable(name) and hasattr(name, "zero_sum") and hasattr(name, "range")):
        raise TypeError(f"a reward rule is a name, or a callable with zero_sum and range (see RewardRule), not {name!r}")
    if bonus is None:
        return RULES[name]() if isinstance(name, str) else name
    if name != "competitive":
        raise ValueError(f"bonus={bonus!r} has no effect with reward={name!r}, only with the rule 'competitive': leave it out")
    return CompetitiveReward(bonus)
