"""`agon replay` proves every reward of a run, and notices every lie."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import agon_env
from algos.cli import main
from algos.rollouts import Rollout
from algos.training.contest_log import contest_lines
from algos.training.replaying import replay_all


def contests(number: int = 6) -> list[agon_env.Contest]:
    played = []
    for seed in range(number):
        env = agon_env.make("ArithmeticDuel-v0", reward="competitive", bonus=0.5)
        env.reset(seed=seed)
        env.step(env.solution("drafter") if seed % 2 else "\\boxed{999999}")
        env.step(env.solution("challenger") if seed % 3 else "\\boxed{999999}")
        played.append(env)
    return played


@pytest.fixture
def run(tmp_path: Path) -> Path:
    lines = contest_lines(0, Rollout(turns=[], contests=contests(), beneath=[]))
    (tmp_path / "contests.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path


def test_a_run_that_tells_the_truth(run: Path) -> None:
    found = replay_all(run)
    assert (found.contests, found.rewards, found.differing) == (6, 12, 0)
    assert replay_all(run / "contests.jsonl", most=2).contests == 2


def test_transcripts_of_other_origin(tmp_path: Path) -> None:
    for env in contests(2):
        env.transcript.save(tmp_path / "some.jsonl")
    assert replay_all(tmp_path / "some.jsonl").rewards == 4


LIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a reward": lambda record: record["outcome"]["rewards"].update(alice=9.0),
    "a score": lambda record: record["outcome"]["scores"].update(bob=0.0),
    "a part of the reward": lambda record: record["outcome"]["components"]["alice"].update(bonus=1.0),
    "a text": lambda record: record["events"][0].update(text="\\boxed{7}"),
    "what was read": lambda record: record["events"][0].update(extracted="7"),
    "the seed": lambda record: record.update(seed=77),
    "the rule": lambda record: record["kwargs"].update(bonus=0.25),
    "who moved": lambda record: record["events"][0].update(player="bob"),
    "the reason": lambda record: record["outcome"].update(reason="forfeit: no move: alice left"),
    "what the duel came to": lambda record: record.update(duel="break"),
    "the contest": lambda record: record.update(env="KuhnPoker-v0"),
    "a module": lambda record: record.update(env="os:system"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_noticed(run: Path, lie: str) -> None:
    lines = (run / "contests.jsonl").read_text(encoding="utf-8").splitlines()
    record = json.loads(lines[2])  # a wrong draft that was answered right
    LIES[lie](record)
    lines[2] = json.dumps(record)
    (run / "contests.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = replay_all(run)
    assert (found.contests, found.differing) == (6, 1)
    assert found.told[0].startswith("step 0, contest 2: ")


def test_the_command(run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def agon(*args: str) -> int:
        monkeypatch.setattr("sys.argv", ["agon", "replay", *args])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(str(ended.value.code))

    assert agon(str(run)) == 0
    assert json.loads(capsys.readouterr().out) == {"contests": 6, "rewards proved": 12, "differing": 0}
    text = (run / "contests.jsonl").read_text(encoding="utf-8")
    (run / "contests.jsonl").write_text(text.replace('"duel": "break"', '"duel": "fix"'), encoding="utf-8")
    assert agon(str(run)) == 1
    assert agon(str(run / "nothing")) == 2
