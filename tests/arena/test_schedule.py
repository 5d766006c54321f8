"""Who meets whom: everybody alike, on the same problems, in every seat."""

from collections import Counter
from itertools import combinations

import pytest

from algos.arena.schedule import fixtures


@pytest.mark.parametrize("players", [2, 3, 4, 7])
def test_every_pair_meets_in_every_game_in_both_seats(players: int) -> None:
    labels = [f"p{number}" for number in range(players)]
    found = Counter((f.game, f.seats) for f in fixtures(labels, seats=2, games=3))
    wanted = {(game, seats) for game in range(3) for pair in combinations(labels, 2) for seats in (pair, pair[::-1])}
    assert set(found) == wanted
    assert set(found.values()) == {1}


@pytest.mark.parametrize(("seats", "players"), [(3, 3), (3, 4), (3, 8), (4, 9)])
def test_at_larger_tables_everybody_sits_everywhere_equally_often(seats: int, players: int) -> None:
    labels = [f"p{number}" for number in range(players)]
    found = fixtures(labels, seats=seats, games=4, seed=1)
    assert all(len(set(f.seats)) == seats for f in found)
    assert len(set(found)) == len(found)
    for place in range(seats):
        assert Counter(f.seats[place] for f in found) == Counter(f.seats[0] for f in found)
    assert {label for f in found for label in f.seats} == set(labels)
    assert {f.game for f in found} == set(range(4))


def test_alone_everybody_plays_every_game() -> None:
    assert {(f.game, f.seats) for f in fixtures("abc", seats=1, games=2)} == {(g, (p,)) for g in range(2) for p in "abc"}


@pytest.mark.parametrize(("seats", "players"), [(1, 5), (2, 6), (3, 7)])
def test_more_games_or_contests_only_add_to_the_end(seats: int, players: int) -> None:
    labels = [f"p{number}" for number in range(players)]
    long = fixtures(labels, seats=seats, games=5)
    short = fixtures(labels, seats=seats, games=3)
    assert long[: len(short)] == short
    assert fixtures(labels, seats=seats, games=5, contests=11) == long[:11]


def test_any_beginning_is_nearly_balanced() -> None:
    labels = [f"p{number}" for number in range(64)]
    played = Counter(label for f in fixtures(labels, seats=2, games=1, contests=1000) for label in f.seats)
    assert set(played) == set(labels)
    assert max(played.values()) - min(played.values()) <= 2
