"""An opponent that fails while policies train against it: by the policy of the config, and never as a rival's win unasked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bandit
import pytest

import agents
from algos.training.run import Run


class Fails(agents.Agent):
    """Raises for the first so many calls."""

    def __init__(self, times: str) -> None:
        self.left = int(times)

    def act(self, observations: Any) -> list[str]:  # type: ignore[override]
        self.left -= 1
        if self.left >= 0:
            raise ConnectionError("the server is gone")
        return ["w9"] * len(observations)


agents.register("tests-fails", Fails, description="fails", force=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bandit.save_model(tmp_path_factory.mktemp("model"))


def played(model: Path, policy: str, times: int) -> tuple[Run, dict[str, float], list[Any]]:
    with bandit.registered():
        config = bandit.config(
            model,
            "competitive_grpo",
            env="tests/Bandit-v0",
            group_size=4,
            opponent=f"agent:tests-fails:{times}",
            on_agent_fault=policy,
        )
        run = Run.of(config)
        stats, rollout = run.advance()
        return run, stats, rollout.contests


def test_abort_leaves_the_contests_out(model: Path) -> None:
    run, stats, contests = played(model, "abort", 10**6)
    assert all(contest.outcome is not None for contest in contests)
    assert all(reward is None for contest in contests for reward in contest.outcome.rewards.values())
    assert stats["alice/rows"] == stats["bob/rows"] == 0
    events = run.guards.drain()
    assert {event.kind for event in events} == {"agent_fault"}
    assert "raised ConnectionError: the server is gone; nobody is paid for them" in events[0].message


def test_forfeit_is_the_win_of_the_others_when_it_is_asked_for(model: Path) -> None:
    _, _, contests = played(model, "forfeit", 10**6)
    assert all(contest.outcome.reason.startswith("forfeit: no move") for contest in contests)


def test_retry_plays_once_more(model: Path) -> None:
    run, stats, contests = played(model, "retry", 5)  # the first batch, then its contests one by one
    told = [event.message for event in run.guards.drain()]
    assert any("played again from their seeds" in message for message in told)
    assert all(contest.outcome.reason == "completed" for contest in contests[-8:])
    assert stats["alice/rows"] + stats["bob/rows"] > 0


def test_one_that_does_not_fail_is_not_noticed(model: Path) -> None:
    run, _, contests = played(model, "abort", 0)
    assert run.guards.drain() == []
    assert all(contest.outcome.reason == "completed" for contest in contests)
