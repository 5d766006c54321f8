"""The update of one policy on the rows of one step: what is computed once, then epochs of minibatches.

With one epoch of one minibatch, the default, all rows make one gradient and one optimiser step. With more, a row is
used again under a policy that has moved: the ratio to `old_logprobs` leaves 1, and the clip range begins to matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Protocol

import numpy as np

from agents.policy import LLMPolicy
from algos.importance import importance_weights
from algos.learner import Learner
from algos.learning.optim import UnsoundUpdate
from algos.types import Batch, Row, Stats, ValueRow

if TYPE_CHECKING:
    from algos.learning.values import Critic

SUMMED = ("tokens", "rows_computed", "skipped", "value_skipped")
"""Statistics that count over the updates of a step; the others are their means."""


class Watch(Protocol):
    """Who is told of updates that can't be made; see `algos.guards`."""

    def check_sampler(self, policy: LLMPolicy, rows: Sequence[Row], *, mismatch: float | None, temperature: float) -> None:
        """Raise an `UnsoundUpdate` if the policy that sampled `rows` is not the one that learns."""
        ...

    def skipped(self, policy: LLMPolicy, batch: Batch, error: UnsoundUpdate) -> None:
        """Take note of an update that is left out, or raise what ends the run."""
        ...

    def critic_skipped(self, critic: Critic, rows: Sequence[ValueRow], error: UnsoundUpdate) -> None:
        """Take note of an update of a critic that is left out, or raise what ends the run."""
        ...


def update_policy(
    learner: Learner,
    policy: LLMPolicy,
    rows: Sequence[Row],
    *,
    temperature: float,
    seed: Sequence[int],
    watch: Watch | None = None,
) -> Stats:
    """Update `policy` on `rows`, with as many optimiser steps as the learner's config says, whatever the rows are.

    Args:
        learner: does the work; its `optim` has `epochs` and `minibatches`, its `loss` the sampler correction.
        policy: who learns.
        rows: what it learns from; without rows nothing moves, and the learning-rate schedule goes on.
        temperature: the one that the rows were sampled at.
        seed: shuffles the rows; the same seed gives the same minibatches.
        watch: told of updates that can't be made, which are left out then. None: they raise.

    Returns:
        The learner's statistics: means over the updates, maxima of those called `…_max`, counts summed; `rows`; and
        `skipped`, how many updates were left out, if any were.
    """
    stats: Stats = {"rows": float(len(rows))}
    if rows and learner.loss.sampler_correction != "none":
        rows, corrected = correct_sampler(learner, policy, rows, temperature=temperature)
        stats |= corrected
    updates = learner.optim.epochs * learner.optim.minibatches
    if rows and learner.loss.kl_coef and updates > 1:  # else the reference would be computed again in every epoch
        references = learner.logprobs(None, rows, temperature=temperature)
        rows = [replace(row, ref_logprobs=reference) for row, reference in zip(rows, references, strict=True)]
    done: list[Stats] = []

    def gradient(batch: Batch) -> Stats:
        computed = learner.forward_backward(policy, batch) if batch.rows else {}
        if watch is not None and not done:  # later on the policy has moved away from the one that sampled
            mismatch = stats.get("sampler_mismatch", computed.get("approx_kl"))
            watch.check_sampler(policy, batch.rows, mismatch=mismatch, temperature=temperature)
        return computed

    for indices in minibatches(len(rows), epochs=learner.optim.epochs, parts=learner.optim.minibatches, seed=seed):
        batch = Batch(tuple(rows[index] for index in indices), temperature=temperature)
        done.append(
            one_update(
                partial(gradient, batch),
                step=partial(learner.optim_step, policy),
                drop_gradient=partial(learner.drop_gradient, policy),
                leave_out=None if watch is None else partial(watch.skipped, policy, batch),
                counted="skipped",
            )
        )
    return merge_updates(done) | stats


def one_update(
    gradient: Callable[[], Stats],
    *,
    step: Callable[[], Stats],
    drop_gradient: Callable[[], None],
    leave_out: Callable[[UnsoundUpdate], None] | None,
    counted: str,
) -> Stats:
    """Make one update; where nothing can be learned from its batch, it is left out.

    Args:
        gradient: accumulates it, and returns statistics.
        step: takes the step.
        drop_gradient: forgets what was accumulated.
        leave_out: told why, or raises what ends the run. None: the error is raised.
        counted: name of the statistic that is 1 where the update was left out.

    Returns:
        The statistics of both. Where the update was left out, those of a step in which nothing moves and only the schedule
        goes on.
    """
    try:
        return gradient() | step()
    except UnsoundUpdate as error:
        if leave_out is None:
            raise
        leave_out(error)
    drop_gradient()
    return {counted: 1.0, **step()}


def minibatches(rows: int, *, epochs: int, parts: int, seed: Sequence[int]) -> Iterator[list[int]]:
    """Yield the rows of each update: `epochs` × `parts` lists of indices, every row once in each epoch.

    One part is in the order of the rows. Several are drawn anew in each epoch, and are empty where there are fewer
    rows than parts.
    """
    for epoch in range(epochs):
        order = np.arange(rows) if parts == 1 else np.random.default_rng([*seed, epoch]).permutation(rows)
        yield from (part.tolist() for part in np.array_split(order, parts))


def correct_sampler(learner: Learner, policy: LLMPolicy, rows: Sequence[Row], *, temperature: float) -> tuple[list[Row], Stats]:
    """Score the rows under the policy as the learner sees it, and weigh them by its ratio to the sampler.

    Returns:
        The rows, with the learner's log-probabilities as `old_logprobs` and with `weights`; and statistics:
        `sampler_kl` (KL(π_sampler ‖ π_old) per token, k1), `sampler_mismatch` (the same, k3), `sampler_weight` (mean) and
        `sampler_capped` (share of the tokens whose weight was capped).
    """
    loss = learner.loss
    assert loss.sampler_correction != "none"
    scored = learner.logprobs(policy, rows, temperature=temperature)
    corrected = [
        replace(
            row,
            old_logprobs=old,
            weights=importance_weights(
                old_logp_T=old, sampler_logp_T=row.old_logprobs, level=loss.sampler_correction, cap=loss.sampler_cap
            ),
        )
        for row, old in zip(rows, scored, strict=True)
    ]
    weights = [weight for row in corrected for weight in row.weights or ()]
    gaps = [np.subtract(before.old_logprobs, after.old_logprobs) for before, after in zip(rows, corrected, strict=True)]
    if not weights:
        return corrected, {}
    return corrected, {
        "sampler_kl": float(np.concatenate(gaps).mean()),
        "sampler_mismatch": float(np.concatenate([np.expm1(-gap) + gap for gap in gaps]).mean()),
        "sampler_weight": fmean(weights),
        "sampler_capped": fmean(weight >= loss.sampler_cap for weight in weights),
    }


def merge_updates(updates: Sequence[Stats]) -> Stats:
    """Merge the statistics of several updates: maxima of those called `…_max`, sums of `SUMMED`, means of the others."""
    names = dict.fromkeys(name for update in updates for name in update)
    return {name: _merge(name, [update[name] for update in updates if name in update]) for name in names}


def _merge(name: str, values: Sequence[float]) -> float:
    if name.endswith("_max"):
        return max(values)
    return sum(values) if name in SUMMED else fmean(values)
