"""What a run needs to go on survives a crash at any moment. Traps T58 and T59 of the reported faults."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from learner_fixtures import tiny_base, tiny_rows

from algos.grpo import GRPO
from algos.guards import GuardConfig, Guards
from algos.learner import LocalLearner
from algos.playing.win_rates import WinRates
from algos.training.checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from algos.training.run_folder import RunFolder
from algos.types import Batch


def tiny_run(*names: str, trained: bool = True) -> SimpleNamespace:
    """What `save_checkpoint` and `load_checkpoint` read of a run."""
    base, *policies = tiny_base(*names, trained=trained)
    learner = LocalLearner(base)
    run = SimpleNamespace(algorithm=GRPO(), opponents=None, rates=WinRates(), step=0, tokens=0, before={"n": 1})
    run.policies, run.learners = {policy.name: policy for policy in policies}, dict.fromkeys(names, learner)
    run.critics, run.best = {}, None
    run.guards = Guards(GuardConfig(), run.policies, run.learners)
    return run


def advance(run: SimpleNamespace) -> None:
    for name, policy in run.policies.items():
        run.learners[name].forward_backward(policy, Batch(tuple(tiny_rows(2, seed=run.step))))
        run.learners[name].optim_step(policy)
    run.step += 1


def saved(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoint").iterdir())


def weights(run: SimpleNamespace) -> list[torch.Tensor]:
    return [parameter.detach().clone() for policy in run.policies.values() for parameter in policy.parameters()]


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("at", ["save_file", "write_json", "seal", "os.replace"])
def test_t58_the_old_checkpoint_stays_until_the_new_one_is_complete(tmp_path, monkeypatch, at):
    run = tiny_run("alice", "bob")
    advance(run)
    save_checkpoint(run, tmp_path)
    old = weights(run)
    advance(run)

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(f"algos.training.checkpoint.{at}", full)
        with pytest.raises(OSError, match="no space"):
            save_checkpoint(run, tmp_path)
    again = tiny_run("alice", "bob", trained=False)
    load_checkpoint(again, tmp_path)
    assert (again.step, again.before) == (1, {"n": 1})
    assert same(weights(again), old)
    save_checkpoint(run, tmp_path)
    assert saved(tmp_path) == ["step-1", "step-2"]
    load_checkpoint(again, tmp_path)
    assert again.step == 2
    assert same(weights(again), weights(run))


def test_what_lies_among_the_checkpoints_is_left_alone_and_what_is_in_their_place_goes(tmp_path):
    run = tiny_run("alice")
    parent = tmp_path / "checkpoint"
    (parent / "my adapters").mkdir(parents=True)
    for name in ("notes.txt", ".DS_Store", "step-1", "step-2.partial", "step-0"):
        (parent / name).write_text("a file", encoding="utf-8")
    (parent / "step-7").symlink_to(parent / "my adapters")
    for _ in range(2):
        advance(run)
        save_checkpoint(run, tmp_path, keep=1)
    assert saved(tmp_path) == [".DS_Store", "my adapters", "notes.txt", "step-2"]
    assert (parent / "notes.txt").read_text(encoding="utf-8") == "a file"
    other = tiny_run("alice")
    load_checkpoint(other, tmp_path)
    assert other.step == 2
    assert same(weights(run), weights(other))


def test_all_that_a_run_keeps_beside_its_weights_comes_back(tmp_path):
    run = tiny_run("alice")
    advance(run)
    run.tokens, run.before, run.best = 77, {"n": 9, "answer_pass1": 0.25}, {"step": 1, "answer_pass1": 0.5}
    run.rates.record("alice", "bob", [1.0, 0.0, 1.0])
    run.guards.observe({"alice/entropy": 0.5, "alice/length": 9.0, "groups/total": 2.0, "groups/dropped": 2.0})
    save_checkpoint(run, tmp_path, logged={"metrics.jsonl": 123})
    again = tiny_run("alice", trained=False)
    assert load_checkpoint(again, tmp_path) == {"metrics.jsonl": 123}
    assert (again.step, again.tokens, again.before, again.best) == (1, 77, run.before, run.best)
    assert again.rates.state() == run.rates.state() != WinRates().state()
    assert again.guards.state() == run.guards.state() != tiny_run("alice").guards.state()


def test_a_checkpoint_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    synced, named = set(), []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.add(os.fstat(fd).st_ino), fsync(fd))[1])

    def replaced(source, target):
        if Path(target).name == "step-0":
            files = [Path(source), *Path(source).rglob("*")]
            named.extend(file.name for file in files if file.stat().st_ino not in synced)
            synced.clear()
        replace(source, target)

    monkeypatch.setattr(os, "replace", replaced)
    save_checkpoint(tiny_run("alice"), tmp_path)
    assert named == []
    assert (tmp_path / "checkpoint").stat().st_ino in synced  # the new name, too


def test_without_a_checkpoint_a_run_begins_anew(tmp_path):
    run = tiny_run("alice")
    load_checkpoint(run, tmp_path)
    assert run.step == 0


def test_a_checkpoint_of_other_policies_is_refused(tmp_path):
    save_checkpoint(tiny_run("alice"), tmp_path)
    with pytest.raises(CheckpointError, match="'bob'"):
        load_checkpoint(tiny_run("alice", "bob"), tmp_path)


def test_t59_steps_that_are_done_again_are_logged_once(tmp_path):
    folder = RunFolder(tmp_path)
    folder.log(0, {"loss": 0.0})
    logged = folder.sync()
    for step in (1, 2):
        folder.log(step, {"loss": float(step)})
    folder.close()
    with (tmp_path / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 3, "lo')  # the machine went down here; the last checkpoint was that after step 0
    folder = RunFolder(tmp_path, first_step=1, logged=logged)
    folder.log(1, {"loss": float("nan")})
    folder.close()
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert records == [{"step": 0, "loss": 0.0}, {"step": 1, "loss": None}]
