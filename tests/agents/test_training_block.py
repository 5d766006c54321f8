"""The fused steps of the common block: the values and the gradients of the plain ones."""

from collections.abc import Callable

import pytest
import torch
from tiny_models import stir, tiny_base, tiny_model
from torch import nn
from torch.nn import functional as F

from agents.training_block import fuse, rms_norm, rotate, swiglu


def plain_rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    one, two = x.chunk(2, -1)
    return torch.cat([one * cos[..., :3] - two * sin[..., 3:], two * cos[..., 3:] + one * sin[..., 3:]], -1)


def angles() -> tuple[torch.Tensor, torch.Tensor]:
    angle = torch.linspace(0, 3, 5 * 3).double().view(5, 1, 3)
    return torch.cat([angle.cos()] * 2, -1), torch.cat([-angle.sin(), angle.sin()], -1)


WEIGHT = torch.linspace(-1, 2, 12, dtype=torch.float64).view(2, 6)
STEPS = {
    "rms_norm": (lambda x: rms_norm(x, WEIGHT, 1e-2), lambda x: F.rms_norm(x, (6,), None, 1e-2) * WEIGHT),
    "rotate": (lambda x: rotate(x, *angles()), lambda x: plain_rotate(x, *angles())),
    "swiglu": (swiglu, lambda x: F.silu(x[..., :3]) * x[..., 3:]),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("contiguous", [True, False])
def test_a_step_and_its_gradient_equal_the_plain_one(name: str, contiguous: bool) -> None:
    fused, plain = STEPS[name]
    torch.manual_seed(0)
    whole = torch.randn(3, 5, 4, 6, dtype=torch.float64)
    x = (whole[:, :, :2].contiguous() if contiguous else whole[:, :, 1:3]).requires_grad_()
    torch.testing.assert_close(fused(x), plain(x))
    assert torch.autograd.gradcheck(fused, (x,))


def hidden_and_gradients(
    base_options: dict[str, object], *, fused: bool, padded: bool
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    base = tiny_base(**base_options)
    base.policy("alice", rank=2)
    base.policy("few", rank=3, target_modules=("q_proj", "up_proj"))
    stir(base, "alice")
    stir(base, "few", seed=1)
    assert not fused or fuse(base.model)
    decoder = base.model.get_decoder()
    ids = torch.arange(24).view(2, 12) % 50
    mask = torch.ones_like(ids)
    mask[1, 9:] = 0
    grads, hidden = {}, []
    for name in ("alice", "few"):
        with base.use(name):
            out = decoder(input_ids=ids, attention_mask=mask if padded else None, use_cache=False).last_hidden_state
            out = out[mask.bool()] if padded else out.flatten(0, 1)
            (out * torch.linspace(-1, 1, out.numel()).view(out.shape)).sum().backward()
        hidden.append(out.detach())
        grads |= {key: p.grad for key, p in base.adapters.named_parameters(name).items() if p.grad is not None}
    return torch.cat(hidden), grads


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {"family": "qwen3"},
        {"family": "llama"},
        {"family": "llama", "attention_bias": True, "mlp_bias": True},
        {"family": "qwen3", "hidden_act": "gelu"},
    ],
    ids=str,
)
def test_a_fused_model_has_the_hidden_states_and_gradients_of_its_modules(options: dict[str, object], padded: bool) -> None:
    (ours, ours_grads), (theirs, theirs_grads) = (
        hidden_and_gradients(options, fused=fused, padded=padded) for fused in (True, False)
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)
    assert ours_grads.keys() == theirs_grads.keys()
    for name, grad in theirs_grads.items():
        assert grad.any()
        torch.testing.assert_close(ours_grads[name], grad, rtol=1e-2, atol=1e-3 * float(grad.abs().max()))


def test_generation_with_a_cache_is_left_to_the_modules() -> None:
    base = tiny_base()
    base.policy("alice", rank=2)
    stir(base, "alice")
    ids = torch.arange(5)[None]

    def generated() -> torch.Tensor:
        with base.use("alice"):
            return base.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, do_sample=False)

    before = generated()
    assert fuse(base.model)
    assert torch.equal(generated(), before)


@pytest.mark.parametrize("family", ["gemma4", "qwen3_5"])
def test_models_of_other_blocks_stay_as_they_are(family: str) -> None:
    model = tiny_model(family).requires_grad_(False)
    assert not fuse(model)
    assert all("forward" not in vars(layer) for layer in model.get_decoder().layers)


def test_a_model_that_multiplies_otherwise_stays_as_it_is() -> None:
    model = tiny_model("llama").requires_grad_(False)

    def shifted(norm: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda x: F.rms_norm(x, norm.weight.shape, 1 + norm.weight, norm.variance_epsilon)

    for layer in model.get_decoder().layers:
        layer.input_layernorm.forward = shifted(layer.input_layernorm)  # as other families do, with the same modules
    assert not fuse(model)
    assert all("forward" not in vars(layer) for layer in model.get_decoder().layers)
