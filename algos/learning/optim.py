"""The optimiser of one policy: AdamW over the parameters of one adapter, clipping, and the learning rate.

Every policy has its own. An optimiser that two adapters share would move the idle one too: its momentum
and its weight decay go on without a gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from algos.types import Stats

Schedule: TypeAlias = Literal["constant", "linear", "cosine"]


class UnsoundUpdate(RuntimeError):
    """Nothing can be learned from a batch. Nothing was stepped."""


class NonFiniteUpdate(UnsoundUpdate):
    """A loss or a gradient is infinite or NaN. Nothing was stepped, and the gradients of the policy were dropped."""


@dataclass(frozen=True)
class OptimConfig:
    """How the policies are updated, each by its own AdamW."""

    learning_rate: float = 1e-3
    """Peak learning rate. 1e-3 suits a model of a million parameters; adapters of real ones take 1e-5 to 5e-5."""
    epochs: int = 1
    """How often the rows of a training step are used."""
    minibatches: int = 1
    """Into how many parts they are divided in each epoch; every part makes an optimiser step."""
    warmup_steps: int = 0
    """Optimiser steps over which the learning rate rises to its peak."""
    schedule: Schedule = "constant"
    """What the learning rate does afterwards: "constant", or "linear" or "cosine" down to 0 at the last step."""
    betas: tuple[float, float] = (0.9, 0.999)
    """AdamW's decay rates of the two moments."""
    eps: float = 1e-8
    """AdamW's term against division by zero."""
    weight_decay: float = 0.0
    """AdamW's decoupled weight decay."""
    max_grad_norm: float | None = 1.0
    """The gradient of each policy is scaled down to this norm; None does not clip."""
    token_budget: int | None = None
    """Most tokens, padding included, of one micro-batch. It bounds memory and changes no gradient. None: 1,200 on a
    CPU, whose caches like it small, else 16,384."""
    logit_chunk: int | None = None
    """Tokens whose logits exist at once. None: as many as fit into 0.5 GB."""
    recompute: bool = False
    """Compute the activations of each layer again in the backward pass instead of keeping them: long sequences fit,
    for about a third more time."""

    def __post_init__(self) -> None:
        if not self.learning_rate >= 0:
            raise ValueError(f"learning_rate must be a number ≥ 0, not {self.learning_rate}")
        for name in ("epochs", "minibatches"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.warmup_steps < 0:
            raise ValueError(f"warmup_steps must be at least 0, not {self.warmup_steps}")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas must be in [0, 1), not {self.betas}")
        for name in ("eps", "weight_decay"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be a number ≥ 0, not {getattr(self, name)}")
        if self.schedule not in ("constant", "linear", "cosine"):
            raise ValueError(f'schedule must be "constant", "linear" or "cosine", not {self.schedule!r}')
        if self.max_grad_norm is not None and not self.max_grad_norm > 0:
            raise ValueError(f"max_grad_norm must be above 0, or None to clip nothing, not {self.max_grad_norm}")
        for name in ("token_budget", "logit_chunk"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1 token, or None to choose it by the hardware, not {value}")


def learning_rate(step: int, config: OptimConfig, *, total_steps: int | None = None) -> float:
    """Return the learning rate of a step.

    Args:
        step: counted from 0. The first step of a warm-up of w steps has 1/w of the peak.
        config: peak, warm-up and schedule.
        total_steps: steps of the whole run, where a decaying rate reaches 0.

    Raises:
        ValueError: the schedule decays, but it is not said until when.
    """
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    if config.schedule == "constant":
        return config.learning_rate
    if total_steps is None:
        raise ValueError(f'the schedule "{config.schedule}" needs total_steps, the steps of the whole run')
    done = min(1.0, (step - config.warmup_steps) / max(1, total_steps - config.warmup_steps))
    return config.learning_rate * (1 - done if config.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2)


class PolicyOptimizer:
    """AdamW over the parameters of one policy, and of no other."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], config: OptimConfig, *, total_steps: int | None = None) -> None:
        """Begin at step 0.

        Args:
            parameters: name → parameter; whatever they require at the moment, these are what is trained.
            config: how.
            total_steps: steps of the whole run, for schedules that decay.
        """
        self.parameters, self.config, self.total_steps = dict(parameters), config, total_steps
        self.steps = 0
        """How often `step` was called; the place in the schedule."""
        self._sums: dict[str, Tensor] = {}
        self._adam = torch.optim.AdamW(
            list(self.parameters.values()),
            lr=learning_rate(0, config, total_steps=total_steps),
            betas=config.betas,
            eps=config.eps,
            weight_decay=config.weight_decay,
            # One pass over each parameter instead of a dozen. On a GPU it wants its counters there; None, which is not False,
            # leaves torch to update all parameters together.
            fused=all(parameter.device.type == "cpu" for parameter in self.parameters.values()) or None,
        )

    @property
    def has_gradient(self) -> bool:
        """Whether anything has been accumulated since the last step."""
        return any(parameter.grad is not None for parameter in self.parameters.values())

    @contextmanager
    def accumulating(self) -> Iterator[Callable[[], None]]:
        """Add up the gradients of several backward passes, in float64.

        In float32 the sum would depend on their order, and so on who computes which; Adam makes a difference as large as
        the gradient out of one where the gradient is all but 0.

        Yields:
            What to call after each backward pass.
        """
        for parameter in self.parameters.values():
            parameter.grad = None
        try:
            yield self._collect
        finally:
            self._show()

    def add_up(self, all_reduce: Callable[[Tensor], None]) -> None:
        """Add up what several processes have accumulated, each of them a share of the rows.

        One without rows has accumulated nothing and adds nothing. Where none has anything, there is still nothing
        afterwards: for Adam a gradient of 0 is not the same as none.

        Args:
            all_reduce: makes a flat float64 tensor the sum of those of all processes, in place.
        """
        pieces = [
            self._sums[name].flatten() if name in self._sums else parameter.new_zeros(parameter.numel(), dtype=torch.float64)
            for name, parameter in self.parameters.items()
        ]
        total = torch.cat([*pieces, pieces[0].new_tensor([float(bool(self._sums))])])
        all_reduce(total)
        if total[-1]:
            sizes = [parameter.numel() for parameter in self.parameters.values()]
            for (name, parameter), piece in zip(self.parameters.items(), total[:-1].split(sizes), strict=True):
                self._sums[name] = piece.view_as(parameter)
            self._show()

    def step(self) -> Stats:
        """Clip the gradient, update the parameters, drop the gradient.

        Where there is no gradient, because no row of the batch carried a signal, nothing moves; the schedule
        goes on.

        Returns:
            `grad_norm` (before clipping) and `learning_rate`.

        Raises:
            NonFiniteUpdate: the gradient is not finite.
        """
        rate = learning_rate(self.steps, self.config, total_steps=self.total_steps)
        gradients = [parameter.grad for parameter in self.parameters.values() if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients) if gradients else torch.zeros(())
        if not norm.isfinite():
            self.drop_gradient()
            raise NonFiniteUpdate(f"the norm of the gradient is {norm.item()}; the step was not taken")
        if gradients:
            if self.config.max_grad_norm is not None:
                torch.nn.utils.clip_grads_with_norm_(self.parameters.values(), self.config.max_grad_norm, norm)
            for group in self._adam.param_groups:
                group["lr"] = rate
            self._adam.step()
            self.drop_gradient()
        self.steps += 1
        return {"grad_norm": norm.item(), "learning_rate": rate}

    def drop_gradient(self) -> None:
        """Forget the gradient. It becomes None: for Adam a gradient of 0 is not the same as none."""
        self._sums.clear()
        self._adam.zero_grad(set_to_none=True)

    def state_dict(self) -> dict[str, Tensor]:
        """Return copies of the moments and counters, by flat names; fit for safetensors. Gradients are not part of it."""
        state = {"steps": torch.tensor(self.steps)}
        for name, parameter in self.parameters.items():
            for key, value in self._adam.state.get(parameter, {}).items():
                state[f"{key}:{name}"] = value.detach().clone()
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from where `state_dict` was taken.

        Raises:
            ValueError: the state is that of other parameters; nothing is changed.
        """
        moments: dict[Tensor, dict[str, Tensor]] = {}
        for key, value in state.items():
            if key == "steps":
                continue
            kind, _, name = key.partition(":")
            parameter = self.parameters.get(name)
            if parameter is None or (kind != "step" and value.shape != parameter.shape):
                raise ValueError(
                    f"the optimiser state holds {key} {tuple(value.shape)}, which is none of this policy's parameters"
                )
            # Adam keeps its step counters on the CPU.
            moments.setdefault(parameter, {})[kind] = value.clone() if kind == "step" else value.to(parameter.device, copy=True)
        if "steps" not in state or (moments and len(moments) != len(self.parameters)):
            raise ValueError("the optimiser state is incomplete: it does not cover every parameter of this policy")
        self.steps = int(state["steps"])
        self._adam.state.clear()
        self._adam.state.update(moments)
        self.drop_gradient()

    def _collect(self) -> None:
        for name, parameter in self.parameters.items():
            if parameter.grad is None:
                continue
            # Laid out as the parameter is, whatever the gradient's strides are: AdamW in one pass goes by the place in memory.
            self._sums.setdefault(name, torch.zeros_like(parameter, dtype=torch.float64)).add_(parameter.grad)
            parameter.grad = None

    def _show(self) -> None:
        """Round the sums to gradients of the parameters' type."""
        for name, total in self._sums.items():
            self.parameters[name].grad = total.to(self.parameters[name].dtype)
