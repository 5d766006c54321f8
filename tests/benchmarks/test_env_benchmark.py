"""The environments are compared at the same game, and none of them is let off a part of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("textarena")
pytest.importorskip("pettingzoo")
from guess_game import GUESSES, Guess, make_pettingzoo, make_textarena, read_guess, scores

from agon_env.checker import check_env

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "env.py"


def test_the_benchmark_says_how_each_side_compares() -> None:
    command = [sys.executable, str(SCRIPT), "--sizes", "1", "4", "--contests", "4", "--repeats", "1"]
    result = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120, check=True)
    report = json.loads(result.stdout)
    times = report["microseconds_per_turn"]
    assert set(times) == {"agon_single", "agon_vector", "textarena", "textarena_bare", "pettingzoo"}
    expected = times["pettingzoo"]["4"]["median"] / times["agon_vector"]["4"]["median"]
    assert report["times_as_fast_as"]["pettingzoo"]["agon_vector"]["4"] == pytest.approx(expected, rel=0.05)


def test_the_rules() -> None:
    assert read_guess("[12] or rather [13], not [1234]") == 13
    assert read_guess("12") is None
    assert scores(500, [3, 4]) == [1.0, 0.0]
    assert scores(500, [4, 4]) == [0.5, 0.5]


def test_our_side_keeps_the_rules_of_the_house() -> None:
    check_env(Guess())


def test_the_three_libraries_play_the_same_game() -> None:
    texts = [f"[{100 + 7 * turn}]" for turn in range(GUESSES)]
    ours, arena, zoo = Guess(), make_textarena(), make_pettingzoo()
    obs, _ = ours.reset(seed=0)
    arena.reset(num_players=2, seed=0)
    zoo.reset(seed=0)
    secret = ours.secret
    assert zoo.unwrapped.secret == secret  # both draw it from the same generator
    arena.state.game_state["secret"] = secret
    for turn, text in enumerate(texts):
        _, seen = arena.get_observation()
        assert obs.text == zoo.last()[0]
        assert (texts[turn - 1] in seen) == (texts[turn - 1] in obs.text) == (turn > 0)
        obs, *_ = ours.step(text)
        done, _ = arena.step(text)
        zoo.step(text)
        assert done == ours.done == all(zoo.terminations.values()) == (turn == GUESSES - 1)
    expected = scores(secret, [min(abs(100 + 7 * turn - secret) for turn in range(seat, GUESSES, 2)) for seat in (0, 1)])
    assert list(ours.outcome.rewards.values()) == list(zoo.rewards.values()) == expected
    assert arena.close()[0] == {seat: 2 * share - 1 for seat, share in enumerate(expected)}
