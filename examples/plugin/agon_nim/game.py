"""`Nim`: two players take sticks from a pile in turn; whoever takes the last one wins (Bouton 1901, one pile)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

import agon_env
from agon_env import Contest

ID = "nim/Nim-v0"
MOST = 3
"""Sticks that may be taken at once."""


def best_move(sticks: int) -> int:
    """Return how many sticks to take: what leaves a multiple of `MOST + 1`, or one where that can't be done."""
    return sticks % (MOST + 1) or 1


class Nim(Contest):
    """The first player moves first; a text without a legal number in a box takes one stick, so that nobody forfeits."""

    roles = ("first", "second")

    def setup(self, rng: np.random.Generator, options: Mapping[str, Any]) -> None:
        """Lay out between 5 and 12 sticks."""
        self.sticks = int(rng.integers(5, 13))
        self.winner: str | None = None

    def next_role(self) -> str | None:
        """Return the two in turn, until the sticks are gone."""
        return self.roles[self.turn % 2] if self.sticks else None

    def prompt(self, role: str) -> str:
        """Return the rules and the pile."""
        return (
            f"Two players take 1 to {MOST} sticks in turn; whoever takes the last one wins. There are {self.sticks} sticks. "
            "How many do you take? Put the number in \\boxed{}."
        )

    def legal_texts(self, role: str) -> tuple[str, ...]:
        """Return the moves that there are."""
        return tuple(rf"\boxed{{{number}}}" for number in range(1, min(MOST, self.sticks) + 1))

    def apply(self, role: str, text: str) -> str:
        """Take as many sticks as the last box with a legal number says."""
        named = [number for number in re.findall(r"\\boxed\{[0-9]\}", text) if number in self.legal_texts(role)]
        taken = named[-1][-2] if named else "1"
        self.sticks -= int(taken)
        if not self.sticks:
            self.winner = role
        return taken

    def score(self) -> dict[str, float | None]:
        """Return 1 for whoever took the last stick."""
        return {role: float(role == self.winner) for role in self.roles}

    def solution(self, role: str) -> str:
        """Return the best move."""
        return rf"\boxed{{{best_move(self.sticks)}}}"


def register() -> None:
    """Add the game to the registry; the entry point leads here."""
    agon_env.register(ID, "agon_nim.game:Nim")
