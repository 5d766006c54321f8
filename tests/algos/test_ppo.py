"""PPO: advantages of tokens, critics within a run, and what a run keeps of them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import bandit
import numpy as np
import pytest
import torch
from test_gae import turn

import agon_env
from algos.config import TrainConfig
from algos.learning.batching import pad_rows
from algos.learning.optim import OptimConfig
from algos.losses import policy_loss
from algos.ppo import PPO, ActorCritic
from algos.trainer import train
from algos.training.checkpoint import CRITIC, load_checkpoint, newest_checkpoint, save_checkpoint
from algos.training.run import Run
from algos.types import Row


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bandit.save_model(tmp_path_factory.mktemp("model"))


def config(model: Path, algorithm: str = "ppo", *, env: str = "tests/Alone-v0", **changes: Any) -> TrainConfig:
    optim = OptimConfig(learning_rate=1e-3, epochs=2, minibatches=2)
    defaults: dict[str, Any] = {"steps": 3, "problems": 2, "group_size": 4, "max_tokens": 3, "optim": optim}
    return bandit.config(model, algorithm, env=env, **(defaults | changes))


# --- the loss of tokens ---


@pytest.mark.parametrize("loss_type", ["dapo", "grpo"])
def test_the_clipped_loss_of_tokens_equals_numpy(loss_type: str) -> None:
    """PPO's loss (arXiv 1707.06347, Eq. 7) with one advantage per token; the mean over all tokens, or of sequences first."""
    rng = np.random.default_rng(0)
    logp, old, advantages = rng.normal(scale=0.3, size=(3, 4, 6)).astype(np.float32)
    lengths = np.array([6, 1, 4, 3])
    mask = np.arange(6) < lengths[:, None]
    ratio = np.exp(logp - old)
    token = -np.minimum(ratio * advantages, np.clip(ratio, 0.8, 1.3) * advantages) * mask
    expected = token.sum() / mask.sum() if loss_type == "dapo" else (token.sum(1) / lengths).mean()
    tensors = [torch.from_numpy(x) for x in (logp, old, advantages, mask)]
    loss, stats = policy_loss(*tensors, loss_type=loss_type, clip_low=0.2, clip_high=0.3)
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    high = (ratio > 1.3) & (advantages > 0) & mask
    assert stats["clipfrac_high"].item() == pytest.approx(high.sum() / mask.sum())


def test_equal_advantages_of_all_tokens_are_that_of_the_sequence() -> None:
    rows = [Row((1,), (2, 3), (-1.0, -2.0), 0.5), Row((1, 2), (4,), (-0.5,), -1.5)]
    spread = [replace(row, advantage=0.0, advantages=(row.advantage,) * len(row.completion_ids)) for row in rows]
    whole, tokens = pad_rows(rows), pad_rows(spread)
    assert tokens.advantages_BT is not None
    assert tokens.advantages_BT.tolist() == [[0.5, 0.5], [-1.5, 0.0]]
    logp = torch.tensor([[-1.1, -1.5], [-0.2, 0.0]])
    losses = [
        policy_loss(logp, whole.old_logp_BT, advantages, whole.mask_BT)[0]
        for advantages in (whole.advantages_B, tokens.advantages_BT)
    ]
    assert losses[0] == losses[1]
    assert [row.has_signal for row in (*spread, replace(spread[0], advantages=(0.0, 0.0)))] == [True, True, False]


def test_advantages_of_tokens_must_fit_and_all_rows_have_them() -> None:
    row = Row((1,), (2, 3), (-1.0, -2.0), 0.0, advantages=(1.0, 2.0))
    for rows, message in (
        ([row, replace(row, advantages=None)], "only some rows have advantages"),
        ([replace(row, advantages=(1.0,))], "2 completion tokens but 1 advantages"),
        ([replace(row, advantages=(1.0, float("inf")))], "advantages of row 0 are not finite"),
    ):
        with pytest.raises(ValueError, match=message):
            pad_rows(rows)


# --- what is made of values ---


def test_advantages_are_whitened_over_the_tokens_of_each_policy() -> None:
    """Padding can't enter: there is none. A policy's scale is its own."""
    turns = [
        turn([0.5, 0.6], reward=1.0, contests=(0,)),
        turn([0.1], reward=0.0, contests=(1,), tokens=1),
        turn([0.0, 0.0], reward=50.0, contests=(0,), player="bob"),
        turn([0.0, 0.3], reward=None, contests=(1,), player="bob"),
    ]
    raw, white = PPO(whiten=False, lam=0.8).advantages(turns), PPO(lam=0.8).advantages(turns)
    assert raw.tokens is not None
    assert white.tokens is not None
    own = np.concatenate(raw.tokens[:2])
    np.testing.assert_allclose(np.concatenate(white.tokens[:2]), (own - own.mean()) / own.std())
    assert white.kept.tolist() == raw.kept.tolist() == [True, True, True, False]
    assert white.tokens[3] == ()
    assert white.returns == raw.returns  # the critic learns rewards as they are
    assert raw.values.tolist() == pytest.approx([np.mean(raw.tokens[0]), raw.tokens[1][0], np.mean(raw.tokens[2]), 0.0])
    assert (raw.groups, raw.dropped) == (2, 0)


def test_what_is_as_expected_everywhere_teaches_nothing() -> None:
    white = PPO().advantages([turn([0.1 + 0.2, 0.3], reward=1.3), turn([0.3, 0.3], reward=1.3, contests=(1,))])
    assert white.tokens == [(0.0, 0.0), (0.0, 0.0)]


@pytest.mark.parametrize("name", ["gamma", "lam"])
def test_impossible_discounts_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must be in"):
        ActorCritic(**{name: 1.5})


# --- runs ---


def test_every_policy_of_a_pair_has_a_critic_that_learns(model: Path) -> None:
    with bandit.registered():
        run = Run.of(config(model, "competitive_ppo", env="tests/Bandit-v0", group_size=1, problems=24))
        stats, played = run.advance()
    assert set(run.critics) == set(run.policies) == {"alice", "bob"}
    for name, critic in run.critics.items():
        assert {f"{name}/{key}" for key in ("value_loss", "value_clipfrac", "explained_variance")} <= stats.keys()
        assert stats[f"{name}/rows"] == sum(move.policy == name for move in played.turns)  # nobody is compared, none dropped
        assert critic.head_D.any()
    assert run.critics["alice"].head_D is not run.critics["bob"].head_D


class Short(bandit.Long):
    """The first player would pull more often than it may."""

    max_turns = 4

    def next_role(self) -> str | None:
        return "first" if self.turn % 3 == 0 else "second"


def test_turns_of_a_contest_that_max_turns_cut_are_continued_by_a_value(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agon_env.register("tests/Short-v0", Short, force=True)
    seen: list[Any] = []
    advantages = PPO.advantages
    monkeypatch.setattr(PPO, "advantages", lambda self, turns: seen.append(turns) or advantages(self, turns))
    try:
        run = Run.of(config(model, env="tests/Short-v0"))
        run.advance()
        stats, played = run.advance()
    finally:
        del agon_env.registry["tests/Short-v0"]
    assert {contest.outcome.reason for contest in played.contests} == {"max_turns"}
    for move in seen[1]:  # each goes on, in the contest or behind its end
        assert len(move.values) == len(move.completion.token_ids) + 1
        assert move.unfinished == set(move.contests)
    judged = advantages(PPO(whiten=False), seen[1])
    for move, returns in zip(seen[1], judged.returns, strict=True):
        if move.later == 0:
            assert returns[-1] == pytest.approx(move.reward + move.values[-1])
    assert all(move.values[-1] != 0 for move in seen[1])  # the critic has learned
    assert stats["alice/rows"] == len(played.turns)


def test_t57_a_resumed_run_equals_an_uninterrupted_one(model: Path, tmp_path: Path) -> None:
    with bandit.registered():
        straight = Run.of(config(model, env="tests/Long-v0"))
        straight.advance()
        save_checkpoint(straight, tmp_path)
        resumed = Run.of(config(model, env="tests/Long-v0"))
        load_checkpoint(resumed, tmp_path)
        stats = [
            {k: v for k, v in run.advance()[0].items() if not k.startswith(("time/", "memory/"))} for run in (straight, resumed)
        ]
    assert stats[0] == stats[1]
    for one, other in (
        (straight.policies["alice"].parameters(), resumed.policies["alice"].parameters()),
        (straight.critics["alice"].parameters(), resumed.critics["alice"].parameters()),
    ):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_run_leaves_the_policy_alone_and_keeps_the_critic_in_its_checkpoint(model: Path, tmp_path: Path) -> None:
    with bandit.registered():
        run = train(config(model, steps=1, output_dir=str(tmp_path)))
    assert {path.name for path in (run / "alice").iterdir()} >= {"adapter_config.json", "adapter_model.safetensors"}
    assert not list(run.glob("alice*/**/head*"))
    checkpoint = newest_checkpoint(run)
    assert checkpoint is not None
    assert (checkpoint / "alice" / CRITIC / "head.safetensors").is_file()
    record = json.loads((run / "metrics.jsonl").read_text(encoding="utf-8"))
    assert "alice/value_loss" in record
