"""Turns per second of a contest against TextArena and PettingZoo, and the cost of a turn from 1 to 4,096 contests.

    python benchmarks/env.py [--output env.json]

Needs `pip install 'agon-env[bench]'`. The same two-player text game in the three libraries (`guess_game.py`), the same
texts. Contests are played from their reset to their rewards; `agon_single` plays one after another, all others play many in
lockstep as batched sampling needs it: the observations of all, then the moves of all. TextArena is measured twice:
`textarena` is a game that it ships, made by `textarena.make` (an iterated prisoner's dilemma of as many turns, most of them
talk; it shows a player all that was said), `textarena_bare` the common game with the least that an environment of it needs.
All sides and sizes take turns, and processor time is counted, so that what else the machine does weighs little. A turn of
agon-env includes its transcript and the checks of the action; to make the environments is not counted for anybody.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from guess_game import GUESSES, Guess, make_pettingzoo, make_shipped_textarena, make_textarena
from measure import machine, publish, spread

from agon_env.vector import VectorContest

TEXT = "I think that my rival is bluffing, so I take the other half of what is left. " * 5
GUESS_TEXTS = [f"{TEXT}My guess is [{(137 * turn) % 1000}]. [Cooperate]" for turn in range(GUESSES)]


@dataclass(frozen=True)
class Side:
    """A way to play contests."""

    make: Callable[[int], Any]
    """Makes what plays so many contests at a time."""
    play: Callable[[Any, int, int], None]
    """Plays with it: (what was made, how many contests, first seed)."""


def play_single(env: Guess, count: int, seed: int) -> None:
    """Contests one after another by `Contest.step`."""
    for number in range(count):
        obs, _ = env.reset(seed=seed + number)
        while obs is not None:
            assert obs.text
            obs, *_ = env.step(GUESS_TEXTS[env.turn])
        assert env.outcome is not None


def play_vector(contests: VectorContest, count: int, seed: int) -> None:
    """Contests side by side by `VectorContest`."""
    contests.reset(seed=seed)
    for text in GUESS_TEXTS:
        waiting = contests.pending()
        for obs in waiting.values():
            assert obs.text
        contests.step(dict.fromkeys(waiting, text))
    assert contests.done


def play_textarena(envs: list[Any], count: int, seed: int) -> None:
    """Environments of TextArena side by side."""
    for number, env in enumerate(envs):
        env.reset(num_players=2, seed=seed + number)
    for text in GUESS_TEXTS:
        waiting = [env.get_observation() for env in envs]
        for _, observation in waiting:
            assert observation
        for env in envs:
            done, _ = env.step(text)
    assert done
    for env in envs:
        rewards, _ = env.close()
        assert len(rewards) == 2


def play_pettingzoo(envs: list[Any], count: int, seed: int) -> None:
    """Environments of PettingZoo side by side, each with the last calls that its API asks for when agents are done."""
    for number, env in enumerate(envs):
        env.reset(seed=seed + number)
    for text in GUESS_TEXTS:
        waiting = [env.last() for env in envs]
        for observation, _, termination, truncation, _ in waiting:
            assert observation
            assert not termination
            assert not truncation
        for env in envs:
            env.step(text)
    for env in envs:
        for _ in env.agent_iter():
            _, _, termination, _, _ = env.last(observe=False)
            assert termination
            env.step(None)


SIDES = {
    "agon_single": Side(lambda count: Guess(), play_single),
    "agon_vector": Side(lambda count: VectorContest([Guess() for _ in range(count)]), play_vector),
    "textarena": Side(lambda count: [make_shipped_textarena() for _ in range(count)], play_textarena),
    "textarena_bare": Side(lambda count: [make_textarena() for _ in range(count)], play_textarena),
    "pettingzoo": Side(lambda count: [make_pettingzoo() for _ in range(count)], play_pettingzoo),
}


def seconds_per_turn(side: Side, *, side_by_side: int, contests: int) -> float:
    """Play at least `contests` contests, `side_by_side` at a time; return the processor time of one turn."""
    rounds = max(1, contests // side_by_side)
    made = [side.make(side_by_side) for _ in range(rounds)]  # not one for all, because TextArena's keep what was said
    gc.collect()
    start = time.process_time()
    for number, envs in enumerate(made):
        side.play(envs, side_by_side, number * side_by_side)
    return (time.process_time() - start) / (rounds * side_by_side * GUESSES)


def measure(sizes: list[int], *, contests: int, repeats: int) -> dict[str, Any]:
    """Return microseconds per turn of every side at every size, and the ratios that follow."""
    for side in SIDES.values():
        seconds_per_turn(side, side_by_side=8, contests=8)
    times: dict[tuple[str, int], list[float]] = {(side, size): [] for side in SIDES for size in sizes}
    for _ in range(repeats):
        for (name, size), measured in times.items():
            measured.append(1e6 * seconds_per_turn(SIDES[name], side_by_side=size, contests=contests))
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
        "greatest_over_least_cost_of_a_turn": {
            side: round(max(middle[side, size] for size in sizes) / min(middle[side, size] for size in sizes), 2)
            for side in SIDES
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
