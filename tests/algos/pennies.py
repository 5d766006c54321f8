"""Matching pennies as text, and two policies that learn it by REINFORCE with role baselines.

The only equilibrium is that both say heads half of the time. Whoever does not can be exploited, and who exploits
becomes exploitable: policies that learn against each other as they are now run in a circle, and away from the middle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

import numpy as np
import torch

import agon_env
from agents.policy import LLMPolicy
from agon_env.types import Observation
from algos.config import TrainConfig
from algos.learning.optim import OptimConfig
from algos.playing.opponents import SnapshotPool
from algos.playing.seats import RotatingSeats
from algos.reinforce import Reinforce
from algos.training.run import Run

ENV = "tests/MatchingPennies-v0"
PROMPTS = {"matcher": "w21 w23", "mismatcher": "w25 w27"}
SEATS = {"alice": "matcher", "bob": "mismatcher"}


def is_heads(text: str) -> bool:
    """Even words are heads, odd ones and everything else tails."""
    return text[-1:] in {"0", "2", "4", "6", "8"}


class MatchingPennies(agon_env.Contest):
    """Both show a penny, neither sees the other's. The matcher wins if they are alike, the other if they differ."""

    roles: ClassVar[tuple[str, ...]] = ("matcher", "mismatcher")

    def setup(self, rng: np.random.Generator, options: Mapping[str, Any]) -> None:
        self.shown: dict[str, bool] = {}

    def prompt(self, role: str) -> str:
        return PROMPTS[role]

    def visible_to(self, role: str) -> tuple[str, ...]:
        return (self.player_of[role],)

    def apply(self, role: str, text: str) -> None:
        self.shown[role] = is_heads(text)

    def score(self) -> dict[str, float | None]:
        alike = self.shown["matcher"] == self.shown["mismatcher"]
        return {"matcher": float(alike), "mismatcher": float(not alike)}


@dataclass(frozen=True)
class Rivals(RotatingSeats, Reinforce):
    """Two policies, each in its seat, against role baselines."""

    contest_options = {"reward": "zero_sum"}  # noqa: RUF012


@contextmanager
def registered() -> Iterator[None]:
    """Make the game available."""
    agon_env.register(ENV, MatchingPennies, force=True)
    try:
        yield
    finally:
        del agon_env.registry[ENV]


def config(model: Path, **changes: Any) -> TrainConfig:
    """Return a run of contests of two tokens."""
    defaults: dict[str, Any] = {
        "problems": 8,
        "group_size": 8,
        "max_tokens": 1,
        "lora_rank": 4,
        "lora_alpha": 8,
        "threads": 1,
        "eval_problems": 0,
        "swap_roles": False,
        "optim": OptimConfig(learning_rate=3e-3, betas=(0.0, 0.99)),  # momentum is a lag, which makes circles wider
    }
    return TrainConfig(env=ENV, algorithm=f"{__name__}:Rivals", model=str(model), **(defaults | changes))


def chance_of_heads(policy: LLMPolicy, role: str) -> float:
    """Return how likely a policy says heads, exactly."""
    prompt = policy.encode(Observation("anyone", role, ({"role": "user", "content": PROMPTS[role]},)))
    with torch.no_grad(), policy.base.use(policy.name):
        chances = policy.base.model(torch.tensor([prompt])).logits[0, -1].softmax(-1)
    return sum(chance for word, chance in enumerate(chances.tolist()) if is_heads(policy.base.tokenizer.decode([word])))


def from_the_middle(run: Run) -> float:
    """Return how far the policies as they are now are from saying heads half of the time, on average."""
    return fmean(abs(chance_of_heads(policy, SEATS[name]) - 0.5) for name, policy in run.policies.items())


def mixture_from_the_middle(run: Run) -> float:
    """Return the same for players that draw one of the pool's snapshots at random before each contest."""
    assert isinstance(run.opponents, SnapshotPool)
    distances = []
    for name, role in SEATS.items():
        players = (run.opponents.seat(name, snapshot, seed=0) for snapshot in run.opponents.names(name))
        distances.append(abs(fmean(chance_of_heads(player, role) for player in players) - 0.5))
    return fmean(distances)
