"""A league's matchmaking."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algos.league import League, round_robin
from algos.win_rates import WinRates

ROLES = ("drafter", "challenger")


@given(st.integers(2, 9))
def test_round_robin_lets_every_pair_meet_once_per_cycle_and_swaps_seats_in_the_next(n: int) -> None:
    names = [f"p{index}" for index in range(n)]
    rounds = n - 1 if n % 2 == 0 else n
    first = [pair for step in range(rounds) for pair in round_robin(names, step)]
    second = [pair for step in range(rounds, 2 * rounds) for pair in round_robin(names, step)]
    assert Counter(frozenset(pair) for pair in first) == Counter(
        frozenset((one, other)) for index, one in enumerate(names) for other in names[:index]
    )
    assert sorted(second) == sorted(pair[::-1] for pair in first)
    for step in range(rounds):
        busy = [name for pair in round_robin(names, step) for name in pair]
        assert len(busy) == len(set(busy)) == n - n % 2


@pytest.mark.parametrize("matchmaking", ["round_robin", "even"])
@pytest.mark.parametrize("size", [2, 3, 4, 8])
def test_nobody_sits_in_two_duels_of_a_step(matchmaking: str, size: int) -> None:
    league = League(league_size=size, matchmaking=matchmaking)
    assert len(set(league.policies)) == size
    for step in range(6):
        matches = league.matches(step, ROLES, rates=WinRates(), rng=np.random.default_rng(step))
        seated = [name for match in matches for name in match.values()]
        assert len(seated) == len(set(seated)) == size - size % 2
        assert all(set(match) == set(ROLES) for match in matches)


def test_equals_meet_more_often() -> None:
    rates, met = WinRates(), Counter()
    for other, share in [("bob", 0.5), ("carol", 0.0), ("dave", 1.0)]:
        rates.record("alice", other, [share] * 200)
        rates.record(other, "alice", [1 - share] * 200)
    for step in range(300):
        for match in League(matchmaking="even").matches(step, ROLES, rates=rates, rng=np.random.default_rng(step)):
            met[frozenset(match.values())] += 1
            met[match["drafter"]] += 1
    assert met[frozenset(("alice", "bob"))] > 1.5 * met[frozenset(("alice", "carol"))]
    assert 100 < met["alice"] < 200  # either seat as often


def test_a_league_plays_duels() -> None:
    with pytest.raises(ValueError, match="contests for two players"):
        League().matches(0, ("solver",), rates=WinRates(), rng=np.random.default_rng(0))
