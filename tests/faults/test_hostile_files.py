"""Files that would run code, name other files, or act on a terminal: each is refused by a sentence, and nothing happens."""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file

sys.path.append(str(Path(__file__).parents[1] / "algos"))
from learner_fixtures import tiny_base

from agents.errors import AdapterMismatch
from agon_env.errors import Error
from agon_env.transcript import load, replay
from algos.config import TINY, load_config
from algos.errors import CheckpointError, ConfigError, FolderFailed
from algos.grpo import GRPO
from algos.guards import GuardConfig, Guards, load_batch
from algos.learner import LocalLearner
from algos.playing.win_rates import WinRates
from algos.training.checkpoint import checkpoints, load_checkpoint, save_checkpoint
from algos.training.config_file import read_config_file
from algos.training.console import RunConsole
from algos.training.contest_log import read_contests
from algos.training.manifest import MANIFEST, NewerFormat, seal, verify
from algos.training.run_folder import RunFolder, write_text


class Bomb:
    """Unpickled, it leaves a file behind."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "it-ran"


def tiny_run(step: int = 1) -> Any:
    base, alice = tiny_base("alice")
    learner = LocalLearner(base)
    run = SimpleNamespace(algorithm=GRPO(), opponents=None, rates=WinRates(), step=step, tokens=0, before=None, best=None)
    run.policies, run.learners, run.critics = {"alice": alice}, {"alice": learner}, {}
    run.guards = Guards(GuardConfig(), run.policies, run.learners)
    return run


def saved(folder: Path, steps: int = 1) -> Path:
    for step in range(1, 1 + steps):
        save_checkpoint(tiny_run(step), folder)
    return checkpoints(folder)[-1]


def test_a_pickle_in_a_checkpoint_is_not_run(tmp_path: Path, mark: Path) -> None:
    newest = saved(tmp_path)
    for name in ("alice/optimizer.safetensors", "alice/adapter_model.safetensors"):
        whole = (newest / name).read_bytes()
        (newest / name).write_bytes(pickle.dumps(Bomb(mark)))
        seal(newest, version="0")  # whoever writes the file can write its checksum too
        with pytest.raises(CheckpointError, match="is sound, but not the checkpoint of such a run"):
            load_checkpoint(tiny_run(), tmp_path)
        (newest / name).write_bytes(whole)
    assert not mark.exists()


def test_a_pickle_as_an_adapter_is_not_run(tmp_path: Path, mark: Path) -> None:
    base, alice = tiny_base("alice")
    alice.save(tmp_path / "alice")
    (tmp_path / "alice" / "adapter_model.safetensors").unlink()
    (tmp_path / "alice" / "adapter_model.bin").write_bytes(pickle.dumps(Bomb(mark)))
    with pytest.raises(AdapterMismatch, match=r"it lacks adapter_model\.safetensors"):
        base.load_adapter("alice", tmp_path / "alice")
    assert not mark.exists()


CONFIGS: dict[str, dict[str, Any]] = {
    "a rank that is not that of the weights": {"r": 10**7},
    "a rank in words": {"r": "8"},
    "a rank below 1": {"r": -1},
    "a rank that is a truth value": {"r": True},
    "no number as alpha": {"lora_alpha": float("nan")},
    "layers that are a number": {"target_modules": 5},
    "layers that are numbers": {"target_modules": [5]},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_an_adapter_whose_config_can_not_be_is_refused(tmp_path: Path, name: str) -> None:
    base, alice = tiny_base("alice")
    alice.save(tmp_path / "alice")
    file = tmp_path / "alice" / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | CONFIGS[name]), encoding="utf-8")
    with pytest.raises(AdapterMismatch, match=next(iter(CONFIGS[name]))):
        base.policy("bob", adapter=tmp_path / "alice")


def test_an_adapter_names_no_pattern_that_takes_for_ever(tmp_path: Path) -> None:
    base, alice = tiny_base("alice")
    alice.save(tmp_path / "alice")
    file = tmp_path / "alice" / "adapter_config.json"
    saved_config = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(saved_config | {"target_modules": "(([a-z_.0-9]+)+)+!"}), encoding="utf-8")
    bob = base.policy("bob", adapter=tmp_path / "alice")
    assert base.adapters.state(bob.name).keys() == base.adapters.state("alice").keys()


@pytest.mark.parametrize("spoil", [lambda tensor: tensor * float("nan"), lambda tensor: tensor.to(torch.int8)])
def test_an_adapter_of_no_numbers_is_refused(tmp_path: Path, spoil: Callable[[torch.Tensor], torch.Tensor]) -> None:
    base, alice = tiny_base("alice")
    alice.save(tmp_path / "alice")
    file = tmp_path / "alice" / "adapter_model.safetensors"
    save_file({name: spoil(tensor) for name, tensor in load_file(file).items()}, file)
    with pytest.raises(AdapterMismatch, match="no finite number"):
        base.load_adapter("alice", tmp_path / "alice")


def test_an_adapter_whose_tensors_would_have_to_be_stretched_is_refused(tmp_path: Path) -> None:
    base, alice = tiny_base("alice")
    alice.save(tmp_path / "alice")
    file = tmp_path / "alice" / "adapter_model.safetensors"
    save_file({name: tensor[:1, :1] if "lora_B" in name else tensor for name, tensor in load_file(file).items()}, file)
    before = {name: tensor.clone() for name, tensor in base.adapters.state("alice").items()}
    with pytest.raises(AdapterMismatch, match=r"has the shape \(1, 1\), not"):
        base.load_adapter("alice", tmp_path / "alice")
    assert all(torch.equal(tensor, before[name]) for name, tensor in base.adapters.state("alice").items())


def test_a_pickle_as_a_saved_batch_is_not_run(tmp_path: Path, mark: Path) -> None:
    (tmp_path / "batch").write_bytes(pickle.dumps(Bomb(mark)))
    with pytest.raises(Exception, match="header"):
        load_batch(tmp_path / "batch")
    assert not mark.exists()


@pytest.mark.parametrize(
    "content",
    [
        "!!python/object/apply:pathlib.Path.touch ['{mark}']\n",
        "steps: !!python/object/apply:os.getpid []\n",
        "{{}}: [",
        "- 1\n",
        "&a [*a]\n",
    ],
)
def test_a_config_of_yaml_runs_nothing(tmp_path: Path, mark: Path, content: str) -> None:
    (tmp_path / "run.yaml").write_text(content.format(mark=mark), encoding="utf-8")
    with pytest.raises(ConfigError):
        read_config_file(tmp_path / "run.yaml", default=TINY)
    assert not mark.exists()


@pytest.mark.parametrize("env", ["os:system", "pathlib:Path-v0", "__main__:X-v0"])
def test_a_transcript_does_not_choose_what_is_imported(tmp_path: Path, env: str) -> None:
    header = {
        "env": env,
        "kwargs": {},
        "seed": 0,
        "options": {},
        "players": ["a"],
        "roles": {"a": "b"},
        "details": {},
        "versions": {},
    }
    (tmp_path / "t.jsonl").write_text(json.dumps({"type": "header", **header}) + "\n", encoding="utf-8")
    with pytest.raises(Error, match="names a module, which is not imported for a file"):
        replay(load(tmp_path / "t.jsonl")[0])
    line = {"step": 0, "contest": 0, **header, "events": [], "outcome": None}
    (tmp_path / "contests.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    ((_, transcript),) = read_contests(tmp_path / "contests.jsonl")
    with pytest.raises(Error, match="names a module"):
        replay(transcript)


MANIFESTS: dict[str, Any] = {
    "no JSON": "{",
    "a list": [],
    "no files": {"format": 1},
    "a format in words": {"format": "one", "files": {}},
    "files as a list": {"format": 1, "files": ["state.json"]},
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_that_is_none_is_corrupt(tmp_path: Path, name: str) -> None:
    newest, content = saved(tmp_path), MANIFESTS[name]
    (newest / MANIFEST).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    with pytest.raises(CheckpointError, match="is corrupt: it is no manifest"):
        verify(newest)


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "flipped": lambda file: file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:]),
    "cut": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "emptied": lambda file: file.write_bytes(b""),
    "gone": lambda file: file.unlink(),
}


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("name", [MANIFEST, "state.json", "alice/optimizer.safetensors", "alice/adapter_config.json"])
def test_a_damaged_checkpoint_is_passed_over_for_an_older_one(tmp_path: Path, name: str, how: str) -> None:
    newest = saved(tmp_path, steps=2)
    DAMAGES[how](newest / name)
    told: list[str] = []
    run = tiny_run(0)
    load_checkpoint(run, tmp_path, on_skip=told.append)
    assert run.step == 1
    assert len(told) == 1
    assert name in told[0]
    assert told[0].endswith("Going on from step-1 instead")
    run.step = 2
    save_checkpoint(run, tmp_path)  # the damaged one is written anew
    verify(newest)


def test_a_checkpoint_that_was_passed_over_does_not_take_the_place_of_a_new_one(tmp_path: Path) -> None:
    for step in (1, 3):
        save_checkpoint(tiny_run(step), tmp_path)
    (tmp_path / "checkpoint" / "step-3" / "state.json").unlink()
    run = tiny_run(0)
    load_checkpoint(run, tmp_path, on_skip=lambda _: None)
    run.step = 2
    save_checkpoint(run, tmp_path, keep=1)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-2"]


def test_where_none_is_sound_the_run_is_refused(tmp_path: Path) -> None:
    for path in (saved(tmp_path, steps=2), checkpoints(tmp_path)[0]):
        (path / "state.json").unlink()
    with pytest.raises(
        CheckpointError, match=r"no checkpoint of .* can be gone on from: .*step-2.*; .*step-1.*Begin a new run"
    ):
        load_checkpoint(tiny_run(0), tmp_path)


def test_a_later_format_is_refused_and_not_passed_over(tmp_path: Path) -> None:
    newest = saved(tmp_path, steps=2)
    manifest = json.loads((newest / MANIFEST).read_text(encoding="utf-8"))
    (newest / MANIFEST).write_text(json.dumps(manifest | {"format": 99, "agon-env": "9.0"}), encoding="utf-8")
    with pytest.raises(NewerFormat, match=r"written by agon-env 9\.0 in format 99; .* pip install --upgrade agon-env"):
        load_checkpoint(tiny_run(0), tmp_path)


@pytest.mark.parametrize("content", [b"{", b"[" * 100_000, b'{"steps": ' + b"9" * 5000 + b"}", b"\xff\xfe", b""])
def test_a_config_of_a_run_that_is_no_json_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ConfigError, match=r"config\.json is not JSON"):
        load_config(tmp_path)


STATES: dict[str, dict[str, Any]] = {
    "another step": {"step": 7},
    "a step in words": {"step": "1"},
    "tokens that are none": {"tokens": -1},
    "a size that is none": {"logged": {"metrics.jsonl": "all"}},
    "sizes that are none": {"logged": 5},
    "win rates that are none": {"win_rates": 5},
    "guards that are none": {"guards": "off"},
    "the best in a folder elsewhere": {"best": {"step": "../../elsewhere"}},
    "an evaluation that is none": {"before": "good"},
}


@pytest.mark.parametrize("name", STATES)
def test_a_state_that_is_sealed_but_none_is_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    file = saved(tmp_path) / "state.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | STATES[name]), encoding="utf-8")
    seal(file.parent, version="0")
    with pytest.raises(CheckpointError, match="is sound, but not the checkpoint of such a run"):
        load_checkpoint(tiny_run(0), tmp_path)


def test_a_state_that_is_nested_too_deeply_is_refused_in_a_sentence(tmp_path: Path) -> None:
    file = saved(tmp_path) / "state.json"
    file.write_text("[" * 100_000, encoding="utf-8")
    seal(file.parent, version="0")
    with pytest.raises(CheckpointError, match="is sound, but not the checkpoint of such a run"):
        load_checkpoint(tiny_run(0), tmp_path)


def opened(folder: Path) -> None:
    """Do with the folder of a run what its training does."""
    run_folder = RunFolder(folder, first_step=1, logged={"metrics.jsonl": 3}, log=())
    run_folder.log(1, {"alice/reward": 1.0})
    run_folder.write("config.json", {})
    run_folder.log_session(step=1)
    run_folder.close()


NAMES = ("metrics.jsonl", "contests.jsonl", "sessions.jsonl", "config.json.partial", ".lock", "alice", "checkpoint")


@pytest.mark.parametrize("name", [*NAMES, "checkpoint/step-1"])
def test_a_link_in_the_folder_of_a_run_leads_nowhere(tmp_path: Path, name: str) -> None:
    precious, folder = tmp_path / "precious", tmp_path / "run"
    precious.write_text("precious", encoding="utf-8")
    (folder / name).parent.mkdir(parents=True)
    (folder / name).symlink_to(precious)
    with pytest.raises(FolderFailed, match="is a link or no ordinary file"):
        opened(folder)
    assert precious.read_text(encoding="utf-8") == "precious"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name here")
def test_a_pipe_in_the_folder_of_a_run_does_not_hold_it_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "metrics.jsonl")
    with pytest.raises(FolderFailed, match="is a link or no ordinary file"):
        opened(tmp_path)


def test_the_folder_of_a_run_may_itself_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
    opened(tmp_path / "run")
    assert (tmp_path / "elsewhere" / "metrics.jsonl").is_file()


def test_a_file_is_never_written_through_a_link_beside_it(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious", encoding="utf-8")
    (tmp_path / "table.md.partial").symlink_to(precious)
    write_text(tmp_path / "table.md", "a table")
    assert precious.read_text(encoding="utf-8") == "precious"
    assert (tmp_path / "table.md").read_text(encoding="utf-8") == "a table"


def test_what_the_console_says_does_not_act() -> None:
    out = io.StringIO()
    console = RunConsole(Console(file=out, force_terminal=True, color_system=None, width=200))
    console.say("\x1b[2J\x1b]0;owned\x07 [bold]text[/bold] \u202e")
    assert out.getvalue() == "\\x1b[2J\\x1b]0;owned\\x07 [bold]text[/bold] \\u202e\n"
