"""Settings that would have no effect are refused: those of other algorithms, and of opponents where there are none."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest

from algos import cli
from algos.algorithm import Algorithm
from algos.algorithm_registry import ALGORITHMS, find_algorithm
from algos.commands import USAGE
from algos.config import PRESETS, TINY, TrainConfig
from algos.errors import ConfigError
from algos.learning.values import CriticConfig
from algos.matrix.matrix import MatrixConfig, judge
from algos.matrix.rows import CELLS, ROWS
from algos.training.config_checks import OF_ALGORITHMS, idle_settings
from algos.training.run import Run


def test_the_settings_of_algorithms_are_all_that_one_of_them_adds() -> None:
    """A field that an algorithm brings to `TrainConfig` can't be left out of the check."""
    built_in = [found for found in ALGORITHMS.values() if found.__module__.startswith("algos.")]
    own = {field.name for found in built_in for field in dataclasses.fields(found)}
    of_config = {field.name for field in dataclasses.fields(TrainConfig)}
    common = {field.name for field in dataclasses.fields(Algorithm)}
    assert set(OF_ALGORITHMS) == (own & of_config) - common - {"swap_roles"} | {"critic"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"discount": 0.3}, r"discount=0\.3 has no effect with competitive_grpo, only with reinforce: leave it at 1\.0"),
        ({"lam": 0.5}, r"lam=0\.5 .* only with competitive_ppo, ppo: leave it at 1\.0"),
        ({"algorithm": "ppo", "league_size": 9}, r"league_size=9 has no effect with ppo, only with league: leave it at 4"),
        (
            {"algorithm": "grpo", "critic": CriticConfig(learning_rate=0.5)},
            r"critic\.learning_rate=0\.5 has no effect with grpo",
        ),
        ({"algorithm": "rloo", "normalize": "mean"}, "normalize='mean' has no effect with rloo: leave it at 'std'"),
        ({"opponent_share": 0.3}, r'opponent_share=0\.3 has no effect with opponent="rival", only with an opponent such as'),
        ({"pool_size": 3}, 'pool_size=3 has no effect with opponent="rival", only with a pool such as "pool:uniform"'),
        ({"opponent": "base", "snapshot_every": 3}, 'snapshot_every=3 has no effect with opponent="base"'),
        ({"opponent": "base", "opponents_per_step": 3}, 'opponents_per_step=3 has no effect with opponent="base"'),
    ],
)
def test_what_would_do_nothing_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(TINY, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm": "reinforce", "discount": 0.3, "baseline_decay": 0.5},
        {"algorithm": "competitive_ppo", "lam": 0.5, "gamma": 0.9, "whiten": False, "critic": CriticConfig(learning_rate=0.5)},
        {"algorithm": "league", "league_size": 9, "matchmaking": "even"},
        {"algorithm": "algos.league:League", "league_size": 3},
        {"opponent": "base", "opponent_share": 0.3},
        {"opponent": "pool:recent", "opponent_share": 0.3, "opponents_per_step": 2, "snapshot_every": 3, "pool_size": 3},
    ],
)
def test_what_is_read_is_taken(changes: dict[str, Any]) -> None:
    assert all(getattr(replace(TINY, **changes), name) == value for name, value in changes.items())


def test_the_command_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["train", "--lam", "0.5"]) == USAGE
    assert "lam=0.5 has no effect with competitive_grpo" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_a_preset_is_a_start_for_every_algorithm(name: str, algorithm: str) -> None:
    assert replace(PRESETS[name], algorithm=algorithm).algorithm == algorithm


def test_what_the_rows_of_the_table_have_in_common_may_be_idle_in_some() -> None:
    """PPO's λ is for its own row; the price of the margin is for the rows that pay it."""
    common = replace(TINY, algorithm="ppo", lam=0.5, env_options=("difficulty=2", "bonus=2.0"), problems=2, group_size=2)
    config = MatrixConfig(train=common, rows=("ppo", "grpo", "agon", "cooperative", "agon_one_policy"), problems=2)
    assert [config.run_config(name, 0).lam for name in config.rows] == [0.5, 1.0, 1.0, 1.0, 1.0]
    rules = [repr(Run.of(replace(config.run_config(name, 0), threads=1)).contest.reward_rule) for name in config.rows]
    assert rules[:2] == ["OutcomeReward()"] * 2
    assert rules[2:] == ["CompetitiveReward(bonus=2.0)", "CooperativeReward()", "CompetitiveReward(bonus=2.0)"]
    assert [len(judge(config, ROWS[name], run=None, seed=0)["scores"]) for name in ("zero_shot", "moa")] == [2, 2]


@pytest.mark.parametrize("name", CELLS)
def test_every_row_leaves_out_what_its_algorithm_does_not_read(name: str) -> None:
    config = MatrixConfig(train=replace(TINY, normalize="mean", group_by="problem", algorithm="league", league_size=3))
    if (training := ROWS[name].training) is not None:
        run = config.run_config(training, 0)
        assert run.normalize == ("std" if "normalize" in idle_settings(TrainConfig, find_algorithm(run.algorithm)) else "mean")
        assert run.league_size == 4


@pytest.mark.parametrize("rule", ["outcome", "cooperative"])
def test_a_bonus_that_the_rule_does_not_have_is_refused(rule: str) -> None:
    with pytest.raises(ConfigError, match=rf"bonus=2\.0 has no effect with reward='{rule}'"):
        Run.of(replace(TINY, env_options=(f"reward={rule}", "bonus=2.0"), threads=1))
