"""A whole run on two ranks: what one process would have made, in one folder."""

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from algos.config import TINY, TrainConfig
from algos.errors import ConfigError
from algos.guards import Guards
from algos.learning.optim import OptimConfig
from algos.parallel.launch import launch
from algos.parallel.ranks import Ranks
from algos.trainer import train

SMALL = dataclasses.replace(
    TINY,
    steps=3,
    problems=3,
    group_size=4,
    max_tokens=24,
    eval_problems=6,
    lora_rank=2,
    optim=OptimConfig(learning_rate=1e-3, minibatches=2, epochs=2),
)


def metrics(run: Path) -> list[dict[str, Any]]:
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    return [{k: v for k, v in json.loads(line).items() if not k.startswith(("time/", "memory/"))} for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["competitive_grpo", "competitive_ppo"])
def test_two_ranks_make_the_run_of_one_process(algorithm: str, tmp_path: Path) -> None:
    config = dataclasses.replace(SMALL, algorithm=algorithm, output_dir=str(tmp_path))
    alone = train(config)
    together = train(dataclasses.replace(config, ranks=2, name="ranks"))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([alone.name, together.name])
    for mine, other in zip(metrics(alone), metrics(together), strict=True):
        assert other == pytest.approx(mine, rel=1e-3, abs=1e-4)
    for name in ("alice", "bob"):
        one, two = (load_file(run / name / "adapter_model.safetensors") for run in (alone, together))
        gaps = torch.cat([(two[key] - tensor).abs().flatten() for key, tensor in one.items()])
        # Sums come in another order, and Adam makes that large where a gradient is all but 0.
        assert gaps.quantile(0.99) < 1e-5
        assert gaps.max() < SMALL.optim.learning_rate


def train_with_fault(config: TrainConfig, rank: int) -> Path:
    """Train on one of the ranks, of which one fails in the second step, after its updates."""
    observe = Guards.observe

    def fail(guards: Guards, stats: dict[str, float]) -> None:
        if Ranks.current().number == rank and guards.step == 1:
            raise LookupError(f"rank {rank} failed")
        observe(guards, stats)

    Guards.observe = fail  # type: ignore[method-assign]
    return train(config)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_fails_in_the_middle_ends_the_run_with_its_error(rank: int, tmp_path: Path) -> None:
    config = dataclasses.replace(SMALL, ranks=2, output_dir=str(tmp_path), name="run", eval_problems=0)
    began = time.monotonic()
    with pytest.raises(LookupError, match=f"rank {rank} failed"):
        launch(train_with_fault, config, rank, ranks=2)
    assert time.monotonic() - began < 120
    assert len(metrics(tmp_path / "run")) in (1, 2)


def test_ranks_that_a_launcher_did_not_start_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "0")
    with pytest.raises(ConfigError, match="the launcher has started 1"):
        train(dataclasses.replace(SMALL, ranks=2, output_dir=str(tmp_path)))
