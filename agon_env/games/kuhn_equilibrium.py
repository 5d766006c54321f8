"""What a strategy for Kuhn poker is worth against the best reply to it: exact, by going through every deal and every move.

A strategy gives the chances of the moves at each of the twelve information sets: what a player holds, and the moves so far.
Exploitability is the mean, over the two seats, of what the best reply wins of the strategy beyond what the seat is worth:
0 in equilibrium alone, 11/24 for a player that moves at random, chips per game. (Half of NashConv, Lanctot et al. 2017.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import TypeAlias

from agon_env.games.kuhn_poker import CARDS, chips, moves_after

InformationSet: TypeAlias = tuple[str, tuple[str, ...]]
Strategy: TypeAlias = Mapping[InformationSet, Mapping[str, float]]
"""(card, moves so far) → move → its chance. What the chances lack to one is that of a text without a move, which forfeits."""

DEALS = tuple(permutations(CARDS, 2))
FORFEIT = 2
"""Chips that a text without a move costs."""
VALUE = -1 / 18
"""What the first seat wins when both play an equilibrium."""


def information_sets() -> list[InformationSet]:
    """Return the twelve situations that a player can tell apart."""
    histories = [(), ("check",), ("bet",), ("check", "bet")]
    return [(card, history) for history in histories for card in CARDS]


def equilibrium(alpha: float = 1 / 3) -> dict[InformationSet, dict[str, float]]:
    """Return a member of the family of equilibria; `alpha`, from 0 to 1/3, is how often the first seat bets a jack."""
    bets: dict[InformationSet, float] = {("jack", ()): alpha, ("queen", ()): 0.0, ("king", ()): 3 * alpha}
    bets |= {("jack", ("check",)): 1 / 3, ("queen", ("check",)): 0.0, ("king", ("check",)): 1.0}
    calls: dict[InformationSet, float] = {("jack", ("bet",)): 0.0, ("queen", ("bet",)): 1 / 3, ("king", ("bet",)): 1.0}
    calls |= {("jack", ("check", "bet")): 0.0, ("queen", ("check", "bet")): alpha + 1 / 3, ("king", ("check", "bet")): 1.0}
    return {at: {"bet": p, "check": 1 - p} for at, p in bets.items()} | {
        at: {"call": p, "fold": 1 - p} for at, p in calls.items()
    }


def mixture(strategies: Sequence[Strategy]) -> dict[InformationSet, dict[str, float]]:
    """Return the one strategy that plays as a player does who draws one of `strategies` before each game.

    What a strategy says at an information set counts by how likely its own earlier moves lead there.
    """
    mixed = {}
    for card, history in information_sets():
        own = [(history[:turn], history[turn]) for turn in range(len(history) % 2, len(history), 2)]
        weights = [math.prod(strategy[card, before][move] for before, move in own) for strategy in strategies]
        total = sum(weights) or 1.0
        mixed[card, history] = {
            move: sum(w * s[card, history][move] for w, s in zip(weights, strategies, strict=True)) / total
            for move in moves_after(history)
        }
    return mixed


def value(first: Strategy, second: Strategy) -> float:
    """Return the chips that `first` wins of `second` in a game, on average, when it sits in the first seat."""

    def worth(deal: tuple[str, str], history: tuple[str, ...]) -> float:
        moves = moves_after(history)
        if not moves:
            return chips(*deal, history)
        seat = len(history) % 2
        chances = (first, second)[seat][deal[seat], history]
        forfeit = (1 - sum(chances.values())) * FORFEIT * (-1 if seat == 0 else 1)
        return forfeit + sum(chances[move] * worth(deal, (*history, move)) for move in moves)

    return sum(worth(deal, ()) for deal in DEALS) / len(DEALS)


def best_reply_value(strategy: Strategy, seat: int) -> float:
    """Return what the best player in `seat` (0 or 1) wins of `strategy` in the other one, chips per game."""
    sign = 1 if seat == 0 else -1

    def worth(own: str, reach: Mapping[str, float], history: tuple[str, ...]) -> float:
        """Return what is won from here on, summed over the rival's cards, each weighted by its chance to be here."""
        moves = moves_after(history)
        if not moves:
            return sum(chance * sign * chips(*_deal(own, card, seat), history) for card, chance in reach.items())
        if len(history) % 2 == seat:
            return max(worth(own, reach, (*history, move)) for move in moves)
        forfeits = sum(chance * (1 - sum(strategy[card, history].values())) for card, chance in reach.items())
        return forfeits * FORFEIT + sum(
            worth(own, {card: chance * strategy[card, history][move] for card, chance in reach.items()}, (*history, move))
            for move in moves
        )

    return sum(worth(own, {card: 1 / len(DEALS) for card in CARDS if card != own}, ()) for own in CARDS)


def exploitability(strategy: Strategy) -> float:
    """Return what best replies win of one strategy that plays both seats, chips per game, on average over the seats."""
    return (best_reply_value(strategy, 0) + best_reply_value(strategy, 1)) / 2


def _deal(own: str, other: str, seat: int) -> tuple[str, str]:
    return (own, other) if seat == 0 else (other, own)
