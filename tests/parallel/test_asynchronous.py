"""Contests that are played ahead: one step stale and no more, corrected, and at staleness 0 the synchronous run."""

import copy
import dataclasses
import threading
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from algos.config import TINY
from algos.errors import ConfigError
from algos.learning.optim import OptimConfig
from algos.parallel.ray_config import LOCAL, RayConfig
from algos.playing import asynchronous
from algos.playing.asynchronous import Ahead
from algos.playing.win_rates import WinRates
from algos.training.run import Run

SMALL = dataclasses.replace(TINY, problems=2, group_size=4, max_tokens=12, eval_problems=0, lora_rank=2)


class FakeRun:
    """A run whose policies are numbers that a step raises."""

    def __init__(self, steps: int) -> None:
        self.config, self.step = SimpleNamespace(steps=steps), 0
        self.policies: dict[str, Any] = {"alice": [0]}
        self.workers = SimpleNamespace(freeze=copy.copy)
        self.rates = WinRates()

    def learn(self) -> None:
        self.policies["alice"][0] += 1
        self.step += 1


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What is played, as (step, what the policy was)."""
    found: list[tuple[int, int]] = []

    def play(run: Any) -> tuple[Any, dict[str, float]]:
        found.append((run.step, run.policies["alice"][0]))
        run.rates.record("alice", "bob", [1.0])
        return (run.step, run.policies["alice"][0]), {}

    monkeypatch.setattr(asynchronous, "play", play)
    return found


def steps(run: FakeRun, ahead: Ahead) -> list[tuple[int, int]]:
    used = []
    while run.step < run.config.steps:
        rollout, _ = ahead.play(run)  # type: ignore[arg-type]
        used.append(rollout)
        run.learn()
    ahead.close()
    return used  # type: ignore[return-value]


def test_without_staleness_a_step_plays_with_what_it_has_learned(played: list[tuple[int, int]]) -> None:
    assert steps(FakeRun(4), Ahead()) == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_what_is_played_ahead_is_one_step_old_and_no_more(played: list[tuple[int, int]]) -> None:
    assert steps(FakeRun(4), Ahead(staleness=1)) == [(0, 0), (1, 0), (2, 1), (3, 2)]
    assert len(played) == 4  # nothing beyond the last step


def test_win_rates_count_every_step_once_and_in_order(played: list[tuple[int, int]]) -> None:
    run, ahead = FakeRun(3), Ahead(staleness=1)
    ahead.play(run)  # type: ignore[arg-type]
    ahead.settle()
    before = copy.deepcopy(run.rates.state())
    run.learn()
    ahead.play(run)  # type: ignore[arg-type]
    alone = WinRates()
    alone.record("alice", "bob", [1.0])
    assert before == alone.state()  # the step that is played ahead does not count yet
    alone.record("alice", "bob", [1.0])
    assert run.rates.state() == alone.state()
    ahead.close()


def test_it_is_played_while_the_caller_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    learned = threading.Event()
    monkeypatch.setattr(asynchronous, "play", lambda run: (learned.wait(10) if run.step else True, {}))
    run, ahead = FakeRun(2), Ahead(staleness=1)
    ahead.play(run)  # type: ignore[arg-type]
    learned.set()  # would never be reached if the next step were waited for
    run.learn()
    assert ahead.play(run)[0] is True  # type: ignore[arg-type]
    ahead.close()


def test_what_goes_wrong_ahead_is_raised_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(run: Any) -> tuple[int, dict[str, float]]:
        if run.step:
            raise LookupError("ahead")
        return 0, {}

    monkeypatch.setattr(asynchronous, "play", play)
    run, ahead = FakeRun(2), Ahead(staleness=1)
    ahead.play(run)  # type: ignore[arg-type]
    ahead.settle()
    run.learn()
    with pytest.raises(LookupError, match="ahead"):
        ahead.play(run)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"staleness": 2, "ray": RayConfig(LOCAL)}, "must be 0 or 1"),
        ({"staleness": 1}, "needs workers"),
        ({"staleness": 1, "ray": RayConfig(LOCAL), "opponent": "base"}, 'opponent="rival"'),
        ({"staleness": 1, "ray": RayConfig(LOCAL), "ranks": 2}, "ranks=1"),
    ],
)
def test_what_can_not_be_played_ahead_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(SMALL, **changes)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason='Ray is not installed: pip install "agon-env[ray]"')
def test_a_run_that_plays_ahead(tmp_path: Path) -> None:
    """Its second step has the contests of policies that have learned nothing yet; its third one those of the first update."""
    texts = {}
    for staleness in (0, 1):
        ray = RayConfig(LOCAL, workers=2, cpus=0.5)
        fast = OptimConfig(learning_rate=0.1)  # so that an update shows in what is said next
        run = Run.of(dataclasses.replace(SMALL, steps=3, staleness=staleness, ray=ray, optim=fast))
        assert run.learners["alice"].loss.sampler_correction == ("token" if staleness else "none")
        found = []
        for _ in range(3):
            stats, rollout = run.advance()
            found.append([turn.text for turn in rollout.turns])
            assert ("alice/sampler_weight" in stats) == bool(staleness and stats["alice/rows"])
        texts[staleness] = found
        run.close()
    assert texts[0][0] == texts[1][0]
    assert texts[0][1:] != texts[1][1:]
