"""Who sits where: shared by the views in which one seat is the user's and rivals play the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from agon_env.contest import Contest
from agon_env.errors import Error
from agon_env.types import Action, Observation

Rival: TypeAlias = Callable[[Observation], str | Action]
"""A function from an observation to an action; agents are such functions."""


def check_contest(env: Contest) -> Contest:
    """Return `env` if it is a contest.

    Raises:
        TypeError: it is something else, for example a view.
    """
    if not isinstance(env, Contest):
        raise TypeError(f"a view is made of a contest, not of a {type(env).__name__}; a view holds its own as view.contest")
    return env


def check_seat(contest: Contest, seat: str | None, rivals: Rival | Mapping[str, Rival] | None) -> str:
    """Return the seat, by default the first player.

    Raises:
        Error: there is no such player or role, or nobody to play the others.
    """
    seat = contest.players[0] if seat is None else seat
    if seat not in (*contest.players, *contest.roles):
        known = ", ".join((*contest.players, *contest.roles))
        raise Error(f"there is no seat {seat!r}; name a player or a role: {known}")
    if rivals is None and len(contest.players) > 1:
        raise Error(f"{len(contest.players) - 1} other seats must be played: pass rivals=function of an observation")
    return seat


def player_in(contest: Contest, seat: str) -> str:
    """Return the player in a seat of a contest that was reset."""
    return seat if seat in contest.players else contest.player_of[seat]


def rival_of(rivals: Rival | Mapping[str, Rival] | None, observation: Observation) -> Rival:
    """Return who plays the seat that sees `observation`.

    Raises:
        Error: nobody does.
    """
    if not isinstance(rivals, Mapping):
        assert rivals is not None
        return rivals
    for name in (observation.player, observation.role):
        if name in rivals:
            return rivals[name]
    raise Error(f"nobody plays {observation.player} ({observation.role}); rivals holds {', '.join(rivals)}")
