"""The rows of the table: how policies are trained, and how they are deployed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from algos.config import TrainConfig

Deployment = Literal["single", "majority", "cascade", "fixed_cascade", "self_cascade"]
"""How an answer is made. "single": one policy answers. "majority": the vote of two of its answers. "cascade": one
policy drafts, the other reads the draft and answers; in both orders. "fixed_cascade": in one order, the first policy
drafts. "self_cascade": one policy does both."""


@dataclass(frozen=True)
class Training:
    """How policies come to be."""

    changes: Mapping[str, Any]
    """Fields of `TrainConfig`, in place of those of the base config."""
    solo: bool = False
    """Whether it trains on the solo contest of the same task."""
    env_options: tuple[str, ...] = ()
    """Options of the contest, after those of the base config."""
    two_bases: bool = False
    """Whether the second policy stands on `rival_models` of the base config; else both share one base."""


@dataclass(frozen=True)
class Cell:
    """A row of the table."""

    title: str
    training: str | None
    """Name of its training; None deploys the base as it is."""
    deployment: Deployment
    env_options: tuple[str, ...] = ()
    """Options of the contest in which it is judged, after those of the base config."""
    two_bases: bool = False
    """As in `Training`."""


def trainings(config: TrainConfig) -> dict[str, Training]:
    """Return name → training. Each generates 2 × `group_size` texts for every problem ("no_exchange" one more, its draft)."""
    both = 2 * config.group_size
    shared: dict[str, Any] = {"group_size": 1, "answers": both}
    nested: dict[str, Any] = {"group_size": max(1, config.group_size // 2), "answers": 3}
    return {
        "grpo": Training({"algorithm": "grpo", "group_size": both}, solo=True),
        "ppo": Training({"algorithm": "ppo", "group_size": both}, solo=True),
        "self_refine": Training({"algorithm": "self_refine"}),
        "cooperative": Training({"algorithm": "cooperative_grpo"}),
        "no_exchange": Training({"algorithm": "competitive_grpo", **shared}, env_options=("reveal=nothing",)),
        "isolated": agon("reveal=nothing"),
        "agon": agon(),
        "agon_bonus_0": agon("bonus=0.0"),
        "agon_bonus_0.25": agon("bonus=0.25"),
        "agon_bonus_1": agon("bonus=1.0"),
        "agon_answer": agon("reveal=answer"),
        "agon_two_bases": agon(two_bases=True),
        "agon_pool": agon(opponent="pool:uniform", opponent_share=0.5, snapshot_every=5),
        "agon_shared": agon(group_size=1, answers=both - 1),
        "agon_nested": agon(**nested),
        "agon_by_draft": agon(**nested, group_by="position"),
        "agon_mean": agon(normalize="mean"),
        "agon_last": agon(update="last"),
        "agon_fixed": agon(swap_roles=False),
        "agon_one_policy": Training({"algorithm": "self_refine"}, env_options=("reward=competitive",)),
        "cooperative_by_draft": Training({"algorithm": "cooperative_grpo", **nested, "group_by": "position"}),
    }


def agon(*env_options: str, two_bases: bool = False, **changes: Any) -> Training:
    """Return a training by the method itself, with changes."""
    return Training({"algorithm": "competitive_grpo", **changes}, env_options=env_options, two_bases=two_bases)


CELLS: dict[str, Cell] = {
    "zero_shot": Cell("zero-shot", None, "single"),
    "zero_shot_majority": Cell("zero-shot, majority@2", None, "majority"),
    "moa": Cell("mixture of agents (untrained pair)", None, "cascade"),
    "ppo": Cell("PPO", "ppo", "single"),
    "grpo": Cell("GRPO", "grpo", "single"),
    "grpo_majority": Cell("GRPO, majority@2", "grpo", "majority"),
    "grpo_self_cascade": Cell("GRPO, self-cascade", "grpo", "self_cascade"),
    "self_refine": Cell("self-refine", "self_refine", "self_cascade"),
    "cooperative": Cell("cooperative", "cooperative", "cascade"),
    "no_exchange": Cell("competitive, no exchange", "no_exchange", "cascade"),
    "isolated": Cell("competitive, isolated", "isolated", "cascade"),
    "agon": Cell("Agon", "agon", "cascade"),
    "agon_single": Cell("Agon, one policy alone", "agon", "single"),
}
"""The rows, in the order of the table."""

VARIANTS: dict[str, Cell] = {
    "agon_bonus_0": Cell("Agon, bonus 0", "agon_bonus_0", "cascade"),
    "agon_bonus_0.25": Cell("Agon, bonus 0.25", "agon_bonus_0.25", "cascade"),
    "agon_bonus_1": Cell("Agon, bonus 1", "agon_bonus_1", "cascade"),
    "moa_answer": Cell("untrained pair, reading answers alone", None, "cascade", ("reveal=answer",)),
    "agon_answer": Cell("Agon, reading answers alone", "agon_answer", "cascade", ("reveal=answer",)),
    "agon_shown_answers": Cell("Agon, judged on answers alone", "agon", "cascade", ("reveal=answer",)),
    "moa_two_bases": Cell("untrained pair of two bases", None, "cascade", two_bases=True),
    "agon_two_bases": Cell("Agon, two bases", "agon_two_bases", "cascade", two_bases=True),
    "agon_pool": Cell("Agon, half against past selves", "agon_pool", "cascade"),
    "agon_shared": Cell("Agon, one shared draft", "agon_shared", "cascade"),
    "agon_nested": Cell("Agon, nested, by problem", "agon_nested", "cascade"),
    "agon_by_draft": Cell("Agon, nested, by draft", "agon_by_draft", "cascade"),
    "agon_mean": Cell("Agon, mean only", "agon_mean", "cascade"),
    "agon_last": Cell("Agon, only answers train", "agon_last", "cascade"),
    "agon_fixed": Cell("Agon, fixed seats", "agon_fixed", "fixed_cascade"),
    "agon_one_policy": Cell("Agon, one policy in both seats", "agon_one_policy", "self_cascade"),
    "cooperative_by_draft": Cell("cooperative, nested, by draft", "cooperative_by_draft", "cascade"),
}
"""Rows that are in a table on demand: what the method does with one thing changed."""

ROWS = CELLS | VARIANTS

COMPARISONS: tuple[tuple[str, str], ...] = (
    ("grpo", "zero_shot"),
    ("moa", "zero_shot"),
    ("cooperative", "grpo"),
    ("agon", "grpo"),
    ("agon", "grpo_self_cascade"),
    ("agon", "self_refine"),
    ("agon", "cooperative"),
    ("agon", "isolated"),
    ("agon", "no_exchange"),
    ("agon_shared", "no_exchange"),  # both train answers alone, so that each policy has half of Agon's updates
    ("agon_single", "grpo"),
    *((name, "moa" if cell.training is None else "agon") for name, cell in VARIANTS.items()),
)
"""Pairs of rows whose difference is estimated on the same problems."""
