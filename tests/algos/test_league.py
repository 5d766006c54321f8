"""More policies than seats: who meets whom, and a run of them."""

import dataclasses
import io
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from safetensors.torch import load_file

from algos.config import TINY
from algos.evaluation.scorecard import wins
from algos.league import League, round_robin
from algos.playing.win_rates import WinRates
from algos.trainer import train
from algos.training.console import RunConsole
from algos.training.run import Run

ROLES = ("drafter", "challenger")


@given(st.integers(2, 9))
def test_round_robin_lets_every_pair_meet_once_per_cycle_and_swaps_seats_in_the_next(n: int) -> None:
    names = [f"p{index}" for index in range(n)]
    rounds = n - 1 if n % 2 == 0 else n
    first = [pair for step in range(rounds) for pair in round_robin(names, step)]
    second = [pair for step in range(rounds, 2 * rounds) for pair in round_robin(names, step)]
    assert Counter(frozenset(pair) for pair in first) == Counter(
        frozenset((one, other)) for index, one in enumerate(names) for other in names[:index]
    )
    assert sorted(second) == sorted(pair[::-1] for pair in first)
    for step in range(rounds):
        busy = [name for pair in round_robin(names, step) for name in pair]
        assert len(busy) == len(set(busy)) == n - n % 2


@pytest.mark.parametrize("matchmaking", ["round_robin", "even"])
@pytest.mark.parametrize("size", [2, 3, 4, 8])
def test_nobody_sits_in_two_duels_of_a_step(matchmaking: str, size: int) -> None:
    league = League(league_size=size, matchmaking=matchmaking)
    assert len(set(league.policies)) == size
    for step in range(6):
        matches = league.matches(step, ROLES, rates=WinRates(), rng=np.random.default_rng(step))
        seated = [name for match in matches for name in match.values()]
        assert len(seated) == len(set(seated)) == size - size % 2
        assert all(set(match) == set(ROLES) for match in matches)


def test_equals_meet_more_often() -> None:
    rates, met = WinRates(), Counter()
    for other, share in [("bob", 0.5), ("carol", 0.0), ("dave", 1.0)]:
        rates.record("alice", other, [share] * 200)
        rates.record(other, "alice", [1 - share] * 200)
    for step in range(300):
        for match in League(matchmaking="even").matches(step, ROLES, rates=rates, rng=np.random.default_rng(step)):
            met[frozenset(match.values())] += 1
            met[match["drafter"]] += 1
    assert met[frozenset(("alice", "bob"))] > 1.5 * met[frozenset(("alice", "carol"))]
    assert 100 < met["alice"] < 200  # either seat as often


def test_a_league_plays_duels() -> None:
    with pytest.raises(ValueError, match="contests for two players"):
        League().matches(0, ("solver",), rates=WinRates(), rng=np.random.default_rng(0))


# --- in a run -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def config():
    return dataclasses.replace(
        TINY,
        algorithm="league",
        env_options=("difficulty=2",),
        steps=3,
        problems=4,
        group_size=4,
        max_tokens=24,
        eval_problems=0,
        checkpoint_every=9,
        lora_rank=4,
    )


def quiet() -> RunConsole:
    return RunConsole(Console(file=io.StringIO(), width=100))


def metrics(run: Path) -> list[dict[str, float]]:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in record.items() if not key.startswith(("time/", "memory/"))} for record in records]


def test_a_league_trains_everyone_and_resumes_bit_for_bit(config, tmp_path: Path) -> None:
    config = dataclasses.replace(config, matchmaking="even", output_dir=str(tmp_path / "a"))
    straight = train(config, console=quiet())
    names = ("alice", "bob", "carol", "dave")
    logged = set().union(*metrics(straight))
    assert {f"{name}/{key}" for name in names for key in ("reward", "wins", "rows", "grad_norm", "length")} <= logged
    assert {"pair/kl_alice_bob", "pair/kl_bob_carol", "pair/kl_carol_dave"} <= logged
    stopped = dataclasses.replace(config, output_dir=str(tmp_path / "b"), steps=2)
    folder = train(stopped, console=quiet())
    train(dataclasses.replace(stopped, steps=3), resume=folder, console=quiet())
    assert metrics(folder) == metrics(straight)
    for name in names:
        one, other = (load_file(run / name / "adapter_model.safetensors") for run in (straight, folder))
        assert all(torch.equal(one[key], other[key]) for key in one)
        assert any(tensor.any() for key, tensor in one.items() if "lora_B" in key)


def test_every_pair_of_a_league_is_judged_on_the_same_problems(config) -> None:
    run = Run.of(dataclasses.replace(config, league_size=3, eval_problems=7))
    told: list[int] = []
    evaluation, contests = run.evaluate(told.append)
    assert evaluation.n == len(contests) == 6  # three pairs, two problems each
    assert told == [2, 4, 6]
    assert len({contest.problem.question for contest in contests}) == 2
    pairs = Counter(frozenset(record.players.values()) for record in evaluation.records)
    assert pairs == {frozenset(pair): 2 for pair in (("alice", "bob"), ("alice", "carol"), ("bob", "carol"))}
    won = wins(evaluation.records)
    assert set(won) == {"alice", "bob", "carol"}
    assert all(0 <= share <= 1 for seats in won.values() for share in seats.values())


def test_a_finished_league_tells_who_won(config, tmp_path: Path) -> None:
    small = dataclasses.replace(config, league_size=3, steps=1, problems=1, group_size=2, max_tokens=8, eval_problems=3)
    folder = train(dataclasses.replace(small, output_dir=str(tmp_path)), console=quiet())
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert set(summary["before"]["wins"]) == set(summary["after"]["wins"]) == {"alice", "bob", "carol"}


def test_an_update_of_a_league_moves_who_played_and_nobody_else(config) -> None:
    run = Run.of(dataclasses.replace(config, league_size=3))
    before = {name: [p.detach().clone() for p in policy.parameters()] for name, policy in run.policies.items()}
    _, played = run.advance()
    moved = {
        name
        for name, policy in run.policies.items()
        if not all(torch.equal(a, b) for a, b in zip(policy.parameters(), before[name], strict=True))
    }
    assert moved == {turn.policy for turn in played.turns}
    assert len(moved) == 2  # the third one rests


def test_a_league_meets_its_past(config) -> None:
    run = Run.of(dataclasses.replace(config, opponent="pool:win_rate", problems=8))
    _, played = run.advance()
    names = ("alice", "bob", "carol", "dave")
    assert {turn.policy for turn in played.turns} == {*names, *(f"{name}-past" for name in names)}
