"""The critic of a policy: what it expects of the contest before each token, learned by regression.

It is the policy's frozen base with a second adapter, `NAME-value`, and a linear head on the last hidden states. So it costs
one adapter of memory, and nothing that it learns touches the policy or its base. No policy has that adapter's name, so it
is never sampled with.

Dimension suffixes: `N` states of all rows, `D` width of the model. The states of a turn are those before each of its tokens
and, where the player has a next turn, the one after the last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from agents.adapter_files import AdapterSpec
from agents.policy import LLMPolicy
from algos.learner import LocalLearner
from algos.learning.batching import Completions
from algos.learning.optim import NonFiniteUpdate, PolicyOptimizer
from algos.learning.update import Watch, merge_updates, minibatches, one_update
from algos.phases import phase
from algos.rollouts import Rollout
from algos.types import Row, Stats, Turn, ValueRow

HEAD_FILE, OPTIMIZER_FILE = "head.safetensors", "optimizer.safetensors"


@dataclass(frozen=True)
class CriticConfig:
    """How the critics of PPO learn. Epochs, minibatches, schedule and clipping of gradients are those of the policies."""

    learning_rate: float = 1e-3
    """Peak learning rate."""
    value_clip: float | None = 0.2
    """A value gains nothing by moving further than this from what it was when the contests were played, on the scale of
    the rewards; None does not clip."""

    def __post_init__(self) -> None:
        if not self.learning_rate >= 0:
            raise ValueError(f"learning_rate must be a number ≥ 0, not {self.learning_rate}")
        if self.value_clip is not None and not self.value_clip > 0:
            raise ValueError(f"value_clip must be above 0, or None to clip nothing, not {self.value_clip}")


def value_loss(
    value_N: Tensor, old_value_N: Tensor, return_N: Tensor, *, clip: float | None, normalizer: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return this piece's share of the clipped squared error, and statistics that add up over pieces.

        l = ½ · max((V − G)², (V_old + clamp(V − V_old, −clip, clip) − G)²)

    as in PPO's first implementation (openai/baselines ppo2). Sums are divided by `normalizer`, the states of the whole
    batch, so that the shares of micro-batches add up to its mean.

    Args:
        value_N: V, with gradient.
        old_value_N: V_old, from when the contests were played.
        return_N: G.
        clip: half-width; None does not clip.
        normalizer: states of the whole batch.

    Returns:
        The share of the loss, and detached shares `value_loss` and `value_clipfrac` (states whose gradient is clipped away).
    """
    error_N = (value_N - return_N).square()
    clipped = torch.zeros((), device=value_N.device)
    if clip is not None:
        moved_N = value_N - old_value_N
        clipped_N = (old_value_N + moved_N.clamp(-clip, clip) - return_N).square()
        # Within the range both errors are the same number, up to rounding.
        clipped = ((clipped_N > error_N) & (moved_N.abs() > clip)).float().sum() / normalizer
        error_N = torch.maximum(error_N, clipped_N)
    loss = error_N.sum() / (2 * normalizer)
    return loss, {"value_loss": loss.detach(), "value_clipfrac": clipped}


class Critic:
    """Values of one policy's states, with parameters and an optimiser of its own."""

    def __init__(
        self, learner: LocalLearner, policy: LLMPolicy, *, spec: AdapterSpec, seed: int, config: CriticConfig | None = None
    ) -> None:
        """Add the adapter. A new critic expects 0 everywhere.

        Args:
            learner: the policy's; its micro-batches, epochs and schedule are the critic's too.
            policy: whose states are valued.
            spec: the shape of the adapter.
            seed: of the adapter's start.
            config: how it learns.
        """
        self.learner, self.policy, self.config = learner, policy, config if config is not None else CriticConfig()
        self.adapter = f"{policy.name}-value"
        base = learner.base
        base.adapters.add(self.adapter, spec, seed=seed)
        width, device = base.model.config.get_text_config().hidden_size, base.model.device
        self.head_D = nn.Parameter(torch.zeros(width, device=device))
        self.head_bias = nn.Parameter(torch.zeros((), device=device))
        self._optimizer = PolicyOptimizer(
            {**base.adapters.named_parameters(self.adapter), **self._head()},
            replace(learner.optim, learning_rate=self.config.learning_rate),
            total_steps=learner.total_steps,
        )

    def parameters(self) -> list[nn.Parameter]:
        """Return what is trained: the adapter and the head."""
        return list(self._optimizer.parameters.values())

    @phase("logprob")
    def values(
        self, prompts: Sequence[Sequence[int]], completions: Sequence[Sequence[int]], *, after: Sequence[bool]
    ) -> list[tuple[float, ...]]:
        """Value the states of some turns without gradient.

        Args:
            prompts: token ids of each prompt.
            completions: token ids of each completion.
            after: whether the state after the last token is asked for too.

        Returns:
            For each turn one value per token, and one more where `after` says so.

        Raises:
            OutOfMemory: the turns do not fit into the memory, also not in smaller micro-batches, which are tried once.
        """
        rows = [
            _states(prompt, completion, len(completion) + extra)
            for prompt, completion, extra in zip(prompts, completions, after, strict=True)
        ]

        def value() -> list[tuple[float, ...]]:
            result: list[tuple[float, ...]] = [()] * len(rows)
            with torch.no_grad(), self.learner.batches(self.adapter, rows) as batches:
                for indices, batched in batches:
                    pieces = self._values(batched).split([len(rows[index].completion_ids) for index in indices])
                    for index, piece_T in zip(indices, pieces, strict=True):
                        result[index] = tuple(piece_T.tolist())
            return result

        return self.learner.budget.fit(value, what=f"valuing with {self.adapter!r}", rows=rows)

    @phase("update")
    def forward_backward(self, rows: Sequence[ValueRow], *, normalizer: float | None = None) -> Stats:
        """Add the gradient of `value_loss`, a mean over all states of `rows`, to what has been accumulated.

        Args:
            rows: what to learn from.
            normalizer: states of the whole batch, where `rows` are but a part of it.

        Raises:
            NonFiniteUpdate: the loss is not finite.
            OutOfMemory: the rows do not fit into the memory, also not in smaller micro-batches, which are tried once.

        After any error the accumulated gradient is dropped.
        """
        states = [_states(row.prompt_ids, row.completion_ids, len(row.returns)) for row in rows]
        if normalizer is None:
            normalizer = float(max(1, sum(len(row.returns) for row in rows)))
        return self.learner.budget.fit(
            lambda: self._accumulate(rows, states, normalizer),
            what=f"an update of {self.adapter!r}",
            rows=states,
            undo=self._optimizer.drop_gradient,
            once_more=not self._optimizer.has_gradient,
        )

    @phase("update")
    def optim_step(self) -> Stats:
        """Update adapter and head by the accumulated gradient, clipped; see `PolicyOptimizer.step`."""
        return {"value_grad_norm": self._optimizer.step()["grad_norm"]}

    def drop_gradient(self) -> None:
        """Forget what has been accumulated since the last step."""
        self._optimizer.drop_gradient()

    def save(self, folder: Path) -> None:
        """Write adapter, head and optimiser to `folder`."""
        self.learner.base.save(self.adapter, folder)
        save_file({name: parameter.detach().clone() for name, parameter in self._head().items()}, folder / HEAD_FILE)
        save_file(self._optimizer.state_dict(), folder / OPTIMIZER_FILE)

    def load(self, folder: Path) -> None:
        """Go on from what `save` wrote."""
        self.learner.base.load_adapter(self.adapter, folder)
        saved = load_file(folder / HEAD_FILE)
        with torch.no_grad():
            for name, parameter in self._head().items():
                parameter.copy_(saved[name])
        self._optimizer.load_state_dict(load_file(folder / OPTIMIZER_FILE))

    def _accumulate(self, rows: Sequence[ValueRow], states: Sequence[Row], normalizer: float) -> Stats:
        total: Stats = {"value_loss": 0.0, "value_clipfrac": 0.0}
        with self.learner.batches(self.adapter, states) as batches, self._optimizer.accumulating() as collect:
            for indices, batched in batches:
                value_N = self._values(batched)
                old_N, return_N = (
                    torch.tensor([*chain.from_iterable(each)], dtype=torch.float32, device=value_N.device)
                    for each in ([rows[index].values for index in indices], [rows[index].returns for index in indices])
                )
                loss, stats = value_loss(value_N, old_N, return_N, clip=self.config.value_clip, normalizer=normalizer)
                if not math.isfinite(loss.item()):
                    raise NonFiniteUpdate(f"the loss of {self.adapter!r} is {loss.item()}; nothing was stepped")
                loss.backward()
                collect()
                total = {name: total[name] + value.item() for name, value in stats.items()}
        return total

    def _head(self) -> dict[str, nn.Parameter]:
        return {"head": self.head_D, "head_bias": self.head_bias}

    def _values(self, batched: Completions) -> Tensor:
        hidden_ND = batched.predictors(self.learner.base.model.get_decoder())
        return hidden_ND.float() @ self.head_D + self.head_bias


def appraise(rollout: Rollout, turns: Sequence[Turn], critics: Mapping[str, Critic]) -> list[Turn]:
    """Return the turns with what `algos.gae` needs: the values of the policies' turns, and their contests.

    Args:
        rollout: where the turns were played.
        turns: its turns, in its order; their rewards may have changed.
        critics: policy → its critic. Turns of others stay as they are.
    """
    cut = {
        index
        for index, contest in enumerate(rollout.contests)
        if contest.outcome is not None and contest.outcome.reason == "max_turns"
    }
    result = list(turns)
    for name, critic in critics.items():
        own = [
            (index, turn.completion.token_ids)
            for index, turn in enumerate(turns)
            if turn.policy == name and turn.completion is not None
        ]
        valued = critic.values(
            [turns[index].prompt_ids for index, _ in own],
            [token_ids for _, token_ids in own],
            after=[turns[index].later > 0 or not cut.isdisjoint(rollout.beneath[index]) for index, _ in own],
        )
        for (index, _), values in zip(own, valued, strict=True):
            contests = rollout.beneath[index]
            result[index] = replace(
                turns[index], values=values, contests=contests, unfinished=frozenset(cut.intersection(contests))
            )
    return result


def update_critic(critic: Critic, rows: Sequence[ValueRow], *, seed: Sequence[int], watch: Watch | None = None) -> Stats:
    """Update a critic on `rows`, in the epochs and minibatches that its policy has.

    Args:
        critic: who learns.
        rows: what from; without rows nothing moves, and the learning-rate schedule goes on.
        seed: shuffles the rows.
        watch: told of updates that can't be made, which are left out then. None: they raise.

    Returns:
        Means over the updates of `value_loss`, `value_clipfrac` and `value_grad_norm`; `value_skipped`, how many updates were
        left out, if any were; and `explained_variance`, 1 − Var(G − V)/Var(G) of the values before the update, where the
        returns differ.
    """
    optim, done = critic.learner.optim, []
    for indices in minibatches(len(rows), epochs=optim.epochs, parts=optim.minibatches, seed=seed):
        part = [rows[index] for index in indices]
        done.append(
            one_update(
                partial(critic.forward_backward, part) if part else dict,
                step=critic.optim_step,
                drop_gradient=critic.drop_gradient,
                leave_out=None if watch is None else partial(watch.critic_skipped, critic, part),
                counted="value_skipped",
            )
        )
    stats = merge_updates(done)
    returns = np.array([*chain.from_iterable(row.returns for row in rows)])
    if len(returns) and returns.var() > 0:
        values = np.array([*chain.from_iterable(row.values for row in rows)])
        stats["explained_variance"] = float(1 - (returns - values).var() / returns.var())
    return stats


def _states(prompt_ids: Sequence[int], completion_ids: Sequence[int], states: int) -> Row:
    """Return a row whose "completion tokens" are predicted at these states.

    The state after the last token predicts a token that was never sampled: any id will do, for nobody looks at it.
    """
    ids = (*completion_ids, 0)[:states]
    return Row(tuple(prompt_ids), ids, (0.0,) * states, 0.0)
