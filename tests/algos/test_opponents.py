"""Who takes the place of a live rival: pools of snapshots, the base, saved adapters, any agent."""

import dataclasses
import io
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from learner_fixtures import tiny_base
from rich.console import Console
from safetensors.torch import load_file

import agents
import agon_env
from agents.agent import Agent
from agon_env.types import Action
from algos.config import TINY, TrainConfig
from algos.errors import ConfigError
from algos.playing.opponents import FixedOpponents, SnapshotPool
from algos.playing.play import play
from algos.playing.win_rates import WinRates
from algos.trainer import train
from algos.training.console import RunConsole
from algos.training.run import Run

FAST = dataclasses.replace(
    TINY,
    env_options=("difficulty=2",),
    steps=4,
    problems=4,
    group_size=4,
    max_tokens=32,
    eval_problems=0,
    lora_rank=4,
    checkpoint_every=3,
)


def quiet() -> RunConsole:
    return RunConsole(Console(file=io.StringIO(), width=100))


def shift(parameters: list[torch.nn.Parameter], by: float) -> None:
    with torch.no_grad():
        for parameter in parameters:
            parameter.add_(by)


# --- the pool -------------------------------------------------------------------------------------------


def tiny_pool(weighting: str = "uniform", *, size: int = 3, every: int = 1):
    base, alice, bob = tiny_base("alice", "bob")
    slots = {name: base.policy(f"{name}-past", rank=2) for name in ("alice", "bob")}
    policies = {"alice": alice, "bob": bob}
    return SnapshotPool(policies, slots, weighting=weighting, size=size, every=every), policies


def test_a_snapshot_plays_as_its_policy_did_when_it_was_taken() -> None:
    pool, policies = tiny_pool()
    before = [parameter.detach().clone() for parameter in policies["bob"].parameters()]
    pool.begin(0, WinRates())
    shift(policies["bob"].parameters(), 1.0)
    pool.begin(1, WinRates())
    slot = pool.seat("bob", "bob@0", seed=0)
    assert all(torch.equal(a, b) for a, b in zip(slot.parameters(), before, strict=True))
    pool.seat("bob", "bob@1", seed=0)
    assert all(torch.equal(a, b) for a, b in zip(slot.parameters(), policies["bob"].parameters(), strict=True))
    shift(policies["bob"].parameters(), 1.0)  # a snapshot is no view of its policy
    pool.seat("bob", "bob@1", seed=0)
    assert not any(torch.equal(a, b) for a, b in zip(slot.parameters(), policies["bob"].parameters(), strict=True))


def test_the_pool_is_bounded_and_the_oldest_goes_first() -> None:
    pool, _ = tiny_pool(size=2, every=3)
    for step in range(10):
        pool.begin(step, WinRates())
    assert pool.names("alice") == ("alice@6", "alice@9")


def test_by_win_rate_the_most_surely_beaten_goes_first_and_never_the_newest() -> None:
    pool, _ = tiny_pool("hard", size=3)
    rates = WinRates()
    for step in range(3):
        pool.begin(step, rates)
    for snapshot, share in [("bob@0", 0.2), ("bob@1", 0.9), ("bob@2", 0.5)]:
        rates.record("alice", snapshot, [share] * 50)
    pool.begin(3, rates)
    assert pool.names("bob") == ("bob@0", "bob@2", "bob@3")
    assert rates.rate("alice", "bob@1") == 0.5  # forgotten with it


def test_the_newest_stays_though_all_others_are_harder_to_beat() -> None:
    pool, _ = tiny_pool("hard", size=2)
    rates = WinRates()
    for step in range(2):
        pool.begin(step, rates)
        rates.record("alice", f"bob@{step}", [0.1 * (step + 1)] * 50)
    pool.begin(2, rates)  # whom nobody has met yet
    assert pool.names("bob") == ("bob@0", "bob@2")


@pytest.mark.parametrize("weighting", ["uniform", "recent", "hard"])
def test_who_is_drawn(weighting: str) -> None:
    pool, _ = tiny_pool(weighting)
    rates = WinRates()
    for step in range(3):
        pool.begin(step, rates)
    rates.record("alice", "bob@0", [0.0] * 99)
    rates.record("alice", "bob@2", [1.0] * 99)
    rng = np.random.default_rng(0)
    drawn = Counter(pool.draw("bob", learner="alice", rates=rates, rng=rng) for _ in range(600))
    expected = {"uniform": [200, 200, 200], "recent": [100, 200, 300], "hard": [480, 120, 0]}[weighting]
    assert [drawn[f"bob@{step}"] for step in range(3)] == pytest.approx(expected, abs=50)


def test_the_state_holds_every_snapshot() -> None:
    pool, policies = tiny_pool()
    for step in (0, 1, 2, 10):
        shift(policies["bob"].parameters(), 0.1)
        pool.begin(step, WinRates())
    again, _ = tiny_pool()
    again.restore(pool.state())
    assert again.names("bob") == pool.names("bob") == ("bob@1", "bob@2", "bob@10")
    for name in pool.names("bob"):
        one, other = ([p.clone() for p in each.seat("bob", name, seed=0).parameters()] for each in (pool, again))
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


# --- in a run -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opponent", ["pool:win_rate", "base", "agent:oracle"])
def test_whoever_stands_in_is_never_trained(opponent: str) -> None:
    pool = {"snapshot_every": 1} if opponent.startswith("pool") else {}
    run = Run.of(dataclasses.replace(FAST, opponent=opponent, **pool))
    for _ in range(2):
        stats, played = run.advance()
    learning = {"alice", "bob"}
    assert {turn.policy for turn in played.turns} - learning == {
        "pool:win_rate": {"alice-past", "bob-past"},
        "base": {"base"},
        "agent:oracle": {None},
    }[opponent]
    assert all(len({run.policies.get(turn.policy or "") is not None for turn in part}) == 2 for part in by_contest(played))
    learner = run.learners["alice"]
    assert set(learner._optimizers) == learning
    for base in run.bases:
        for name in base.adapters.names:
            assert all(p.grad is None for p in base.parameters(name))
            assert all(p.requires_grad == (name in learning) for p in base.parameters(name))
    assert stats["alice/rows"] + stats["bob/rows"] <= 16  # one seat of each contest
    said = [turn.completion.token_ids for turn in played.turns if turn.completion is not None]
    assert stats["progress/tokens"] == sum(map(len, said))  # what a budget counts: opponents generate too
    assert {"alice/wins_opponent", "bob/wins_opponent"} <= set(stats)
    assert "alice/wins" not in stats
    if opponent == "agent:oracle":
        assert all(turn.score == 1 for turn in played.turns if turn.policy is None)


def by_contest(played):
    contests = {index: [] for index in range(len(played.contests))}
    for turn, indices in zip(played.turns, played.beneath, strict=True):
        for index in indices:
            contests[index].append(turn)
    return contests.values()


def test_a_share_of_the_problems_is_played_live() -> None:
    run = Run.of(dataclasses.replace(FAST, opponent="base", opponent_share=0.5))
    played, stats = play(run)
    who = Counter(frozenset(turn.policy for turn in turns) for turns in by_contest(played))
    assert who == {frozenset(("alice", "bob")): 8, frozenset(("alice", "base")): 4, frozenset(("bob", "base")): 4}
    assert {"alice/wins", "alice/wins_opponent"} <= set(stats)
    problems = {contest.problem.question for contest in played.contests}
    assert len(problems) == 4


def test_without_opponents_each_problem_is_played_as_it_would_be_beside_others() -> None:
    """The luck of a contest follows from its place in the run, not from what is played with it."""
    live, _ = play(Run.of(FAST))
    mixed, _ = play(Run.of(dataclasses.replace(FAST, opponent="base", opponent_share=0.5)))
    texts = [[turn.text for turn in played.turns if turn.problem in (0, 1)] for played in (live, mixed)]
    assert texts[0] == texts[1]


def test_self_play_meets_its_own_past_in_either_seat() -> None:
    run = Run.of(dataclasses.replace(FAST, algorithm="grpo", opponent="pool:recent"))
    played, _ = play(run)
    assert {(turn.role, turn.policy) for turn in played.turns} == {
        (role, policy) for role in ("drafter", "challenger") for policy in ("alice", "alice-past")
    }


def test_whoever_stands_in_for_a_policy_has_all_of_its_seats(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one second adapter for each policy: two snapshots of it can't play in one contest."""

    class Trio(agon_env.Contest):
        roles = ("first", "second", "third")

        def setup(self, rng, options):
            self.said = {}

        def prompt(self, role):
            return "Say something."

        def apply(self, role, text):
            self.said[role] = text

        def score(self):
            return {role: float(len(text) % 2) for role, text in self.said.items()}

    agon_env.register("tests/Trio-v0", Trio, force=True)
    try:
        config = dataclasses.replace(FAST, env="tests/Trio-v0", env_options=(), algorithm="grpo", max_tokens=4)
        run = Run.of(dataclasses.replace(config, opponent="pool:uniform", snapshot_every=1))
        drawn: list[str] = []
        draw = run.opponents.draw
        monkeypatch.setattr(run.opponents, "draw", lambda *args, **kwargs: drawn.append(draw(*args, **kwargs)) or drawn[-1])
        for step in range(3):
            _, played = run.advance()
            assert {turn.policy for turn in played.turns} == {"alice", "alice-past"}
            assert all(Counter(turn.policy for turn in turns)["alice-past"] == 2 for turns in by_contest(played))
            matches = {turn.role for turn in played.turns if turn.policy == "alice"}
            assert len(drawn) == len(matches), step
            drawn.clear()
    finally:
        del agon_env.registry["tests/Trio-v0"]


def test_t57_a_run_with_a_pool_resumes_bit_for_bit(tmp_path: Path) -> None:
    config = dataclasses.replace(
        FAST, opponent="pool:win_rate", opponent_share=0.5, pool_size=2, opponents_per_step=2, snapshot_every=1, steps=4
    )
    straight = train(dataclasses.replace(config, output_dir=str(tmp_path / "a")), console=quiet())
    stopped = dataclasses.replace(config, output_dir=str(tmp_path / "b"), steps=3)
    folder = train(stopped, console=quiet())
    train(dataclasses.replace(stopped, steps=4), resume=folder, console=quiet())
    assert metrics(folder) == metrics(straight)
    for name in ("alice", "bob"):
        one, other = (load_file(run / name / "adapter_model.safetensors") for run in (straight, folder))
        assert all(torch.equal(one[key], other[key]) for key in one)
    kept = {key.partition(":")[0] for key in load_file(folder / "checkpoint" / "step-4" / "snapshots.safetensors")}
    assert {"alice@3", "bob@3"} < kept
    assert len(kept) == 4


def metrics(run: Path) -> list[dict[str, float]]:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in record.items() if not key.startswith(("time/", "memory/"))} for record in records]


def test_a_saved_adapter_plays_in_the_seat_of_its_name(tmp_path: Path) -> None:
    before = Run.of(FAST)
    for policy in before.policies.values():
        shift(policy.parameters(), 0.01)
        policy.save(tmp_path / policy.name)
    run = Run.of(dataclasses.replace(FAST, opponent=f"frozen:{tmp_path}"))
    played, _ = play(run)
    assert {turn.policy for turn in played.turns} == {"alice", "bob", "alice-frozen", "bob-frozen"}
    frozen = run.opponents.seat("bob", "frozen", seed=0)
    assert all(torch.equal(a, b) for a, b in zip(frozen.parameters(), before.policies["bob"].parameters(), strict=True))
    alone = Run.of(dataclasses.replace(FAST, opponent=f"frozen:{tmp_path / 'alice'}"))
    assert alone.opponents.seat("bob", "frozen", seed=0).name == "bob-frozen"
    with pytest.raises(ConfigError, match="holds neither an adapter"):
        Run.of(dataclasses.replace(FAST, opponent=f"frozen:{tmp_path / 'nowhere'}"))


def test_an_agent_with_luck_of_its_own_has_the_same_luck_after_a_resume() -> None:
    class Dice(Agent):
        def seed(self, seed: int) -> None:
            self.rng = np.random.default_rng(seed)

        def act(self, observations):
            return [Action(str(self.rng.integers(1000))) for _ in observations]

    agents.register("tests-dice", Dice, force=True)
    try:
        runs = [Run.of(dataclasses.replace(FAST, opponent="agent:tests-dice")) for _ in range(2)]
        runs[0].advance()
        for run in runs:
            run.step = 1
        said = [[turn.text for turn in play(run)[0].turns if turn.policy is None] for run in runs]
        assert said[0] == said[1]
        assert len(set(said[0])) > 1
    finally:
        del agents.registry._entries["tests-dice"]


def test_a_model_from_the_registry_is_an_opponent() -> None:
    run = Run.of(dataclasses.replace(FAST, opponent="agent:embedded"))
    assert isinstance(run.opponents, FixedOpponents)
    played, _ = play(run)
    spoken = [turn for turn in played.turns if turn.policy == "base"]
    assert len(spoken) == 16
    assert max(len(turn.completion.token_ids) for turn in spoken) <= FAST.max_tokens


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"opponent": "rivals"}, 'opponent must be "rival", "base", "pool:uniform"'),
        ({"opponent": "pool:best"}, 'opponent must be "rival"'),
        ({"opponent": "agent:"}, 'opponent must be "rival"'),
        ({"opponent": "base", "opponent_share": 0.0}, "opponent_share must be above 0"),
        ({"opponent": "base", "opponent_share": 0.1}, "of 4 problems is none"),
        ({"snapshot_every": 0}, "snapshot_every must be at least 1"),
        ({"league_size": 1}, "league_size must be at least 2"),
    ],
)
def test_impossible_opponents_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(FAST, **changes)


def test_who_plays_alone_has_no_opponent() -> None:
    config = TrainConfig(env="ArithmeticSolo-v0", algorithm="grpo", opponent="base")
    with pytest.raises(ConfigError, match="has one player"):
        Run.of(config)


def test_in_a_team_nobody_wins() -> None:
    with pytest.raises(ConfigError, match="a team is paid alike"):
        Run.of(dataclasses.replace(FAST, algorithm="cooperative_grpo", opponent="pool:win_rate"))
    assert Run.of(dataclasses.replace(FAST, algorithm="cooperative_grpo", opponent="pool:recent")).opponents is not None
