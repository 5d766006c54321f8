"""A run is gone on with and loaded in Python by its folder, which a text may name."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import bandit
import pytest
from rich.console import Console

import agents
from agents.shared_base import SharedBase
from agon_env.errors import NameNotFound
from algos.config import TrainConfig, load_config
from algos.playing.policies import make_policy
from algos.trainer import train
from algos.training.console import RunConsole
from algos.training.trained import adapter_folders, load_trained


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrainConfig]:
    folder = tmp_path_factory.mktemp("runs")
    model = bandit.save_model(folder / "model")
    settings = {"problems": 2, "group_size": 2, "max_tokens": 3, "temperature": 0.7, "checkpoint_every": 1, "name": "run"}
    with bandit.registered():
        yield bandit.config(model, "competitive_grpo", env="tests/Bandit-v0", steps=1, output_dir=str(folder), **settings)


@pytest.fixture(scope="module")
def run(config: TrainConfig) -> Path:
    console = RunConsole(Console(file=io.StringIO()))
    first = train(config, console=console)
    again = train(replace(config, steps=2), resume=str(first), console=console)
    assert again == first
    return again


def test_a_text_names_the_run_to_go_on_with(config: TrainConfig, run: Path) -> None:
    assert len((run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()) == 2
    assert load_config(str(run)) == load_config(run) == replace(config, steps=2)


def test_a_text_names_the_run_whose_policies_play(run: Path) -> None:
    trained = load_trained(str(run))
    assert trained.run == run
    assert adapter_folders(str(run)) == adapter_folders(run)
    alice, bob = trained.policies.values()
    assert (alice.name, bob.name) == ("alice", "bob")
    assert {(policy.params.max_tokens, policy.params.temperature) for policy in (alice, bob)} == {(3, 0.7)}


def test_the_registry_of_players_says_how_those_of_a_run_are_loaded(run: Path) -> None:
    with pytest.raises(
        NameNotFound, match=r"no player 'run'\. The policies of a run are loaded by algos\.training\.trained\.load_trained"
    ):
        agents.make(f"run:{run}")


def test_a_policy_made_by_hand_is_scaled_as_one_of_a_run() -> None:
    base = SharedBase.load("embedded")
    base.policy("by_hand")
    make_policy(base, "of_a_run", TrainConfig())
    one, other = (base.adapters.spec(name) for name in ("by_hand", "of_a_run"))
    assert (one.rank, one.alpha) == (other.rank, other.alpha) == (32, 32)
