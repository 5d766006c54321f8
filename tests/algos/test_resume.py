"""A run that goes on from a checkpoint makes the steps that it would have made, to the last bit, whoever plays and learns."""

from pathlib import Path
from typing import Any

import bandit
import pytest
import torch

from algos.learning.optim import OptimConfig
from algos.length_penalty import LengthPenalty
from algos.losses import LossConfig
from algos.training.checkpoint import load_checkpoint, save_checkpoint
from algos.training.run import Run
from algos.types import Stats

OPTIM = OptimConfig(learning_rate=1e-2, epochs=2, minibatches=3, schedule="cosine", warmup_steps=3)
POOL = {"snapshot_every": 1, "pool_size": 2}
LOSS = LossConfig(kl_coef=0.1, sampler_correction="token", loss_type="gspo", dual_clip=3.0, mask_truncated=True)

RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("grpo", {}),
    "every option of the loss": ("competitive_grpo", {"loss": LOSS, "length_penalty": LengthPenalty("overlong")}),
    "baselines of roles": ("reinforce", {"env": "tests/Long-v0", "discount": 0.9}),
    "critics": ("competitive_ppo", {"env": "tests/Long-v0", "lam": 0.9}),
    "a pool by win rates": ("competitive_grpo", {**POOL, "opponent": "pool:win_rate", "opponents_per_step": 2}),
    "a player with luck of its own": ("competitive_grpo", {"opponent": "agent:random", "opponent_share": 0.5}),
    "a league of equals": ("league", {**POOL, "league_size": 3, "matchmaking": "even", "opponent": "pool:uniform"}),
    "two models": ("competitive_grpo", {**POOL, "rival_models": True, "opponent": "pool:recent"}),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return bandit.save_model(tmp_path_factory.mktemp("one")), bandit.save_model(tmp_path_factory.mktemp("other"))


def steps(run: Run, number: int) -> list[Stats]:
    stats = [run.advance()[0] for _ in range(number)]
    return [{key: value for key, value in each.items() if not key.startswith(("time/", "memory/"))} for each in stats]


def weights(run: Run) -> list[torch.Tensor]:
    return [parameter for learned in (*run.policies.values(), *run.critics.values()) for parameter in learned.parameters()]


@pytest.mark.parametrize("name", RUNS)
def test_a_resumed_run_equals_an_uninterrupted_one(name: str, models: tuple[Path, Path], tmp_path: Path) -> None:
    algorithm, changes = RUNS[name]
    small = {"env": "tests/Bandit-v0", "max_tokens": 6, "problems": 2, "group_size": 4, "lora_rank": 2, "optim": OPTIM}
    changes = small | changes
    if "rival_models" in changes:
        changes["rival_models"] = (str(models[1]),)
    with bandit.registered():
        config = bandit.config(models[0], algorithm, steps=3, sample_budget=10**6, **changes)
        whole, stopped, resumed = Run.of(config), Run.of(config), Run.of(config)
        expected = steps(whole, 3)[2:]
        steps(stopped, 2)
        save_checkpoint(stopped, tmp_path)
        load_checkpoint(resumed, tmp_path)
        assert steps(resumed, 1) == expected
    assert (resumed.step, resumed.tokens) == (whole.step, whole.tokens)
    assert resumed.rates.state() == whole.rates.state()
    assert all(torch.equal(one, other) for one, other in zip(weights(resumed), weights(whole), strict=True))
    # Who stands in for a rival has neither results of its own nor statistics.
    assert set(whole.rates.state()) <= set(whole.policies)
    assert not any(key.startswith(("random/", "agent/")) or "@" in key for step in expected for key in step)
