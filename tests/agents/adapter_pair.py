"""Two policies on one tiny base, both away from their start, and what is looked at of them."""

import torch
from tiny_models import stir, tiny_base
from torch import Tensor

from agents.shared_base import SharedBase


def stirred_pair() -> SharedBase:
    """Return a base with the adapters "alice" and "bob", neither of which is the identity."""
    base = pair(tiny_base())
    stir(base, "alice", seed=1)
    stir(base, "bob", seed=2)
    return base


def pair(base: SharedBase) -> SharedBase:
    base.policy("alice", rank=4)
    base.policy("bob", rank=4)
    return base


def ids(seed: int = 0) -> Tensor:
    return torch.randint(0, 300, (3, 11), generator=torch.Generator().manual_seed(seed))


def logits(base: SharedBase, name: str | None) -> Tensor:
    with torch.no_grad(), base.use(name):
        return base.model(ids()).logits


def loss(base: SharedBase, seed: int = 0) -> Tensor:
    return base.model(ids(seed)).logits.log_softmax(-1)[..., 3].sum()


def gradients(base: SharedBase, name: str) -> list[Tensor | None]:
    return [None if parameter.grad is None else parameter.grad.clone() for parameter in base.parameters(name)]


def requires_grad(base: SharedBase) -> dict[str, bool]:
    return {name: parameter.requires_grad for name, parameter in base.model.named_parameters()}


def checkpoint_activations(base: SharedBase, *, reentrant: bool) -> None:
    base.model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    base.model.enable_input_require_grads()
    base.model.train()
