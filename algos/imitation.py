"""Imitation: a policy learns to speak as the game demands, before it learns to win.

A base that makes no legal move is paid alike whatever it says, and learns nothing from that. So for the first few updates
a scripted player shows it texts: one that draws legal moves, or the game's oracle. The policy maximises their likelihood,
which is the policy gradient with an advantage of 1 for what another has said.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

import agents
from agon_env.types import Action, Observation
from agon_env.vector import VectorContest
from algos.algorithm import matches_of
from algos.learning.update import one_update
from algos.types import Batch, Row

if TYPE_CHECKING:
    from agents.policy import LLMPolicy
    from algos.training.run import Run


@dataclass(frozen=True)
class Imitation:
    """Updates on what a scripted player says, before the first step. The learning-rate schedule begins with them."""

    steps: int = 0
    """How many; each on as many contests as a training step has. 0: none."""
    player: Literal["random", "oracle"] = "random"
    """Whom to imitate: "random" draws from the game's `legal_texts`, "oracle" plays its `solution`. Roles that may say anything
    learn nothing from "random", whose texts are noise there."""

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ValueError(f"steps must be at least 0, not {self.steps}")
        if self.player not in ("random", "oracle"):
            raise ValueError(f'player must be "random" or "oracle", not {self.player!r}')


def imitate(run: Run, on_step: Callable[[int], None] | None = None) -> list[dict[str, float]]:
    """Have every policy of `run` imitate, in the seats that the algorithm gives it at the steps 0, 1, ….

    Returns:
        For each update policy → the mean negative log-likelihood of a demonstrated token before it, in nats.
    """
    config, losses = run.config, []
    for step in range(config.imitation.steps):
        matches = matches_of(run.algorithm, step, run.contest.roles, rates=run.rates, rng=_rng(config.seed, step))
        seats = matches[step % len(matches)]
        rows: defaultdict[str, list[Row]] = defaultdict(list)
        for observation, action in demonstrate(run, step):
            policy = run.policies[seats[observation.role]]
            rows[policy.name].append(Row(policy.encode(observation), tokens_of(policy, action.text), (), advantage=1.0))
        batches = {name: _batch(run, name, rows[name]) for name in run.policies}
        for name, policy in run.policies.items():  # without a seat nothing moves; the schedule goes on
            learner, batch = run.learners[name], batches[name]
            stats = one_update(
                partial(learner.forward_backward, policy, batch) if batch.rows else dict,
                step=partial(learner.optim_step, policy),
                drop_gradient=partial(learner.drop_gradient, policy),
                leave_out=partial(run.guards.skipped, policy, batch),
                counted="skipped",
            )
            run.guards.updated(policy, stats)
        for critic in run.critics.values():
            critic.optim_step()
        losses.append({name: _loss(batch) for name, batch in batches.items() if batch.rows})
        if on_step is not None:
            on_step(step + 1)
    return losses


def demonstrate(run: Run, step: int) -> list[tuple[Observation, Action]]:
    """Return what the scripted player read and said in the contests of one step."""
    config, rng = run.config, _rng(run.config.seed, step)
    number = config.problems * config.group_size * config.answers
    contests = VectorContest([copy.deepcopy(run.contest) for _ in range(number)])
    contests.reset(seeds=rng.integers(2**31, size=number).tolist())
    options = {"seed": int(rng.integers(2**31))} if config.imitation.player == "random" else {}
    player = agents.make(config.imitation.player, env=contests, **options)
    shown: list[tuple[Observation, Action]] = []
    while not contests.done:
        waiting = contests.pending()
        actions = player.act(list(waiting.values()))
        for (index, seen), action in zip(waiting.items(), actions, strict=True):
            if config.imitation.player == "oracle" or contests.envs[index].legal_texts(seen.role):
                shown.append((seen, action))
        contests.step(dict(zip(waiting, actions, strict=True)))
    return shown


def tokens_of(policy: LLMPolicy, text: str) -> tuple[int, ...]:
    """Return the completion that `policy` would have had to sample to say `text` and nothing more."""
    tokenizer = policy.base.tokenizer
    return (*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id)


def _rng(seed: int, step: int) -> np.random.Generator:
    return np.random.default_rng([seed, step, 0x1417A7E])  # other numbers than those of the training steps


def _batch(run: Run, name: str, rows: Sequence[Row]) -> Batch:
    temperature = run.config.temperature
    scored = run.learners[name].logprobs(run.policies[name], rows, temperature=temperature) if rows else []
    return Batch(tuple(replace(row, old_logprobs=old) for row, old in zip(rows, scored, strict=True)), temperature=temperature)


def _loss(batch: Batch) -> float:
    """Return the mean negative log-likelihood of a token, in nats."""
    return -float(np.mean([logp for row in batch.rows for logp in row.old_logprobs]))
