"""A game whose optimum is known, and a model small enough to find it in seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

import numpy as np
import torch
from learner_fixtures import COMMON, tiny_tokenizer
from transformers import Qwen3Config, Qwen3ForCausalLM

import agon_env
from algos.config import TrainConfig
from algos.learning.optim import OptimConfig
from algos.rollouts import Rollout

OPTIMUM = 1.0
"""What the best arm pays."""


def pays(text: str) -> float:
    """Return what the arm that a text begins with pays: w9 the optimum, w8 0.9 of it, down to w0; every other nothing."""
    arm, _, _ = text.partition(" ")
    return (int(arm[1:]) + 1) / 10 if arm in {f"w{number}" for number in range(10)} else 0.0


class Bandit(agon_env.Contest):
    """Two players pull an arm each, one after the other; the second sees which one the first pulled."""

    roles: ClassVar[tuple[str, ...]] = ("first", "second")

    def setup(self, rng: np.random.Generator, options: Mapping[str, Any]) -> None:
        self.pulled: dict[str, str] = {}

    def prompt(self, role: str) -> str:
        return " ".join(["w20", *self.pulled.values()])

    def apply(self, role: str, text: str) -> None:
        self.pulled[role] = text

    def score(self) -> dict[str, float | None]:
        return {role: pays(text) for role, text in self.pulled.items()}

    def solution(self, role: str) -> str:
        return "w9"


class Alone(Bandit):
    """One player pulls an arm."""

    roles = ("first",)


class Long(Bandit):
    """The first player pulls one to three arms, the second twice as many, and only their last ones pay: uneven turns."""

    def setup(self, rng: np.random.Generator, options: Mapping[str, Any]) -> None:
        super().setup(rng, options)
        self.length = int(rng.integers(1, 4))

    def next_role(self) -> str | None:
        if self.turn == 3 * self.length:
            return None
        return "first" if self.turn % 3 == 0 else "second"


@contextmanager
def registered() -> Iterator[None]:
    """Make the games available as tests/Bandit-v0, tests/Alone-v0 and tests/Long-v0."""
    games: dict[str, Callable[..., agon_env.Contest]] = {f"tests/{game.__name__}-v0": game for game in (Bandit, Alone, Long)}
    for id, game in games.items():
        agon_env.register(id, game, force=True)
    try:
        yield
    finally:
        for id in games:
            del agon_env.registry[id]


def save_model(folder: Path) -> Path:
    """Write a random model of one layer that knows 37 words, wide enough to be all but sure of one of them."""
    torch.manual_seed(0)
    sizes = COMMON | {"hidden_size": 64, "head_dim": 8, "num_hidden_layers": 1}
    model = Qwen3ForCausalLM(Qwen3Config(**sizes, tie_word_embeddings=True))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.15)
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def config(model: Path, algorithm: str, *, env: str, seed: int = 0, steps: int = 40, **changes: Any) -> TrainConfig:
    """Return a run of `steps` × 4 × 16 contests, each turn one token."""
    defaults: dict[str, Any] = {
        "problems": 4,
        "group_size": 16,
        "max_tokens": 1,
        "lora_rank": 8,
        "lora_alpha": 16,
        "threads": 1,
        "eval_problems": 0,
        "optim": OptimConfig(learning_rate=2e-2),
    }
    return TrainConfig(env=env, algorithm=algorithm, model=str(model), seed=seed, steps=steps, **(defaults | changes))


def mean_last_score(played: Rollout) -> float:
    """Return the mean score of the role that speaks last."""
    outcomes = [contest.outcome for contest in played.contests if contest.outcome is not None]
    last = played.contests[0].roles[-1]
    return fmean(
        outcome.scores[player] or 0.0 for outcome in outcomes for player, role in outcome.roles.items() if role == last
    )
