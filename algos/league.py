"""A league: more policies than seats, matched anew at every step, each with an optimiser of its own.

A pair can settle on habits that only beat each other. In a league a policy meets several rivals, so that what it
learns has to work against all of them. The reward is that of competitive GRPO, and nothing in the loss knows of the
league.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from agon_env.seating import DEFAULT_PLAYERS
from algos.algorithm import Algorithm
from algos.playing.win_rates import WinRates, chances

Matchmaking = Literal["round_robin", "even"]


@dataclass(frozen=True)
class League(Algorithm):
    """Several policies that meet in duels."""

    contest_options = {"reward": "competitive"}  # noqa: RUF012

    league_size: int = 4
    """How many policies there are."""
    matchmaking: Matchmaking = "round_robin"
    """Who meets whom: "round_robin" takes every pair in turn, "even" prefers equals by their win rates."""

    def __post_init__(self) -> None:
        names = [*DEFAULT_PLAYERS, *(f"player_{number}" for number in range(len(DEFAULT_PLAYERS), self.league_size))]
        object.__setattr__(self, "policies", tuple(names[: self.league_size]))

    def matches(self, step: int, roles: Sequence[str], *, rates: WinRates, rng: np.random.Generator) -> list[dict[str, str]]:
        """Return the duels of a step. With an odd number of policies one of them rests."""
        if len(roles) != 2:
            raise ValueError(f"a league plays contests for two players; this one has the roles {', '.join(roles)}")
        even = self.matchmaking == "even"
        pairs = even_pairs(self.policies, rates, rng) if even else round_robin(self.policies, step)
        return [dict(zip(roles, pair, strict=True)) for pair in pairs]


def even_pairs(names: Sequence[str], rates: WinRates, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Let the policies choose a rival in a random order, p·(1 − p) being the weight of one that is beaten at the rate p.

    Who speaks first is drawn too.
    """
    left = [names[index] for index in rng.permutation(len(names))]
    pairs = []
    while len(left) > 1:
        chooser = left.pop()
        odds = chances("even", [rates.rate(chooser, other) for other in left])
        pair = (chooser, left.pop(int(rng.choice(len(left), p=odds))))
        pairs.append(pair if rng.integers(2) else pair[::-1])
    return pairs


def round_robin(names: Sequence[str], step: int) -> list[tuple[str, str]]:
    """Return the pairs of a round: by the circle method every pair meets once in n − 1 rounds (n if n is odd).

    In the next cycle they swap seats.
    """
    ring: list[str | None] = [*names] if len(names) % 2 == 0 else [*names, None]
    cycle, turn = divmod(step, len(ring) - 1)
    first, others = ring[0], ring[1:]
    ring = [first, *others[turn:], *others[:turn]]
    half = len(ring) // 2
    pairs = [(one, other) for one, other in zip(ring[:half], ring[half:][::-1], strict=True) if one and other]
    return [pair if cycle % 2 == 0 else pair[::-1] for pair in pairs]
