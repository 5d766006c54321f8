"""The fused steps of the common block: the values and the gradients of the plain ones."""

from collections.abc import Callable, Sequence

import pytest
import torch
from tiny_models import stir, tiny_base, tiny_model
from torch import nn
from torch.nn import functional as F

from agents.engines.common_block import Norm, Turn
from agents.kernels import library
from agents.kernels.elementwise import Angles
from agents.lora import LinearGroup, LoraWeights
from agents.training_block import Block, _AfterAttention, _BeforeAttention, fuse, merged_once


def block(*, act: nn.Module, head_norm: bool, merge: bool) -> Block:
    """A block of two query heads and one of keys and values, four wide, on six hidden numbers, in float64."""
    torch.manual_seed(0)

    def linear(outputs: Sequence[int], inputs: int, *, adapted: Sequence[bool]) -> LinearGroup:
        return LinearGroup(
            [
                LoraWeights(
                    torch.randn(size, inputs, dtype=torch.float64),
                    torch.randn(size, dtype=torch.float64),
                    (
                        torch.randn(2, inputs, dtype=torch.float64, requires_grad=True),
                        torch.randn(size, 2, dtype=torch.float64, requires_grad=True),
                    )
                    if is_adapted
                    else None,
                    scale=1.5,
                )
                for size, is_adapted in zip(outputs, adapted, strict=True)
            ],
            merge=merge,
        )

    def norm() -> Norm:
        return Norm(torch.randn(6, dtype=torch.float64), 1e-2)

    with torch.no_grad():
        return Block(
            norm=norm(),
            qkv=linear([8, 4, 4], 6, adapted=[True, False, True]),
            turn=Turn(3, torch.randn(3, 4, dtype=torch.float64) if head_norm else None, 1e-2),
            out=linear([6], 8, adapted=[False]),
            mlp_norm=norm(),
            gate_up=linear([5, 5], 6, adapted=[True, True]),
            act=act,
            down=linear([6], 5, adapted=[True]),
            width=4,
            kv_heads=1,
        )


def with_factors(linears: Sequence[LinearGroup], *, merge: bool) -> Callable[..., None]:
    """Let finite differences reach the factors, which a group has read before it runs."""

    def read_anew(*factors: torch.Tensor) -> None:
        places = iter(factors)
        with torch.no_grad():
            for linear in linears:
                for factor in linear.factors:
                    factor.copy_(next(places))
                linear.__init__(linear.layers, merge=merge)  # type: ignore[misc]

    return read_anew


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("head_norm", [True, False])
def test_gradients_before_attention_by_finite_differences(head_norm: bool, merge: bool) -> None:
    some = block(act=nn.SiLU(), head_norm=head_norm, merge=merge)
    angle = torch.linspace(0, 3, 6 * 2, dtype=torch.float64).view(6, 2)
    angles = Angles(torch.cat([angle.cos()] * 2, -1), torch.cat([-angle.sin(), angle.sin()], -1))
    x = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    factors = [factor.detach().clone().requires_grad_() for factor in some.qkv.factors]

    def run(x: torch.Tensor, *factors: torch.Tensor) -> torch.Tensor:
        with_factors([some.qkv], merge=merge)(*factors)
        return _BeforeAttention.apply(x, some, angles, *factors)

    assert torch.autograd.gradcheck(run, (x, *factors))


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("act", [nn.SiLU(), nn.GELU()], ids=str)
def test_gradients_after_attention_by_finite_differences(act: nn.Module, merge: bool) -> None:
    some = block(act=act, head_norm=False, merge=merge)
    linears = [some.out, some.gate_up, some.down]
    x = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    mixed = torch.randn(3, 2, 8, dtype=torch.float64).transpose(0, 1).requires_grad_()
    factors = [factor.detach().clone().requires_grad_() for linear in linears for factor in linear.factors]

    def run(mixed: torch.Tensor, x: torch.Tensor, *factors: torch.Tensor) -> torch.Tensor:
        with_factors(linears, merge=merge)(*factors)
        return _AfterAttention.apply(mixed, x, some, *factors)

    assert torch.autograd.gradcheck(run, (mixed, x, *factors))


def test_weights_are_merged_once_unless_they_change(monkeypatch: pytest.MonkeyPatch) -> None:
    base = tiny_base()
    base.policy("alice", rank=2)
    assert fuse(base.model, scratch_bytes=2**30)
    made = []
    monkeypatch.setattr(
        "agents.training_block.LinearGroup", lambda *args, **options: made.append(1) or LinearGroup(*args, **options)
    )
    ids, layers = torch.arange(40)[None], len(base.model.get_decoder().layers)

    def hidden() -> torch.Tensor:
        with torch.no_grad():
            return base.model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state

    with base.use("alice"):
        with merged_once():
            before = hidden()
            assert torch.equal(hidden(), before)
            assert len(made) == 4 * layers
            stir(base, "alice")
            assert not torch.equal(hidden(), before)
            assert len(made) == 8 * layers
            with base.use(None):
                torch.testing.assert_close(hidden(), before)  # whose adapter was still the identity
        hidden()
    assert len(made) == 16 * layers


def hidden_and_gradients(
    base_options: dict[str, object], *, fused: bool, padded: bool
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    base = tiny_base(**base_options)
    base.policy("alice", rank=2)
    base.policy("few", rank=3, target_modules=("q_proj", "up_proj"))
    stir(base, "alice")
    stir(base, "few", seed=1)
    assert not fused or fuse(base.model, scratch_bytes=2**30)
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


@pytest.mark.parametrize("compiled", [True, False])
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
def test_a_fused_model_has_the_hidden_states_and_gradients_of_its_modules(
    options: dict[str, object], padded: bool, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr(library, "LIBRARY", None)
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
    assert fuse(base.model, scratch_bytes=2**30)
    assert torch.equal(generated(), before)


@pytest.mark.parametrize("family", ["gemma4", "qwen3_5"])
def test_models_of_other_blocks_stay_as_they_are(family: str) -> None:
    model = tiny_model(family).requires_grad_(False)
    assert not fuse(model, scratch_bytes=2**30)
    assert all("forward" not in vars(layer) for layer in model.get_decoder().layers)


def test_a_model_that_multiplies_otherwise_stays_as_it_is() -> None:
    model = tiny_model("llama").requires_grad_(False)

    def shifted(norm: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda x: F.rms_norm(x, norm.weight.shape, 1 + norm.weight, norm.variance_epsilon)

    for layer in model.get_decoder().layers:
        layer.input_layernorm.forward = shifted(layer.input_layernorm)  # as other families do, with the same modules
    assert not fuse(model, scratch_bytes=2**30)
    assert all("forward" not in vars(layer) for layer in model.get_decoder().layers)


def test_a_model_whose_weights_are_too_large_to_copy_stays_as_it_is() -> None:
    model = tiny_model("llama").requires_grad_(False)
    assert not fuse(model, scratch_bytes=1000)
    assert all("forward" not in vars(layer) for layer in model.get_decoder().layers)
