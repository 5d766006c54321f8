"""What a contest pays at its end: scores, as they were declared, become rewards by its rule; a forfeit has its price."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from agon_env.errors import Error
from agon_env.rewards import Components, RewardRule, Scores, total
from agon_env.types import Reward


def checked_scores(scores: Scores, *, roles: Sequence[str], score_range: tuple[float, float], game: str) -> dict[str, Reward]:
    """Return the scores of a game as plain numbers, in the order of the roles.

    Args:
        scores: role → score, None where it could not be computed.
        roles: of the game.
        score_range: least and greatest score, as declared.
        game: what it is called in messages.

    Raises:
        Error: a role has none, or a score is no number or outside of its range.
    """
    if set(scores) != set(roles):
        raise Error(f"score() of {game} must give {', '.join(roles)} a score each, not {dict(scores)}")
    return {role: _checked(scores[role], score_range, game) for role in roles}


def paid(
    scores: Mapping[str, Reward], rule: RewardRule, *, reward_range: tuple[float, float], zero_sum: bool, game: str
) -> Components:
    """Return the components of every role's reward, as the rule makes them of the scores.

    Args:
        scores: role → score, of all roles in their order.
        rule: of the contest.
        reward_range: least and greatest reward, as declared.
        zero_sum: whether the rewards must sum to zero.
        game: what it is called in messages.

    Raises:
        Error: a role is not paid, a reward is not finite or outside of its range, or they do not sum to zero though they must.
    """
    components = rule(scores)
    if components.keys() != scores.keys():
        raise Error(f"the reward rule of {game} must pay {', '.join(scores)}, not {', '.join(components)}")
    rewards = [total(components[role]) for role in scores]
    known = [reward for reward in rewards if reward is not None]
    if not all(map(math.isfinite, known)):
        raise Error(f"the reward rule of {game} gave {rewards}; rewards must be finite, or None")
    low, high = reward_range
    rounding = 1e-9 * max(1.0, *map(abs, known)) if known else 0.0
    if not all(low - rounding <= reward <= high + rounding for reward in known):
        raise Error(f"the reward rule of {game} gave {rewards}, outside of [{low}, {high}]; mend its range()")
    if zero_sum and len(known) == len(rewards) and abs(math.fsum(known)) > rounding * len(known):
        raise Error(f"the reward rule of {game} gave {rewards}, which do not sum to zero though its zero_sum says so")
    return components


def forfeited(offender: str, *, roles: Sequence[str], reward_range: tuple[float, float], zero_sum: bool) -> Components:
    """Return what a forfeit pays: the offender the least, everyone else the most, or in a zero sum an equal share of that.

    Args:
        offender: the role that forfeits.
        roles: of the game.
        reward_range: least and greatest reward.
        zero_sum: whether the rewards must sum to zero.
    """
    low, high = reward_range
    if zero_sum:
        high = -low / (len(roles) - 1)
    return {role: {"forfeit": low if role == offender else high} for role in roles}


def _checked(score: Reward, score_range: tuple[float, float], game: str) -> Reward:
    if score is None:
        return None
    low, high = score_range
    if isinstance(score, str) or not hasattr(score, "__float__"):
        raise Error(f"{game} gave the score {score!r}; it must be a number, or None")
    if not low <= score <= high:
        raise Error(f"{game} gave the score {score}; declare another score_range than [{low}, {high}], or give None")
    return float(score)
