"""`contests.jsonl`: every training contest can be played again from it, and steps that are made again are told once."""

import json
from pathlib import Path
from typing import Any

import bandit
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import agon_env
from agon_env.errors import TranscriptError
from agon_env.transcript import replay
from algos.training.contest_log import contest_lines, duel, read_contests
from algos.training.cut_back import cut_back, log_sizes
from algos.training.run import Run
from algos.training.run_folder import RunFolder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bandit.save_model(tmp_path_factory.mktemp("model"))


def small_run(model: Path, **changes: Any) -> Run:
    changes = {"env": "tests/Bandit-v0", "problems": 2, "group_size": 3, "max_tokens": 4, "lora_rank": 2} | changes
    return Run.of(bandit.config(model, "competitive_grpo", **changes))


def test_every_contest_of_a_step_is_there_and_replays(model: Path, tmp_path: Path) -> None:
    with bandit.registered():
        run = small_run(model, opponent="agent:random", opponent_share=0.5, answers=2)
        folder = RunFolder(tmp_path)
        played = [run.advance()[1] for _ in range(2)]
        for step, rollout in enumerate(played):
            folder.log_contests(step, rollout)
        folder.close()
        found = list(read_contests(tmp_path / "contests.jsonl"))
        assert [(record["step"], record["contest"]) for record, _ in found] == [(s, n) for s in (0, 1) for n in range(12)]
        contests = [contest for rollout in played for contest in rollout.contests]
        for (record, transcript), contest in zip(found, contests, strict=True):
            assert replay(transcript).outcome == contest.outcome
            assert record["prompt"] == contest.observe(transcript.events[0].player).text
            assert all(event["tokens"] >= 1 for event in record["events"] if record["policies"][event["player"]])
        assert {record["policies"][player] for record, _ in found for player in record["roles"]} == {"alice", "bob", None}


def test_a_duel_is_called_by_what_reading_the_draft_did() -> None:
    env = agon_env.make("ArithmeticDuel-v0")
    found = []
    for draft in (True, False):
        for answer in (True, False):
            env.reset(seed=0)
            gold = env.solution("drafter")
            for right in (draft, answer):
                env.step(gold if right else "\\boxed{999999}")
            found.append(duel(env))
    assert found == ["both right", "break", "fix", "both wrong"]


def test_steps_that_are_made_again_are_logged_once(model: Path, tmp_path: Path) -> None:
    with bandit.registered():
        run = small_run(model)
        folder, steps = RunFolder(tmp_path), []
        for step in range(3):
            steps.append(run.advance())
            folder.log(step, steps[step][0])
            folder.log_contests(step, steps[step][1])
            if step == 0:
                logged = folder.sync()
        folder.close()
        whole = (tmp_path / "contests.jsonl").read_bytes()
        with open(tmp_path / "contests.jsonl", "ab") as file:
            file.write(b'{"step": 3, "conte')  # the machine went down here; the last checkpoint was that after step 1
        (events,) = tmp_path.glob("events.out.*")
        with open(events, "ab") as file:
            file.write(b"\x07")
        (tmp_path / "events.out.tfevents.9.of.a.start.that.saved.nothing").write_bytes(events.read_bytes())
        folder = RunFolder(tmp_path, first_step=1, logged=logged)
        assert folder.shortened == []
        for step in (1, 2):
            folder.log(step, steps[step][0])
            folder.log_contests(step, steps[step][1])
        folder.close()
    assert (tmp_path / "contests.jsonl").read_bytes() == whole
    metrics = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text(encoding="utf-8").split("\n") if line]
    assert [record["step"] for record in metrics] == [0, 1, 2]
    told = EventAccumulator(str(tmp_path)).Reload().Scalars("alice/reward")
    assert [event.step for event in told] == [0, 1, 2]
    assert sum(file.read_bytes().count(b"alice/reward\x15") for file in tmp_path.glob("events.out.*")) == 3


def test_logs_are_cut_to_what_they_were(tmp_path: Path) -> None:
    names = ("longer", "same", "shorter", "gone", "new")
    for name in names[:4]:
        (tmp_path / name).write_bytes(b"one\ntwo\n")
    sizes = log_sizes(tmp_path, names)
    (tmp_path / "longer").write_bytes(b"one\ntwo\nthr")
    (tmp_path / "shorter").write_bytes(b"one\n")
    (tmp_path / "gone").unlink()
    (tmp_path / "new").write_bytes(b"one\n")
    assert cut_back(tmp_path, names, sizes) == ["gone", "shorter"]
    left = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert left == {"longer": b"one\ntwo\n", "same": b"one\ntwo\n", "shorter": b"one\n"}


def test_a_foreign_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "contests.jsonl").write_text('{"step": 0}\n', encoding="utf-8")
    with pytest.raises(TranscriptError, match="line 1: not the line of a contest"):
        list(read_contests(tmp_path / "contests.jsonl"))


def test_lines_are_ascii_and_begin_with_their_step(model: Path) -> None:
    with bandit.registered():
        lines = list(contest_lines(7, small_run(model).advance()[1]))
    assert all(line.isascii() and line.startswith('{"step": 7, ') for line in lines)
