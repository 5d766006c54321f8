"""`Negotiation`: two players divide some things that they value differently (after Lewis et al. 2017, "Deal or no deal?")."""

import re
from collections.abc import Mapping
from itertools import product
from operator import gt, sub
from typing import Any, ClassVar

import numpy as np

from agon_env.contest import Contest
from agon_env.errors import Error, InvalidMove
from agon_env.games.speech import conversation
from agon_env.quoting import strip_thoughts

THINGS = ("books", "hats", "balls")
_WORD = re.compile(r"(?<![0-9])[0-9]{1,2}(?![0-9])|\baccept\b")


class Negotiation(Contest):
    """Two players divide 1 to `most` books, hats and balls, each with values of its own that the other does not see.

    In turn, each proposes what it would keep ("1 2 0": books, hats, balls) or accepts the other's last proposal: by saying so,
    by "0" alone, or by keeping just what that leaves. A score is the own share's part of all value; 0 without a deal in
    `rounds` moves each.
    """

    roles: ClassVar[tuple[str, ...]] = ("first", "second")
    retries = 1

    def __init__(self, *, most: int = 3, rounds: int = 4, **options: Any) -> None:
        """Make a negotiation about one to `most` of each thing, of `rounds` moves each; other options as for every contest."""
        super().__init__(**options)
        if most not in range(1, 10) or rounds not in range(1, self.max_turns // 2 + 1):
            raise Error(f"most must be from 1 to 9 and rounds from 1 to {self.max_turns // 2}, not {most!r} and {rounds!r}")
        self.most, self.rounds = most, rounds  # type: ignore[misc]  # of all negotiations, unless told otherwise

    def setup(self, rng: np.random.Generator, options: Mapping[str, Any]) -> None:
        """Draw how many things there are, and what one of each is worth to each player."""
        self.counts = tuple(rng.integers(1, self.most + 1, size=len(THINGS)).tolist())
        self.values = {role: tuple(rng.integers(1, 10, size=len(THINGS)).tolist()) for role in self.roles}
        self.said: list[tuple[str, str]] = []
        self.proposal: tuple[int, ...] = ()
        self.deal: dict[str, tuple[int, ...]] = {}

    def next_role(self) -> str | None:
        """Return the two in turn, until there is a deal or the time is over."""
        return None if self.deal else super().next_role()

    def prompt(self, role: str) -> str:
        """Return the things, the own values, what was said, and what may be."""
        things = ", ".join(map("{} {} worth {} each".format, self.counts, THINGS, self.values[role]))
        rules = f"Divide {things} to you. The other player has values of its own. Without a deal both get nothing."
        ask = f'Say how many {", ".join(THINGS)} you keep, as "1 0 1", or "accept", in short "0".'
        left = f"Moves left: {self.rounds - self.turn // 2}."
        return "\n\n".join([rules, *conversation(self.said, role), f"{ask} {left}"])

    def legal_texts(self, role: str) -> list[str]:
        """Return every division, and the acceptance of a proposal as often: a random player then comes to deals."""
        divisions = list(map(" ".join, product(*("0123456789"[: n + 1] for n in self.counts))))
        return ["0"] * len(divisions) * bool(self.proposal) + divisions

    def apply(self, role: str, text: str) -> str:
        """Take the last three numbers of the text, or the acceptance that it ends with."""
        spoken = strip_thoughts(text).lower()
        said = _WORD.findall(spoken)
        left = tuple(map(sub, self.counts, self.proposal))  # nothing before there is a proposal
        accepts = said[-1:] == ["accept"] or spoken.strip() == "0"
        kept = left if accepts else tuple(int(word) for word in said if word != "accept")[-len(THINGS) :]
        if len(kept) < len(THINGS) or any(map(gt, kept, self.counts)):
            raise InvalidMove(f"accept a proposal, or say three numbers, at most {' '.join(map(str, self.counts))}")
        self.deal = dict.fromkeys(self.roles, self.proposal) | {role: kept} if kept == left else {}
        self.proposal = kept
        self.said.append((role, text))
        return " ".join(map(str, kept))

    def score(self) -> dict[str, float | None]:
        """Return the part of all value that each has got."""
        deal = self.deal or dict.fromkeys(self.roles, (0, 0, 0))
        return {role: float(np.dot(deal[role], own) / np.dot(self.counts, own)) for role, own in self.values.items()}

    def verdicts(self) -> dict[str, Any]:
        """Return the deal and the values."""
        return {"deal": self.deal, "values": self.values}
