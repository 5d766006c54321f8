"""`Learner`: what stands between an algorithm and whatever does the work; `LocalLearner` does it here, in torch.

Four verbs train a policy:

sample(requests)                   tokens, of one policy or of several
forward_backward(policy, batch)    a gradient, added to what the policy has accumulated
optim_step(policy)                 the update
save(policy, folder)               the policy as files

A run asks for four things besides:

logprobs(policy, rows)             scores without a gradient: for metrics, guards and the correction of samplers
drop_gradient(policy)              an update that is not sound is left out
state_dict(policy)                 a checkpoint
load_state_dict(policy, state)     the way back
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer

from agents.engines.torch import SCRATCH_BYTES
from agents.policy import LLMPolicy
from agents.sampling import Completion, Request, sample_many
from agents.shared_base import SharedBase
from agents.training_block import fuse, merged_once
from algos.learning.batching import Completions, even_batches, micro_batches, pad_rows, shared_batches
from algos.learning.logprobs import check_head, token_logprobs
from algos.learning.memory import TokenBudget
from algos.learning.optim import NonFiniteUpdate, OptimConfig, PolicyOptimizer
from algos.learning.packing import can_pack, pack_rows, packed_attention
from algos.losses import LossConfig, count_normalizer, merge_stats, policy_loss
from algos.phases import phase
from algos.types import Batch, Row, Stats

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["Learner", "LocalLearner", "NoGradient", "NonFiniteUpdate", "OptimConfig"]


class NoGradient(RuntimeError):
    """A backward pass did not reach the parameters of the policy that it should train."""


class Learner(Protocol):
    """What a run needs done. Implementations may be elsewhere: only ids, numbers and names cross."""

    loss: LossConfig
    optim: OptimConfig
    budget: TokenBudget

    def sample(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """Return the completions of each request, from its policy as it is now."""
        ...

    def forward_backward(self, policy: LLMPolicy, batch: Batch) -> Stats:
        """Add the gradient of the loss on `batch` to the policy's gradient; return statistics."""
        ...

    def optim_step(self, policy: LLMPolicy) -> Stats:
        """Update the policy, and no other, by its gradient; return statistics."""
        ...

    def save(self, policy: LLMPolicy, folder: str | Path) -> None:
        """Write the policy's adapter to `folder`, in PEFT's layout."""
        ...

    # What a run asks besides: for metrics and guards, and to go on from a checkpoint.

    def drop_gradient(self, policy: LLMPolicy) -> None:
        """Forget what the policy has accumulated since its last step."""
        ...

    def logprobs(self, policy: LLMPolicy | None, rows: Sequence[Row], *, temperature: float = 1.0) -> list[tuple[float, ...]]:
        """Return the log-probability of each completion token of each row, under a policy or the bare base (None)."""
        ...

    def state_dict(self, policy: LLMPolicy) -> dict[str, Tensor]:
        """Return what the policy's optimiser needs to go on: flat names → tensors, fit for safetensors."""
        ...

    def load_state_dict(self, policy: LLMPolicy, state: dict[str, Tensor]) -> None:
        """Put the policy's optimiser back to what `state_dict` returned."""
        ...


def check_lengths(loss: LossConfig, optim: OptimConfig, *, total_steps: int | None) -> None:
    """Refuse a loss or a schedule that lacks a length.

    Raises:
        ValueError: it does.
    """
    if loss.loss_type == "dr_grpo" and loss.max_tokens is None:
        raise ValueError('loss_type "dr_grpo" divides by a constant length: set max_tokens of the loss')
    if optim.schedule != "constant" and total_steps is None:
        raise ValueError(f'the schedule "{optim.schedule}" needs total_steps, the steps of the whole run')


class LocalLearner(Learner):
    """A learner on this machine: one frozen base, an adapter and an optimiser for each policy."""

    def __init__(
        self,
        base: SharedBase,
        *,
        loss: LossConfig | None = None,
        optim: OptimConfig | None = None,
        total_steps: int | None = None,
    ) -> None:
        """Learn on the policies of `base`.

        Args:
            base: what the policies share. Its model is in evaluation mode, so that no dropout comes between the
                log-probabilities of the sampler and those of the learner.
            loss: what is minimised.
            optim: how.
            total_steps: optimiser steps of the whole run, for schedules that decay.

        Raises:
            UnsupportedHead: the model's head does something to its logits that is not known here.
            ValueError: the loss or the schedule lacks a length.
        """
        self.base = base
        self.loss = loss if loss is not None else LossConfig()
        self.optim = optim if optim is not None else OptimConfig()
        self.total_steps = total_steps
        check_lengths(self.loss, self.optim, total_steps=total_steps)
        self.budget = TokenBudget(self.optim.token_budget or (1200 if base.model.device.type == "cpu" else 16_384))
        self._optimizers: dict[str, PolicyOptimizer] = {}
        check_head(base.model)
        with base.use(None):
            self._packs = can_pack(base.model.get_decoder())
            fuse(base.model, scratch_bytes=SCRATCH_BYTES)
        self._recomputed = _enable_recompute(base.model) if self.optim.recompute else []

    def sample(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """Return the completions of each request, by the engines of the policies: in one batch where that pays."""
        return sample_many(requests)

    @phase("update")
    def forward_backward(self, policy: LLMPolicy, batch: Batch) -> Stats:
        """Add the gradient of the loss on `batch` to what the policy has accumulated since its last step.

        The batch is what the loss averages over: every row with tokens counts, also one whose advantage is 0.
        Whoever makes the batch leaves the rows of dropped groups out (`Advantages.kept`). A row with advantage
        0 adds nothing to the gradient unless there is a KL term, so it is counted and not computed; statistics
        are over the rows that were computed.

        Args:
            policy: whose adapter learns.
            batch: the rows. Where there is a KL term and a row lacks `ref_logprobs`, they are computed here,
                from the bare base.

        Returns:
            Detached floats: those of `policy_loss`, and `rows` and `rows_computed`. With no row to compute,
            only `loss`, `tokens` (both 0) and these two.

        Raises:
            NonFiniteUpdate: the loss is not finite.
            NoGradient: the gradient did not reach the policy's parameters.
            OutOfMemory: the rows do not fit into the memory, also not in smaller micro-batches, which are tried once.

        After any error the policy's accumulated gradient is dropped, so that no half of it is ever stepped.
        """
        optimizer = self._optimizer(policy)
        normalizer = batch.normalizer
        if normalizer is None:
            normalizer = count_normalizer(self.loss.loss_type, [len(row.completion_ids) for row in batch.rows])
        rows = [row for row in batch.rows if row.completion_ids and (row.has_signal or self.loss.kl_coef)]
        if self.loss.kl_coef:
            rows = self._with_reference(rows, temperature=batch.temperature)
        pieces = self.budget.fit(
            lambda: self._accumulate(policy, optimizer, rows, normalizer, batch.temperature),
            what=f"an update of {policy.name!r}",
            rows=rows,
            undo=optimizer.drop_gradient,
            once_more=not optimizer.has_gradient,  # else what an earlier call has accumulated would be lost
        )
        return {**merge_stats(pieces), "rows": float(len(batch.rows)), "rows_computed": float(len(rows))}

    @phase("update")
    def optim_step(self, policy: LLMPolicy) -> Stats:
        """Update the policy by its accumulated gradient, clipped; no other policy moves.

        Returns:
            `grad_norm` before clipping, and `learning_rate`.

        Raises:
            NonFiniteUpdate: the gradient is not finite; nothing was stepped, the gradient is dropped.
        """
        return self._optimizer(policy).step()

    def drop_gradient(self, policy: LLMPolicy) -> None:
        """Forget what the policy has accumulated since its last step."""
        self._optimizer(policy).drop_gradient()

    def save(self, policy: LLMPolicy, folder: str | Path) -> None:
        """Write the policy's adapter to `folder`, in PEFT's layout."""
        policy.save(folder)

    @phase("logprob")
    def logprobs(self, policy: LLMPolicy | None, rows: Sequence[Row], *, temperature: float = 1.0) -> list[tuple[float, ...]]:
        """Score completions without gradient, in one block with one adapter.

        Args:
            policy: under whom; None is the bare base, the reference of the KL term.
            rows: what to score; their own log-probabilities are not looked at.
            temperature: the logits are divided by it.

        Returns:
            For each row the log-probability of each of its completion tokens, in nats.

        Raises:
            OutOfMemory: the rows do not fit into the memory, also not in smaller micro-batches, which are tried once.
        """
        name = policy.name if policy is not None else None
        unscored = [Row(row.prompt_ids, row.completion_ids, (0.0,) * len(row.completion_ids), 0.0) for row in rows]

        def score() -> list[tuple[float, ...]]:
            result: list[tuple[float, ...]] = [()] * len(rows)
            with torch.no_grad(), self.base.use(name), merged_once():
                for indices, batched in self._micro_batches(unscored):
                    logp_BT, _ = token_logprobs(self.base.model, batched, temperature=temperature, chunk=self.optim.logit_chunk)
                    for index, logp_T in zip(indices, logp_BT.tolist(), strict=True):
                        result[index] = tuple(logp_T[: len(rows[index].completion_ids)])
            return result

        return self.budget.fit(score, what=f"scoring under {name or 'the bare base'!r}", rows=rows)

    def state_dict(self, policy: LLMPolicy) -> dict[str, Tensor]:
        """Return what the policy's optimiser needs to go on: flat names → tensors, fit for safetensors."""
        return self._optimizer(policy).state_dict()

    def load_state_dict(self, policy: LLMPolicy, state: dict[str, Tensor]) -> None:
        """Put the policy's optimiser back to what `state_dict` returned.

        Raises:
            ValueError: the state is that of another policy; nothing is changed.
        """
        self._optimizer(policy).load_state_dict(state)

    @contextmanager
    def batches(self, adapter: str, rows: Sequence[Row]) -> Iterator[Iterator[tuple[list[int], Completions]]]:
        """Run a block with one adapter, in which `rows` come as micro-batches: indices into `rows`, and tensors.

        Forward and backward of a micro-batch belong into the block: both see the same adapter then, and so do parts of
        the forward pass that are computed again.
        """
        attention = packed_attention(self.base.model.get_decoder()) if self._packs else nullcontext()
        with self.base.use(adapter), merged_once(), _training(self._recomputed), attention:
            yield self._micro_batches(rows)

    def _accumulate(
        self, policy: LLMPolicy, optimizer: PolicyOptimizer, rows: Sequence[Row], normalizer: float, temperature: float
    ) -> list[Stats]:
        pieces: list[Stats] = []
        with self.batches(policy.name, rows) as batches, optimizer.accumulating() as collect:
            for indices, batched in batches:
                loss, stats = self._loss(batched, normalizer, temperature)
                if not math.isfinite(stats["loss"]):
                    raise NonFiniteUpdate(
                        f"the loss of {policy.name!r} is {stats['loss']} on a micro-batch of {len(indices)} rows; nothing was "
                        "stepped. Look at the log-probabilities of these rows, and at the learning rate"
                    )
                if not loss.requires_grad:
                    raise NoGradient(f"the loss does not depend on any trainable parameter of {policy.name!r}: was it frozen?")
                loss.backward()
                collect()
                pieces.append(stats)
        if pieces and not optimizer.has_gradient:
            raise NoGradient(f"the gradient went elsewhere than to {policy.name!r}: was it frozen, or another made active?")
        return pieces

    def _loss(self, rows: Completions, normalizer: float, temperature: float) -> tuple[Tensor, Stats]:
        logp_BT, entropy_BT = token_logprobs(
            self.base.model, rows, temperature=temperature, chunk=self.optim.logit_chunk, entropy=True
        )
        loss, stats = policy_loss(
            logp_BT,
            rows.old_logp_BT,
            rows.advantages_B if rows.advantages_BT is None else rows.advantages_BT,
            rows.mask_BT,
            loss_type=self.loss.loss_type,
            clip_low=self.loss.clip_low,
            clip_high=self.loss.clip_high,
            dual_clip=self.loss.dual_clip,
            weight_BT=rows.weight_BT,
            ref_logp_BT=rows.ref_logp_BT,
            kl_coef=self.loss.kl_coef,
            kl_estimator=self.loss.kl_estimator,
            kl_weighted=self.loss.kl_weighted,
            max_tokens=self.loss.max_tokens,
            normalizer=normalizer,
            entropy_BT=entropy_BT,
        )
        # One transfer for all of them.
        return loss, dict(zip(stats, torch.stack([value.float() for value in stats.values()]).tolist(), strict=True))

    def _micro_batches(self, rows: Sequence[Row]) -> Iterator[tuple[list[int], Completions]]:
        """Yield micro-batches as indices into `rows` and as tensors: packed where the model allows it, else padded."""
        model = self.base.model
        for indices in self._cut(rows, self.budget.tokens):
            piece = [rows[index] for index in indices]
            yield (
                indices,
                pack_rows(piece, dtype=model.dtype, device=model.device)
                if self._packs
                else pad_rows(piece, device=model.device),
            )

    def _cut(self, rows: Sequence[Row], tokens: int) -> list[list[int]]:
        """Return which rows make a micro-batch, for all that are computed in this process."""
        return even_batches(shared_batches if self._packs else micro_batches, rows, tokens)

    def _with_reference(self, rows: Sequence[Row], *, temperature: float) -> list[Row]:
        """Fill in the reference log-probabilities that are missing, all in one block."""
        missing = [index for index, row in enumerate(rows) if row.ref_logprobs is None]
        scored = self.logprobs(None, [rows[index] for index in missing], temperature=temperature)
        filled = list(rows)
        for index, ref_logprobs in zip(missing, scored, strict=True):
            filled[index] = replace(rows[index], ref_logprobs=ref_logprobs)
        return filled

    def _optimizer(self, policy: LLMPolicy) -> PolicyOptimizer:
        """Return the policy's own optimiser; made when it is first needed."""
        if policy.base is not self.base:
            raise ValueError(f"the policy {policy.name!r} belongs to another base than this learner's")
        if policy.name not in self._optimizers:
            if not policy.parameters():
                raise ValueError(f"{policy.name!r} is the bare base, which is never trained; make a policy with a name")
            parameters = self.base.adapters.named_parameters(policy.name)
            self._optimizers[policy.name] = PolicyOptimizer(parameters, self.optim, total_steps=self.total_steps)
        return self._optimizers[policy.name]


def _enable_recompute(model: PreTrainedModel) -> list[nn.Module]:
    """Prepare the layers of `model` to be computed again in the backward pass, and return them."""
    # Its name up to transformers 5.2x was gradient_checkpointing_enable.
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable({"use_reentrant": False})
    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


@contextmanager
def _training(layers: Sequence[nn.Module]) -> Iterator[None]:
    """Mark layers as in training, which is when transformers recomputes them.

    Only the layers themselves are marked: the dropout in them stays off, and so it does for the sampler afterwards.
    """
    for layer in layers:
        layer.training = True
    try:
        yield
    finally:
        for layer in layers:
            layer.training = False
