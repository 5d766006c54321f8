"""Turns per second of a contest against TextArena and PettingZoo, and the cost of a turn from 1 to 4,096 contests.

    python benchmarks/env.py [--output env.json]

Needs `pip install 'agon-env[bench]'`. The same two-player text game in the three libraries (`guess_game.py`), the same
texts. Contests are played from their reset to their rewards, many at a time in lockstep as batched sampling plays them.
TextArena is measured twice: `textarena` is a game that it ships, made by `textarena.make` (an iterated prisoner's dilemma
of as many turns, most of them talk; it shows a player all that was said), `textarena_bare` the common game with the least
that an environment of it needs. All sides and sizes take turns, and processor time is counted, so that what else the
machine does weighs little. A turn of agon-env includes its transcript, the checks of the action and the copy of the
messages that lets nobody change what a contest holds.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from guess_game import GUESSES, Guess, make_pettingzoo, make_shipped_textarena, make_textarena
from measure import machine, publish, spread

from agon_env.vector import VectorContest

TEXT = "I think that my rival is bluffing, so I take the other half of what is left. " * 5
GUESS_TEXTS = [f"{TEXT}My guess is [{(137 * turn) % 1000}]. [Cooperate]" for turn in range(GUESSES)]

Play = Callable[[int, int], None]
"""Plays contests in lockstep to their ends: (how many, first seed)."""


def play_single(count: int, seed: int) -> None:
    """Contests one after another by `Contest.step`."""
    env = Guess()
    for number in range(count):
        obs, _ = env.reset(seed=seed + number)
        while obs is not None:
            assert obs.text
            obs, *_ = env.step(GUESS_TEXTS[env.turn])
        assert env.outcome is not None


def play_vector(count: int, seed: int) -> None:
    """Contests side by side by `VectorContest`."""
    contests = VectorContest([Guess() for _ in range(count)])
    contests.reset(seed=seed)
    for text in GUESS_TEXTS:
        waiting = contests.pending()
        assert all(obs.text for obs in waiting.values())
        contests.step(dict.fromkeys(waiting, text))
    assert contests.done


def play_textarena(count: int, seed: int) -> None:
    """A game of TextArena's own, side by side."""
    _play_textarena([make_shipped_textarena() for _ in range(count)], seed)


def play_textarena_bare(count: int, seed: int) -> None:
    """The common game as an environment of TextArena, side by side."""
    _play_textarena([make_textarena() for _ in range(count)], seed)


def _play_textarena(envs: list[Any], seed: int) -> None:
    for number, env in enumerate(envs):
        env.reset(num_players=2, seed=seed + number)
    for text in GUESS_TEXTS:
        for env in envs:
            _, observation = env.get_observation()
            assert observation
            done, _ = env.step(text)
    assert done
    for env in envs:
        rewards, _ = env.close()
        assert len(rewards) == 2


def play_pettingzoo(count: int, seed: int) -> None:
    """Environments of PettingZoo side by side, each with the last calls that its API asks for when agents are done."""
    envs = [make_pettingzoo() for _ in range(count)]
    for number, env in enumerate(envs):
        env.reset(seed=seed + number)
    for text in GUESS_TEXTS:
        for env in envs:
            observation, _, termination, truncation, _ = env.last()
            assert observation
            assert not termination
            assert not truncation
            env.step(text)
    for env in envs:
        for _ in env.agent_iter():
            _, _, termination, _, _ = env.last(observe=False)
            assert termination
            env.step(None)


SIDES: dict[str, Play] = {
    "agon_single": play_single,
    "agon_vector": play_vector,
    "textarena": play_textarena,
    "textarena_bare": play_textarena_bare,
    "pettingzoo": play_pettingzoo,
}


def seconds_per_turn(play: Play, *, side_by_side: int, contests: int) -> float:
    """Play at least `contests` contests, `side_by_side` at a time; return the processor time of one turn."""
    rounds = max(1, contests // side_by_side)
    gc.collect()
    start = time.process_time()
    for number in range(rounds):
        play(side_by_side, number * side_by_side)
    return (time.process_time() - start) / (rounds * side_by_side * GUESSES)


def measure(sizes: list[int], *, contests: int, repeats: int) -> dict[str, Any]:
    """Return microseconds per turn of every side at every size, and the ratios that follow."""
    for play in SIDES.values():
        play(8, 0)
    times: dict[tuple[str, int], list[float]] = {(side, size): [] for side in SIDES for size in sizes}
    for _ in range(repeats):
        for (side, size), measured in times.items():
            measured.append(1e6 * seconds_per_turn(SIDES[side], side_by_side=size, contests=contests))
    middle = {key: median(measured) for key, measured in times.items()}
    return {
        "microseconds_per_turn": {side: {str(size): spread(times[side, size], 2) for size in sizes} for side in SIDES},
        "turns_per_second": {side: {str(size): round(1e6 / middle[side, size]) for size in sizes} for side in SIDES},
        "times_as_fast_as": {
            peer: {
                side: {str(size): round(middle[peer, size] / middle[side, size], 2) for size in sizes}
                for side in ("agon_single", "agon_vector")
            }
            for peer in ("textarena", "textarena_bare", "pettingzoo")
        },
        "cost_of_a_turn_relative_to_one_contest": {
            side: {str(size): round(middle[side, size] / middle[side, sizes[0]], 2) for size in sizes} for side in SIDES
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 16, 256, 4096], help="contests side by side")
    parser.add_argument("--contests", type=int, default=256, help="least number of contests of one measurement")
    parser.add_argument("--repeats", type=int, default=5, help="measurements of each side and size")
    parser.add_argument("--output", help="where to write the JSON as well")
    arguments = parser.parse_args()
    report = {
        "machine": machine("agon-env", "textarena", "pettingzoo"),
        "turns_per_contest": GUESSES,
        "characters_per_text": len(GUESS_TEXTS[0]),
        **measure(arguments.sizes, contests=arguments.contests, repeats=arguments.repeats),
    }
    publish(report, arguments.output)


if __name__ == "__main__":
    main()
