"""What stops a run leaves it fit to go on, and is said in a sentence."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bandit
import pytest
import torch
from learner_fixtures import tiny_base
from rich.console import Console
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from algos.config import TINY, TrainConfig
from algos.errors import BaseChanged, ConfigError, FolderFailed
from algos.grpo import GRPO
from algos.guards import GuardConfig, Guards
from algos.learner import LocalLearner
from algos.losses import LossConfig
from algos.playing.win_rates import WinRates
from algos.trainer import Interrupted, train
from algos.training.checkpoint import checkpoints, save_checkpoint
from algos.training.console import RunConsole
from algos.training.resuming import check_same_run
from algos.training.run import Run
from algos.training.run_folder import RunFolder

QUIET = RunConsole(Console(quiet=True))


@pytest.fixture(autouse=True)
def games() -> Iterator[None]:
    with bandit.registered():
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bandit.save_model(tmp_path_factory.mktemp("model"))


def config(model: Path, folder: Path, **changes: Any) -> TrainConfig:
    small = {"steps": 4, "problems": 2, "group_size": 8, "lora_rank": 2, "output_dir": str(folder), "name": "run", "log": ()}
    return bandit.config(model, "competitive_grpo", env="tests/Bandit-v0", **(small | {"checkpoint_every": 2} | changes))


def after_step(monkeypatch: pytest.MonkeyPatch, number: int, then: Callable[[Run], Any]) -> None:
    """Do something when a run has made so many steps."""
    advance = Run.advance

    def with_trouble(self: Run) -> Any:
        done = advance(self)
        if self.step == number:
            then(self)
        return done

    monkeypatch.setattr(Run, "advance", with_trouble)


def contests(run: Path) -> bytes:
    return (run / "contests.jsonl").read_bytes()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_finishes_the_step_and_saves(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    whole = train(config(model, tmp_path / "whole"), console=QUIET)
    handlers = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        after_step(patch, 3, lambda _: os.kill(os.getpid(), number))
        with pytest.raises(Interrupted, match="Stopped after step 3; nothing is lost") as stopped:
            train(config(model, tmp_path), console=QUIET)
    assert stopped.value.exit_code == code
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == handlers
    assert [path.name for path in checkpoints(tmp_path / "run")] == ["step-2", "step-3"]
    train(config(model, tmp_path), resume=tmp_path / "run", console=QUIET)
    assert contests(tmp_path / "run") == contests(whole)
    starts = (tmp_path / "run" / "sessions.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    assert [json.loads(line)["step"] for line in starts] == [0, 3]


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), SafetensorError("No space left on device")]
)
def test_a_full_disk_is_a_sentence_and_the_run_goes_on(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        after_step(patch, 3, lambda _: patch.setattr("algos.training.checkpoint.save_file", full))
        with pytest.raises(FolderFailed, match=r"can't be written: .*No space left.*Make room on the disk"):
            train(config(model, tmp_path), console=QUIET)
    train(config(model, tmp_path), resume=tmp_path / "run", console=QUIET)
    assert contests(tmp_path / "run") == contests(train(config(model, tmp_path / "whole"), console=QUIET))


def test_what_is_no_trouble_with_the_disk_stays_what_it_is(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Run) -> None:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "the server is gone")

    after_step(monkeypatch, 1, refused)
    with pytest.raises(ConnectionRefusedError):
        train(config(model, tmp_path), console=QUIET)


def test_a_base_that_changed_is_not_saved(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def move(run: Run) -> None:
        with torch.no_grad():
            run.bases[0].model.get_input_embeddings().weight.add_(1e-3)

    after_step(monkeypatch, 3, move)
    with pytest.raises(BaseChanged):
        train(config(model, tmp_path, guards=GuardConfig(mismatch=0)), console=QUIET)
    assert [path.name for path in checkpoints(tmp_path / "run")] == ["step-2"]
    assert not (tmp_path / "run" / "alice").exists()


def test_policies_that_say_the_same_whatever_they_read_are_told(model: Path, tmp_path: Path) -> None:
    weights = load_file(model / "model.safetensors")
    weights["model.norm.weight"] *= 6  # sure of one word
    shutil.copytree(model, collapsed := tmp_path / "collapsed")
    save_file(weights, collapsed / "model.safetensors", metadata={"format": "pt"})
    guards = GuardConfig(collapse_window=2)
    run = train(config(collapsed, tmp_path, guards=guards), console=QUIET)
    (event,) = (json.loads(line) for line in (run / "events.jsonl").read_text(encoding="utf-8").split("\n")[:-1])
    assert (event["kind"], event["step"]) == ("equal_answers", 1)
    assert "all its answers are the same" in event["message"]
    sound = train(config(model, tmp_path, guards=guards, name="sound"), console=QUIET)
    assert (sound / "events.jsonl").read_bytes() == b""


def test_events_are_logged_counted_and_shown(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    after_step(monkeypatch, 2, lambda run: run.guards.tell("disk_nearly_full", "0.1 GB are free"))
    with open(tmp_path / "screen", "w", encoding="utf-8") as screen:
        run = train(config(model, tmp_path), console=RunConsole(Console(file=screen, width=200)))
    (event,) = (run / "events.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    assert json.loads(event)["step"] == 1
    counts = [json.loads(line).get("guards/disk_nearly_full") for line in (run / "metrics.jsonl").read_text().split("\n")[:-1]]
    assert counts == [None, 1, None, None]
    assert "Step 2: 0.1 GB are free" in (tmp_path / "screen").read_text(encoding="utf-8")


def test_a_folder_is_written_by_one_process(tmp_path: Path) -> None:
    first = RunFolder(tmp_path, log=())
    with pytest.raises(FolderFailed, match="another process is training in"):
        RunFolder(tmp_path, log=())
    first.close()
    RunFolder(tmp_path, log=()).close()


def test_the_newest_and_the_best_are_kept(tmp_path: Path) -> None:
    base, alice = tiny_base("alice")
    learner = LocalLearner(base)
    run: Any = SimpleNamespace(algorithm=GRPO(), opponents=None, rates=WinRates(), tokens=0, before=None, best=None)
    run.no_best = None
    run.policies, run.learners, run.critics = {"alice": alice}, {"alice": learner}, {}
    run.guards = Guards(GuardConfig(), run.policies, run.learners)
    for step, figure in enumerate((0.2, 0.6, 0.4, 0.3, 0.5), start=1):
        run.step = step
        Run.is_best(run, {"answer_pass1": figure})
        save_checkpoint(run, tmp_path, keep=2)
    assert run.best == {"step": 2, "answer_pass1": 0.6}
    assert [path.name for path in checkpoints(tmp_path)] == ["step-2", "step-4", "step-5"]


def test_every_difference_is_named_with_what_it_means() -> None:
    told = check_same_run(replace(TINY, steps=90, threads=2), TINY)
    assert told == [
        "steps was 60 and is 90 now: the run ends after another number of steps; a learning rate that decays reaches 0 there",
        "threads was 1 and is 2 now: sums are made in another order: the run is the same up to rounding, not to the last bit",
    ]
    assert check_same_run(TINY, TINY) == []
    with pytest.raises(
        ConfigError, match=r"loss\.kl_coef was 0\.0 and can't become 0\.1; seed was 0 and can't become 1 in the"
    ):
        check_same_run(replace(TINY, seed=1, steps=90, loss=LossConfig(kl_coef=0.1)), TINY)
