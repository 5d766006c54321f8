"""Who sits where: the names of players, and which role each of them has.

Contests with the same players share what follows from their names: fewer objects, which stay in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache

from agon_env.errors import Error
from agon_env.types import FrozenDict

DEFAULT_PLAYERS = ("alice", "bob", "carol", "dave", "erin", "frank")


@cache
def default_players(n: int) -> tuple[str, ...]:
    """Return names for `n` players."""
    return DEFAULT_PLAYERS[:n] if n <= len(DEFAULT_PLAYERS) else tuple(f"player_{i}" for i in range(n))


def seated(seats: Mapping[str, str], *, players: tuple[str, ...], roles: tuple[str, ...]) -> FrozenDict:
    """Return player → role in the order of the players.

    Args:
        seats: player → role, in any order.
        players: all of them.
        roles: all of them.

    Raises:
        Error: a player has no role, a role no player, or there are others.
    """
    if not isinstance(seats, Mapping) or set(seats) != set(players) or any(role not in seats.values() for role in roles):
        raise Error(f"roles must give each of {', '.join(players)} one of {', '.join(roles)}, not {seats!r}")
    return _role_of(players, tuple([seats[player] for player in players]))


@lru_cache(256)
def player_of(players: tuple[str, ...], roles: tuple[str, ...]) -> FrozenDict:
    """Return role → player, of players and their roles in the same order."""
    return FrozenDict(zip(roles, players, strict=True))


@lru_cache(256)
def unpaid(players: tuple[str, ...]) -> FrozenDict:
    """Return player → 0.0: the rewards of a step that pays nobody."""
    return FrozenDict(dict.fromkeys(players, 0.0))


@lru_cache(256)
def _role_of(players: tuple[str, ...], roles: tuple[str, ...]) -> FrozenDict:
    return FrozenDict(zip(players, roles, strict=True))
