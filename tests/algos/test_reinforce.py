"""Baselines by role, returns spread over turns, leave-one-out baselines, and one policy in both seats."""

from dataclasses import replace
from pathlib import Path

import bandit
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.agent import as_agent
from agents.sampling import SamplingParams
from algos.config import TINY, TrainConfig
from algos.errors import ConfigError
from algos.reinforce import Reinforce
from algos.rloo import RLOO
from algos.rollouts import Start, rollout
from algos.self_refine import SelfRefine
from algos.trainer import Run
from algos.training.checkpoint import load_checkpoint, save_checkpoint
from algos.types import Turn


def turn(role: str, reward: float | None, *, later: float = 0, problem: int = 0) -> Turn:
    return Turn("alice", "alice", role, problem, (problem,), (1,), None, "", reward, {}, reward, later)


# --- baselines by role ---


def test_each_role_has_its_own_baseline_and_the_first_step_takes_its_mean() -> None:
    algorithm = Reinforce(baseline_decay=0.75)
    first = algorithm.advantages([turn("a", 1.0), turn("a", 0.0), turn("b", 3.0)])
    np.testing.assert_allclose(first.values, [0.5, -0.5, 0.0])
    assert first.kept.all()
    assert algorithm.state() == {"a": 0.5, "b": 3.0}
    second = algorithm.advantages([turn("a", 1.0), turn("b", 1.0), turn("b", 1.0)])
    np.testing.assert_allclose(second.values, [0.5, -2.0, -2.0])  # judged by the past, not by the turns themselves
    assert algorithm.state() == pytest.approx({"a": 0.625, "b": 2.5})


def test_a_return_is_worth_less_the_more_turns_follow() -> None:
    algorithm = Reinforce(discount=0.5)
    algorithm.restore({"a": 0.0})
    np.testing.assert_allclose(algorithm.advantages([turn("a", 1.0, later=k) for k in (2, 1, 0)]).values, [0.25, 0.5, 1])


def test_a_missing_reward_is_not_learned_from_and_moves_no_baseline() -> None:
    algorithm = Reinforce()
    result = algorithm.advantages([turn("a", None), turn("b", 1.0), turn("b", None)])
    np.testing.assert_array_equal(result.kept, [False, True, False])
    assert (result.groups, result.dropped) == (2, 1)
    assert algorithm.state() == {"b": 1.0}


def test_the_baseline_approaches_the_mean_of_its_role() -> None:
    algorithm, rng = Reinforce(), np.random.default_rng(0)
    for _ in range(200):
        algorithm.advantages([turn("a", float(rng.random() < 0.7)) for _ in range(32)])
    assert algorithm.baselines["a"] == pytest.approx(0.7, abs=0.05)


def test_baselines_belong_to_one_run_and_go_into_its_checkpoint(tmp_path: Path) -> None:
    config = bandit.config(bandit.save_model(tmp_path / "model"), "reinforce", env="tests/Long-v0", problems=2, group_size=1)
    with bandit.registered():
        run, other = Run.of(config), Run.of(config)
        run.advance()
        kept = run.algorithm.state()
        assert set(kept) == {"first", "second"}
        assert other.algorithm.state() == {}
        save_checkpoint(run, tmp_path / "run")
        load_checkpoint(other, tmp_path / "run")
        assert other.algorithm.state() == kept
        assert [run.advance()[0][f"alice/{name}"] for name in ("reward", "grad_norm")] == [
            other.advance()[0][f"alice/{name}"] for name in ("reward", "grad_norm")
        ]


def test_it_needs_no_groups_and_says_what_it_can_not_be() -> None:
    assert TrainConfig(algorithm="reinforce", group_size=1).make_algorithm().baseline_decay == 0.9
    assert TrainConfig(algorithm="reinforce", discount=0.9, baseline_decay=0.5).make_algorithm() == Reinforce(
        discount=0.9, baseline_decay=0.5
    )
    with pytest.raises(ConfigError, match="a group needs two turns"):
        TrainConfig(algorithm="rloo", group_size=1)
    for bad in ({"discount": 1.1}, {"baseline_decay": 1.0}):
        with pytest.raises(ValueError, match="discount must be in"):
            Reinforce(**bad)


# --- later turns, as the rollout counts them ---


def moves(branches: tuple[int, ...] = ()) -> list[Turn]:
    played = rollout(
        bandit.Long,
        {"alice": as_agent(lambda _: "w1"), "bob": as_agent(lambda _: "w2")},
        [Start(seed=seed, options={}) for seed in range(6)],
        params=SamplingParams(),
        seed=0,
        branches=branches,
    )
    return played.turns


@pytest.mark.parametrize("branches", [(), (3, 1), (2, 2)])
def test_later_turns_are_those_of_the_same_player_in_the_same_contest(branches: tuple[int, ...]) -> None:
    turns = moves(branches)
    for t in turns:
        before = len(t.parent) - 1  # moves of the contest that came earlier: first, second, second, first, …
        own_before = -(-before // 3) if t.player == "alice" else before - -(-before // 3)
        total = contest_length(turns, t)
        own_total = total // 3 if t.player == "alice" else 2 * total // 3
        assert t.later == own_total - own_before - 1
    assert {t.later for t in turns} >= {0, 1, 2}


def contest_length(turns: list[Turn], of: Turn) -> int:
    """Every contest on a problem has the same length: that of its longest path."""
    return max(len(t.parent) for t in turns if t.problem == of.problem)


# --- leave one out ---


@given(rewards=st.lists(st.floats(-5, 5), min_size=2, max_size=8))
def test_leave_one_out_compares_with_the_others(rewards: list[float]) -> None:
    result = RLOO().advantages([turn("a", reward) for reward in rewards])
    if max(rewards) - min(rewards) <= 1e-6:
        assert not result.kept.any()
        return
    others = [np.mean([*rewards[:i], *rewards[i + 1 :]]) for i in range(len(rewards))]
    np.testing.assert_allclose(result.values, np.subtract(rewards, others), atol=1e-9)


# --- the order of turns, for every estimator ---


@pytest.mark.parametrize("algorithm", [RLOO, SelfRefine, Reinforce])
@given(data=st.data())
def test_the_order_of_turns_changes_nothing(algorithm, data: st.DataObject) -> None:
    rewards = st.none() | st.floats(-3, 3)
    turns = data.draw(
        st.lists(
            st.builds(turn, st.sampled_from(["a", "b"]), rewards, later=st.integers(0, 3), problem=st.integers(0, 2)),
            max_size=12,
        )
    )
    order = data.draw(st.permutations(range(len(turns))))
    straight, shuffled = algorithm(), algorithm()
    for made in (straight, shuffled):
        made.restore({"a": 0.25})
    values = straight.advantages(turns)
    again = shuffled.advantages([turns[index] for index in order])
    np.testing.assert_array_equal(again.values, values.values[list(order)])
    np.testing.assert_array_equal(again.kept, values.kept[list(order)])
    assert straight.state() == shuffled.state()


# --- one policy in both seats ---


def test_self_refine_seats_one_policy_and_pays_each_turn_for_itself() -> None:
    run = Run.of(replace(TINY, algorithm="self_refine", problems=1, group_size=2, eval_problems=0, max_tokens=8))
    assert list(run.policies) == ["alice"]
    stats, played = run.advance()
    assert {t.role for t in played.turns} == {"drafter", "challenger"}
    assert all(t.policy == "alice" and set(t.components) == {"outcome"} for t in played.turns)
    read = {role: {t.prompt_ids for t in played.turns if t.role == role} for role in ("drafter", "challenger")}
    assert len(read["drafter"]) == 1
    assert not read["drafter"] & read["challenger"]  # which holds the draft
    assert stats["alice/rows"] <= 4


def test_self_refine_needs_a_reader() -> None:
    with pytest.raises(ConfigError, match="Take a duel, or train with grpo"):
        Run.of(replace(TINY, algorithm="self_refine", env="ArithmeticSolo-v0", eval_problems=0))
