"""Kuhn poker: the smallest poker, whose equilibrium is known (Kuhn 1950); see `kuhn_equilibrium` for what a player is worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from agon_env.contest import Contest
from agon_env.games.speech import chosen, menu, numbers

CARDS = ("jack", "queen", "king")
ENDINGS = {("check", "check"): 1, ("bet", "call"): 2, ("check", "bet", "call"): 2}
"""Moves that lead to a showdown → what the lower card pays the higher one, in chips."""


def moves_after(history: tuple[str, ...]) -> tuple[str, ...]:
    """Return the moves that may follow, none after the end."""
    if history in ENDINGS or history[-1:] == ("fold",):
        return ()
    return ("call", "fold") if history[-1:] == ("bet",) else ("check", "bet")


def chips(first: str, second: str, history: tuple[str, ...]) -> int:
    """Return what the first player has won of the second when the moves have been made; losses are negative."""
    if history[-1] == "fold":
        return 1 if history[0] == "bet" else -1
    stake = ENDINGS[history]
    return stake if CARDS.index(first) > CARDS.index(second) else -stake


class KuhnPoker(Contest):
    """Two players, three cards: each antes one chip and is dealt one card that the other does not see.

    The first checks or bets a chip. After a bet the other calls or folds; after a check it checks or bets, and the first calls
    or folds. Who folds loses the ante; else the higher card wins what both have put in. Scores are chips won, from −2 to 2.
    A text that names no legal move forfeits, which costs 2.
    """

    roles: ClassVar[tuple[str, ...]] = ("first", "second")
    score_range = (-2.0, 2.0)

    def setup(self, rng: np.random.Generator, options: Mapping[str, Any]) -> None:
        """Deal two of the three cards."""
        self.cards = dict(zip(self.roles, (CARDS[card] for card in rng.permutation(3)[:2].tolist()), strict=True))
        self.history: tuple[str, ...] = ()

    def prompt(self, role: str) -> str:
        """Return the own card and the moves so far."""
        return kuhn_prompt(self.cards[role], self.history)

    def next_role(self) -> str | None:
        """Return the two in turn, until the moves have come to an end."""
        return self.roles[len(self.history) % 2] if moves_after(self.history) else None

    def legal_texts(self, role: str) -> tuple[str, ...]:
        """Return the numbers of the two moves."""
        return numbers(moves_after(self.history))

    def apply(self, role: str, text: str) -> str:
        """Make the move that the text names last."""
        move = chosen(moves_after(self.history), text)
        self.history += (move,)
        return move

    def score(self) -> dict[str, float | None]:
        """Return the chips that each has won."""
        won = float(chips(self.cards["first"], self.cards["second"], self.history))
        return {"first": won, "second": -won}

    def verdicts(self) -> dict[str, Any]:
        """Return the cards."""
        return {"cards": dict(self.cards)}


def kuhn_prompt(card: str, history: tuple[str, ...]) -> str:
    """Return what a player reads who holds `card` after the moves so far."""
    so_far = f"Moves so far: {', '.join(history)}." if history else "You move first."
    return f"Kuhn poker. You hold the {card}. {so_far} Choose: {menu(moves_after(history))}."
