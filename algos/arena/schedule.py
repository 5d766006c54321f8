"""Who meets whom, on which problem, in which seats. Everybody plays the same problems, and each of them in every seat."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from algos.league import round_robin


@dataclass(frozen=True)
class Fixture:
    """A contest of a tournament."""

    game: int
    """Which problem, counted from 0; contests of one game begin alike."""
    seats: tuple[str, ...]
    """Who plays, in the order of the roles."""


def fixtures(labels: Sequence[str], *, seats: int, games: int, contests: int | None = None, seed: int = 0) -> list[Fixture]:
    """Return the contests of a tournament.

    With two seats every pair meets in every game, twice: in either seat. With more, the players are drawn into tables
    until everybody could have met everybody about once, and at each table the players move on by one seat until all have
    sat everywhere. With one seat everybody plays alone. More games or contests only add to the end.

    Args:
        labels: the players, at least as many as seats.
        seats: of the contest.
        games: problems to play.
        contests: most contests; any beginning of the schedule is nearly balanced. None: all.
        seed: of the draw.
    """
    every = (
        Fixture(game, table[turn:] + table[:turn])
        for game in range(games)
        for table in _tables(labels, seats, game=game, seed=seed)
        for turn in range(seats)
    )
    return list(islice(dict.fromkeys(every), contests))  # a table that is drawn twice plays once


def _tables(labels: Sequence[str], seats: int, *, game: int, seed: int) -> Iterator[tuple[str, ...]]:
    """Yield who sits together in a game, round after round."""
    if seats == 1:
        yield from ((label,) for label in labels)
    elif seats == 2:
        rounds = len(labels) - 1 + len(labels) % 2
        for number in range(rounds):
            yield from round_robin(labels, number)
    else:
        for number in range(math.ceil((len(labels) - 1) / (seats - 1))):
            order = np.random.default_rng([seed, game, number]).permutation(len(labels))
            drawn = [labels[index] for index in order]
            for first in range(0, len(drawn), seats):
                table = drawn[first : first + seats]
                yield (*table, *drawn[: seats - len(table)])  # the last table is filled up with those of the first
