"""`Negotiation`: two players divide some things that they value differently (after Lewis et al. 2017, "Deal or no deal?")."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import product
from typing import Any, ClassVar

import numpy as np

from agon_env.contest import Contest
from agon_env.errors import InvalidMove
from agon_env.games.speech import conversation
from agon_env.quoting import strip_thoughts

THINGS = ("books", "hats", "balls")
TOTAL = 10
"""What all things together are worth to each player."""
_NUMBER = re.compile(r"(?<![0-9])[0-9]{1,2}(?![0-9])")
_ACCEPTS = re.compile(r"\baccept\b[^0-9]*\Z", re.IGNORECASE)


class Negotiation(Contest):
    """Two players divide books, hats and balls, each with values of its own that the other does not see.

    In turn, each proposes what it would keep ("1 2 0": books, hats, balls) or accepts the other's last proposal, by saying
    so or by keeping just what that leaves; what else is said is heard. After `rounds` moves each without a deal nobody gets
    anything. Scores are the value of the own share, from 0 to 1: both gain from a deal, and each gains from a better one.
    """

    roles: ClassVar[tuple[str, ...]] = ("first", "second")
    rounds = 4
    retries = 1

    def setup(self, rng: np.random.Generator, options: Mapping[str, Any]) -> None:
        """Draw how many things there are, and what one of each is worth to each player."""
        self.counts: tuple[int, ...] = tuple(rng.integers(1, (4, 4, 3)).tolist())  # 3, 3, 3 has no values that make 10
        possible = [values for values in product(range(TOTAL + 1), repeat=len(THINGS)) if self._sum(values) == TOTAL]
        self.values = {role: possible[rng.integers(len(possible))] for role in self.roles}
        self.said: list[tuple[str, str]] = []
        self.proposal: tuple[int, ...] | None = None
        self.deal: dict[str, tuple[int, ...]] = {}

    def next_role(self) -> str | None:
        """Return the two in turn, until there is a deal or the time is over."""
        return None if self.deal else super().next_role()

    def prompt(self, role: str) -> str:
        """Return the things, the own values and what was said."""
        things = ", ".join(f"{count} {thing}" for count, thing in zip(self.counts, THINGS, strict=True))
        worth = ", ".join(f"{thing} {value}" for value, thing in zip(self.values[role], THINGS, strict=True))
        rules = f"Divide {things} with another player. One of each is worth to you: {worth}. The other has values of its own."
        left = self.rounds - sum(side == role for side, _ in self.said)
        ask = f'Say what you would keep, for example "1 0 1" ({", ".join(THINGS)}), or "accept". Moves left to you: {left}.'
        return "\n\n".join([f"{rules} Without a deal both get nothing.", *conversation(self.said, role), ask])

    def legal_texts(self, role: str) -> tuple[str, ...]:
        """Return every division."""
        return tuple(" ".join(map(str, kept)) for kept in product(*(range(count + 1) for count in self.counts)))

    def apply(self, role: str, text: str) -> str:
        """Take the last three numbers of the text, or the acceptance at its end."""
        aloud = strip_thoughts(text)
        left = tuple(count - kept for count, kept in zip(self.counts, self.proposal or self.counts, strict=True))
        accepts = self.proposal is not None and _ACCEPTS.search(aloud)
        kept = left if accepts else tuple(map(int, _NUMBER.findall(aloud)[-len(THINGS) :]))
        if len(kept) < len(THINGS) or any(n > count for n, count in zip(kept, self.counts, strict=True)):
            most = " ".join(map(str, self.counts))
            raise InvalidMove(f"say three numbers, at most {most}" + (', or "accept"' if self.proposal else ""))
        if kept == left and self.proposal:
            self.deal = {role: kept} | {other: self.proposal for other in self.roles if other != role}
        self.proposal = kept
        self.said.append((role, text))
        return " ".join(map(str, kept))

    def score(self) -> dict[str, float | None]:
        """Return the value of each share, as a part of all."""
        nothing = (0,) * len(THINGS)
        shares = {role: zip(self.deal.get(role, nothing), self.values[role], strict=True) for role in self.roles}
        return {role: sum(kept * value for kept, value in share) / TOTAL for role, share in shares.items()}

    def verdicts(self) -> dict[str, Any]:
        """Return the deal and the values."""
        return {"deal": {role: list(kept) for role, kept in self.deal.items()}, "values": self.values}

    def _sum(self, values: tuple[int, ...]) -> int:
        return sum(count * value for count, value in zip(self.counts, values, strict=True))
