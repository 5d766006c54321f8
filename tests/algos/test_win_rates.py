"""Win rates and the chances that follow from them."""

import json

import numpy as np
import pytest

from algos.playing.win_rates import WinRates, chances


def test_who_never_met_is_taken_for_an_equal() -> None:
    rates = WinRates()
    assert rates.rate("alice", "bob@0") == 0.5
    rates.record("alice", "bob@0", [1.0])
    assert 0.5 < rates.rate("alice", "bob@0") < 1  # one win is no certainty
    rates.record("alice", "bob@0", [1.0] * 100)
    assert rates.rate("alice", "bob@0") > 0.99
    assert rates.rate("bob", "bob@0") == 0.5


def test_draws_are_half_wins() -> None:
    rates = WinRates()
    rates.record("alice", "bob", [0.5] * 7)
    assert rates.rate("alice", "bob") == 0.5


def test_new_results_outweigh_old_ones() -> None:
    rates = WinRates()
    rates.record("alice", "bob", [1.0] * 10)
    rates.record("alice", "bob", [0.0] * 10)
    assert rates.rate("alice", "bob") < 0.4


def test_what_counts_less_counts_less_as_a_win_and_as_a_game() -> None:
    rates = WinRates()
    for _ in range(5):
        rates.record("alice", "bob", [1.0] * 10)
    assert rates.rate("alice", "bob") > 0.95


def test_state_survives_json_to_the_last_bit() -> None:
    rates, again = WinRates(), WinRates()
    for count in (3, 7, 11):
        rates.record("alice", "bob@4", [1.0, 0.0, 0.5] * count)
    again.restore(json.loads(json.dumps(rates.state())))
    assert again.rate("alice", "bob@4") == rates.rate("alice", "bob@4")
    for each in (rates, again):
        each.record("alice", "bob@4", [1.0])
    assert again.state() == rates.state()
    rates.forget("bob@4")
    assert rates.rate("alice", "bob@4") == 0.5


@pytest.mark.parametrize(
    ("weighting", "expected"),
    [
        ("uniform", [1, 1, 1]),
        ("recent", [1, 2, 3]),
        ("hard", [0.25, 0.01, 0.81]),  # (1 - p)²
        ("even", [0.25, 0.09, 0.09]),  # p (1 - p)
    ],
)
def test_the_weights_are_those_that_are_promised(weighting: str, expected: list[float]) -> None:
    assert chances(weighting, [0.5, 0.9, 0.1]) == pytest.approx(np.array(expected) / sum(expected))


def test_where_everyone_is_beaten_all_are_alike() -> None:
    assert chances("hard", [1.0, 1.0]).tolist() == [0.5, 0.5]
