"""`TinkerLearner`: the four verbs at a Tinker service, which has the base, the adapters and the optimisers.

Losses whose clipping is that of a token ("grpo", "dr_grpo", "dapo", "bnpo", "cispo") are the service's own "ppo" and "cispo",
which sum over tokens: what they are divided by, and the weights of tokens, are multiplied into the advantages. All others are
computed here, from the log-probabilities that the service sends, by `policy_loss`: one more forward pass there.

Dimension suffixes: `B` sequences, `T` positions of the completion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from agents.adapters import BASE
from agents.engines.tinker import TinkerBase, answer
from agents.policy import LLMPolicy
from agents.sampling import Completion, Request, sample_many
from agents.shared_base import SharedBase
from algos.errors import ConfigError, RunStopped
from algos.learner import Learner, check_lengths
from algos.learning.batching import completion_tensors
from algos.learning.memory import TokenBudget
from algos.learning.optim import NonFiniteUpdate, OptimConfig, learning_rate
from algos.losses import TOKEN_MEANS, LossConfig, count_normalizer, policy_loss
from algos.phases import phase
from algos.types import Batch, Row, Stats

if TYPE_CHECKING:
    from algos.config import TrainConfig


def service_loss(loss: LossConfig) -> tuple[str, dict[str, float]] | None:
    """Return the service's own loss that is ours but for the size of the advantages, and its settings; None if there is none.

    Source: https://tinker-docs.thinkingmachines.ai/losses
    """
    if loss.kl_coef or loss.loss_type == "gspo":
        return None
    if loss.loss_type == "cispo":
        return "cispo", {"clip_low_threshold": 0.0, "clip_high_threshold": 1 + loss.clip_high}
    if loss.dual_clip is not None:
        return None
    return "ppo", {"clip_low_threshold": 1 - loss.clip_low, "clip_high_threshold": 1 + loss.clip_high}


class TinkerLearner(Learner):
    """A learner whose work is done by a service. Only token ids, numbers and names cross."""

    def __init__(
        self,
        base: SharedBase,
        *,
        loss: LossConfig | None = None,
        optim: OptimConfig | None = None,
        total_steps: int | None = None,
    ) -> None:
        """Learn on the policies of `base`, a `TinkerBase`; for the other arguments and the errors see `LocalLearner`."""
        self.base = cast(TinkerBase, base)
        self.loss = loss if loss is not None else LossConfig()
        self.optim = optim if optim is not None else OptimConfig()
        self.total_steps = total_steps
        check_lengths(self.loss, self.optim, total_steps=total_steps)
        self.budget = TokenBudget(0)  # the service makes its own micro-batches
        self._steps: dict[str, int] = {}
        self._has_gradient: set[str] = set()

    def sample(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """Return the completions of each request, sampled by the service from its policy as it is now."""
        return sample_many(requests)

    @phase("update")
    def forward_backward(self, policy: LLMPolicy, batch: Batch) -> Stats:
        """Have the service add the gradient of the loss on `batch`; see `LocalLearner.forward_backward`.

        Raises:
            NonFiniteUpdate: the log-probabilities of the service are not finite.
            ServerFailed: it does not answer.
        """
        normalizer = batch.normalizer
        if normalizer is None:
            normalizer = count_normalizer(self.loss.loss_type, [len(row.completion_ids) for row in batch.rows])
        rows = [row for row in batch.rows if row.completion_ids and (row.has_signal or self.loss.kl_coef)]
        counts = {"rows": float(len(batch.rows)), "rows_computed": float(len(rows))}
        if not rows:
            return {"loss": 0.0, "tokens": 0.0, **counts}
        if self.loss.kl_coef and any(row.ref_logprobs is None for row in rows):
            references = self.logprobs(None, rows, temperature=batch.temperature)
            rows = [replace(row, ref_logprobs=reference) for row, reference in zip(rows, references, strict=True)]
        trainer, doing = self.base.trainer(policy.name), f"an update of {policy.name!r}"
        own = service_loss(self.loss)
        self._has_gradient.add(policy.name)
        if own is not None:
            name, config = own
            data = [_datum(row, self._token_advantages(row, normalizer)) for row in rows]
            output = answer(partial(trainer.forward_backward, data, name, config), doing)
            logp_BT = _of_completions(rows, [torch.tensor(one["logprobs"].tolist()) for one in output.loss_fn_outputs])
            return self._policy_loss(rows, logp_BT, normalizer)[1] | counts
        found: Stats = {}

        def loss_here(_data: Any, logprobs: Sequence[Tensor]) -> tuple[Tensor, dict[str, float]]:
            loss, stats = self._policy_loss(rows, _of_completions(rows, logprobs), normalizer)
            found.update(stats)
            return loss, {}

        answer(partial(trainer.forward_backward_custom, [_datum(row) for row in rows], loss_here), doing)
        return found | counts

    @phase("update")
    def optim_step(self, policy: LLMPolicy) -> Stats:
        """Have the service update the policy by AdamW; where it has no gradient nothing moves, and the schedule goes on.

        Returns:
            `learning_rate`, and `grad_norm` if the service tells it.
        """
        from tinker import AdamParams

        step = self._steps.get(policy.name, 0)
        self._steps[policy.name] = step + 1
        stats = {"learning_rate": learning_rate(step, self.optim, total_steps=self.total_steps)}
        if policy.name not in self._has_gradient:
            return stats
        beta1, beta2 = self.optim.betas
        params = AdamParams(
            learning_rate=stats["learning_rate"],
            beta1=beta1,
            beta2=beta2,
            eps=self.optim.eps,
            weight_decay=self.optim.weight_decay,
            grad_clip_norm=self.optim.max_grad_norm or 0.0,
        )
        done = answer(partial(self.base.trainer(policy.name).optim_step, params), f"an optimiser step of {policy.name!r}")
        self._has_gradient.discard(policy.name)
        self.base.moved(policy.name)
        told = {name.partition(":")[0]: value for name, value in (done.metrics or {}).items()}
        return stats | {name: told[name] for name in ("grad_norm",) if name in told}

    def drop_gradient(self, policy: LLMPolicy) -> None:
        """Do nothing where there is no gradient.

        Raises:
            RunStopped: there is one: a service can't be told to forget it.
        """
        if policy.name in self._has_gradient:
            raise RunStopped(
                f"an update of {policy.name} can't be left out: the Tinker service has its gradient already, and can't be told "
                "to forget it. Go on from the last checkpoint, with a lower learning rate or other guards"
            )

    def save(self, policy: LLMPolicy, folder: str | Path) -> None:
        """Have the service export the adapter, and bring it to `folder`, in PEFT's layout."""
        policy.save(folder)

    @phase("logprob")
    def logprobs(self, policy: LLMPolicy | None, rows: Sequence[Row], *, temperature: float = 1.0) -> list[tuple[float, ...]]:
        """Score completions, by the training client of a policy, or by a sampler of the bare base; temperature 1."""
        if temperature != 1:
            raise ValueError(f"a Tinker service scores at temperature 1, not {temperature}")
        if policy is None:
            from tinker import ModelInput

            sampler = self.base.sampler(BASE)
            texts = [ModelInput.from_ints([*row.prompt_ids, *row.completion_ids]) for row in rows]
            asked = [sampler.compute_logprobs(text) for text in texts]
            scored = [answer(partial(lambda one: one, one), "the log-probabilities of the base") for one in asked]
        elif rows:
            forward = partial(
                self.base.trainer(policy.name).forward, [_datum(row, weights=True) for row in rows], "cross_entropy"
            )
            output = answer(forward, f"the log-probabilities of {policy.name!r}")
            scored = [one["logprobs"].tolist() for one in output.loss_fn_outputs]
        else:
            scored = []
        return [tuple(logp[len(logp) - len(row.completion_ids) :]) for logp, row in zip(scored, rows, strict=True)]

    def state_dict(self, policy: LLMPolicy) -> dict[str, Tensor]:
        """Have the service keep the policy and its optimiser; return where, and the place in the schedule."""
        steps = self._steps.get(policy.name, 0)
        save = partial(self.base.trainer(policy.name).save_state, f"{policy.name}-{steps}", overwrite=True)
        path = answer(save, f"a checkpoint of {policy.name!r}").path
        return {"steps": torch.tensor(steps), "path": torch.tensor(list(path.encode()), dtype=torch.uint8)}

    def load_state_dict(self, policy: LLMPolicy, state: dict[str, Tensor]) -> None:
        """Have the service go on from what `state_dict` has it keep."""
        if state.keys() != {"steps", "path"}:
            raise ValueError("the optimiser state is not that of a Tinker service")
        self.base.resume(policy.name, bytes(state["path"].tolist()).decode())
        self._steps[policy.name] = int(state["steps"])
        self._has_gradient.discard(policy.name)

    def _token_advantages(self, row: Row, normalizer: float) -> list[float]:
        """Return the advantage of each token, times its weight and its share of the mean."""
        length = len(row.completion_ids)
        share = 1 / normalizer
        if self.loss.loss_type not in TOKEN_MEANS:
            share /= length if self.loss.loss_type == "grpo" else cast(int, self.loss.max_tokens)
        advantages = row.advantages if row.advantages is not None else (row.advantage,) * length
        return [share * a * w for a, w in zip(advantages, row.weights or (1.0,) * length, strict=True)]

    def _policy_loss(self, rows: Sequence[Row], logp_BT: Tensor, normalizer: float) -> tuple[Tensor, Stats]:
        if not all(bool(logp_T[: len(row.completion_ids)].isfinite().all()) for logp_T, row in zip(logp_BT, rows, strict=True)):
            raise NonFiniteUpdate("the log-probabilities of the Tinker service are not finite")
        own = completion_tensors(rows, device="cpu")
        loss, stats = policy_loss(
            logp_BT,
            own["old_logp_BT"],
            own["advantages_B"] if own["advantages_BT"] is None else own["advantages_BT"],
            own["mask_BT"],
            loss_type=self.loss.loss_type,
            clip_low=self.loss.clip_low,
            clip_high=self.loss.clip_high,
            dual_clip=self.loss.dual_clip,
            weight_BT=own["weight_BT"],
            ref_logp_BT=own["ref_logp_BT"],
            kl_coef=self.loss.kl_coef,
            kl_estimator=self.loss.kl_estimator,
            kl_weighted=self.loss.kl_weighted,
            max_tokens=self.loss.max_tokens,
            normalizer=normalizer,
        )
        return loss, {name: float(value) for name, value in stats.items()}


def _datum(row: Row, advantages: Sequence[float] | None = None, *, weights: bool = False) -> Any:
    """Return a row as the service takes it: each position predicts the next token; those of the prompt count nothing."""
    from tinker import Datum, ModelInput

    ids, before = [*row.prompt_ids, *row.completion_ids], [0.0] * (len(row.prompt_ids) - 1)
    inputs: dict[str, Any] = {"target_tokens": ids[1:]}
    if advantages is not None:
        inputs |= {"logprobs": [*before, *row.old_logprobs], "advantages": [*before, *advantages]}
    if weights:
        inputs["weights"] = [*before, *[1.0] * len(row.completion_ids)]
    return Datum(model_input=ModelInput.from_ints(ids[:-1]), loss_fn_inputs=inputs)


def _of_completions(rows: Sequence[Row], logprobs: Sequence[Tensor]) -> Tensor:
    """Return the log-probabilities of completions, out of those of whole rows, side by side."""
    return pad_sequence([logp[-len(row.completion_ids) :] for logp, row in zip(logprobs, rows, strict=True)], batch_first=True)


def check_learner(config: TrainConfig) -> None:
    """Refuse what names no learner, and what a remote one can't do.

    Raises:
        ConfigError: the message says what is in the way.
    """
    kind, _, url = config.learner.partition(":")
    if config.learner == "local":
        return
    if kind != "tinker" or not (config.learner == "tinker" or url.startswith(("http://", "https://"))):
        raise ConfigError(f'learner must be "local", "tinker" or "tinker:URL" of a service, not {config.learner!r}')
    opponents = config.opponent.partition(":")[0]
    refused = {
        f"engine={config.engine!r}": config.engine != "torch",
        f"ranks={config.ranks}": config.ranks > 1,
        f"ray.address={config.ray.address!r}": bool(config.ray.address),
        f"temperature={config.temperature}": config.temperature != 1,
        f"opponent={config.opponent!r}": opponents in ("pool", "frozen"),
        f"algorithm={config.algorithm!r}": config.make_algorithm().critic,
    }
    if found := [setting for setting, is_refused in refused.items() if is_refused]:
        raise ConfigError(
            f"a Tinker service samples and learns by itself, at temperature 1, and keeps the weights: {', '.join(found)} can't "
            "be had with it"
        )
