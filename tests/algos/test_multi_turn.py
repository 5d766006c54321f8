"""Contests of several turns train with the code that trains duels: each turn is a sample, paid the contest's return."""

import dataclasses
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

import agon_env
from algos.config import TINY
from algos.training.run import Run

ENV = "tests/Bidding-v0"


class Bidding(agon_env.Contest):
    """Two players speak in turn, four times in all; a text of an even length ends the contest early. Longer texts win."""

    roles = ("opener", "closer")
    rounds = 2

    def setup(self, rng: np.random.Generator, options: object) -> None:
        self.said: list[tuple[str, str]] = []

    def prompt(self, role: str) -> str:
        return "\n".join(["Bid.", *(f"{who}: {text}" for who, text in self.said)])

    def apply(self, role: str, text: str) -> None:
        self.said.append((role, text))

    def next_role(self) -> str | None:
        early = self.turn >= 2 and len(self.said[-1][1]) % 2 == 0
        return None if early or self.turn == 4 else self.roles[self.turn % 2]

    def score(self) -> dict[str, float | None]:
        total = Counter({role: sum(len(text) for who, text in self.said if who == role) for role in self.roles})
        return {role: float(total[role] > max(total[other] for other in self.roles if other != role)) for role in self.roles}


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    agon_env.register(ENV, Bidding, force=True)
    yield
    del agon_env.registry[ENV]


@pytest.mark.parametrize("algorithm", ["competitive_grpo", "league", "reinforce", "competitive_ppo"])
def test_every_turn_of_uneven_contests_is_a_sample(algorithm: str) -> None:
    config = dataclasses.replace(
        TINY, env=ENV, env_options=("reward=zero_sum",), algorithm=algorithm, problems=4, group_size=4, max_tokens=10
    )
    run = Run.of(dataclasses.replace(config, eval_problems=0, lora_rank=4))
    lengths: Counter[int] = Counter()
    for _ in range(2):
        stats, played = run.advance()
        turns = Counter(index for indices in played.beneath for index in indices)
        lengths += Counter(turns.values())
        for turn, indices in zip(played.turns, played.beneath, strict=True):
            if len(indices) == 1:
                assert turn.reward == played.contests[indices[0]].outcome.rewards[turn.player]
            assert turn.parent[0] == turn.problem
        moved = {name: sum(turn.policy == name for turn in played.turns) for name in run.policies}
        learned = {name: stats[f"{name}/rows"] for name in run.policies}
        assert sum(learned.values()) > 0
        assert all(learned[name] <= moved[name] for name in moved)
        if algorithm in ("reinforce", "competitive_ppo"):  # no group is dropped
            assert learned == moved
        assert sum(moved.values()) == len(played.turns)
    assert set(lengths) <= {2, 3, 4}
    assert len(lengths) > 1  # uneven


def test_opponents_speak_in_all_turns_of_their_seat() -> None:
    config = dataclasses.replace(
        TINY, env=ENV, env_options=("reward=zero_sum",), opponent="base", problems=2, group_size=2, max_tokens=10
    )
    run = Run.of(dataclasses.replace(config, eval_problems=0, lora_rank=4))
    _, played = run.advance()
    for contest in played.contests:
        assert contest.turn == len(contest.transcript.events)
    by_seat = {(turn.problem, turn.role): turn.policy for turn in played.turns}
    assert all(by_seat[turn.problem, turn.role] == turn.policy for turn in played.turns)
    assert set(by_seat.values()) == {"alice", "bob", "base"}
