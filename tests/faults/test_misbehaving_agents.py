"""Forty agents misbehave; each contest ends in the documented way, and its rival has won."""

import re
import threading
import time

import pytest
from misbehaving import AGENTS, LIMIT

import agents
import agon_env

HONEST = agents.as_agent(lambda obs: "\\boxed{1}")


def test_there_are_forty() -> None:
    assert len(AGENTS) == 40


@pytest.mark.parametrize("name", AGENTS)
def test_each_is_blamed_for_what_it_did(name: str) -> None:
    make, blamed = AGENTS[name]
    contests = [agon_env.make("ArithmeticDuel-v0") for _ in range(2)]
    for seed, contest in enumerate(contests):
        contest.reset(seed=seed)
    threads = threading.active_count()
    start = time.monotonic()
    played = agents.play(contests, [{"alice": HONEST, "bob": make()}] * 2, timeout=LIMIT)
    assert time.monotonic() - start < 10 * LIMIT  # on a busy machine too
    for one in played:
        outcome = one.contest.outcome
        assert outcome is not None
        if blamed is None:
            assert outcome.reason == "completed"
            assert outcome.scores["bob"] == 0
            continue
        assert outcome.reason.startswith("forfeit: no move: ")
        assert re.search(blamed, outcome.reason), outcome.reason
        assert len(outcome.reason) < 400
        assert outcome.winner == "alice"
        assert "\x1b" not in one.contest.transcript.render()
    deadline = time.monotonic() + 20 * LIMIT
    while threading.active_count() > threads and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == threads
