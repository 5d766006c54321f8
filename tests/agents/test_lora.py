"""The lean product of a LoRA layer, against PEFT's own."""

import copy

import pytest
import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import Linear as LoraLinear
from tiny_models import stir, tiny_base
from torch import nn

from agents.lora import LoraWeights, lora_linear


def lora_layer(*, bias: bool, dtype: torch.dtype = torch.float64) -> LoraLinear:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7, bias=bias)).to(dtype)
    peft = get_peft_model(model, LoraConfig(r=3, lora_alpha=7, target_modules=["0"], init_lora_weights=False))
    layer = peft.base_model.model[0]
    assert isinstance(layer, LoraLinear)
    return layer.to(dtype)


def lean(layer: LoraLinear, x: torch.Tensor) -> torch.Tensor:
    base, a, b = layer.base_layer, layer.lora_A["default"].weight, layer.lora_B["default"].weight
    return lora_linear(x, LoraWeights(base.weight.detach(), base.bias, (a, b), layer.scaling["default"]))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(4, 5), (2, 3, 5), (2, 1, 3, 5)])
@pytest.mark.parametrize("needs_x", [True, False])
def test_output_and_gradients_equal_pefts(bias: bool, shape: tuple[int, ...], needs_x: bool) -> None:
    layer = lora_layer(bias=bias)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=needs_x)
    wanted = [*([x] if needs_x else []), layer.lora_A["default"].weight, layer.lora_B["default"].weight]
    weight = torch.randn(*shape[:-1], 7, dtype=torch.float64)
    outs = [layer(x), lean(layer, x)]
    grads = [torch.autograd.grad((out * weight).sum(), wanted) for out in outs]
    torch.testing.assert_close(outs[1], outs[0])
    for ours, theirs in zip(grads[1], grads[0], strict=True):
        assert theirs.any()
        torch.testing.assert_close(ours, theirs)
    with torch.no_grad():
        torch.testing.assert_close(lean(layer, x), outs[0])


def test_inputs_that_are_not_contiguous() -> None:
    layer = lora_layer(bias=False)
    x = torch.randn(5, 3, 2, dtype=torch.float64).transpose(0, 2)
    torch.testing.assert_close(lean(layer, x), layer(x))


def test_gradients_by_finite_differences() -> None:
    layer = lora_layer(bias=True)
    x = torch.randn(2, 2, 5, dtype=torch.float64, requires_grad=True)
    inputs = [t.detach().requires_grad_() for t in (layer.lora_A["default"].weight, layer.lora_B["default"].weight)]
    weight, bias = layer.base_layer.weight.detach(), layer.base_layer.bias.detach()
    assert torch.autograd.gradcheck(lambda x, a, b: lora_linear(x, LoraWeights(weight, bias, (a, b), 1.7)), (x, *inputs))


def test_a_shared_base_multiplies_in_this_way_and_keeps_pefts_names(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr("agents.adapters.lora_linear", lambda *args: calls.append(1) or lora_linear(*args))
    base = tiny_base()
    base.policy("alice", rank=2)
    stir(base, "alice")
    layers = [module for module in base.model.modules() if isinstance(module, LoraLinear)]
    ids = torch.arange(8)[None]
    with torch.no_grad(), base.use("alice"):
        ours = base.model(ids).logits
        assert len(calls) == len(layers)
        for layer in layers:
            del layer.forward
        theirs = base.model(ids).logits
    assert len(calls) == len(layers)
    torch.testing.assert_close(ours, theirs)
    assert {key.rpartition(".lora_")[2] for key in base.adapters.named_parameters("alice")} == {
        "A.alice.weight",
        "B.alice.weight",
    }


def test_layers_that_an_adapter_leaves_out_are_the_base() -> None:
    base = tiny_base()
    base.policy("alice", rank=2)
    base.policy("few", rank=2, target_modules=("q_proj",))
    stir(base, "alice")
    ids = torch.arange(8)[None]
    with torch.no_grad():
        with base.use(None):
            bare = base.model(ids).logits
        with base.use("few"):
            assert torch.equal(base.model(ids).logits, bare)


@pytest.mark.parametrize("state", ["merged", "two at once", "bfloat16 base", "autocast", "adapters by row"])
def test_what_is_not_the_usual_case_is_left_to_peft(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    base = tiny_base()
    for seed, name in enumerate(("alice", "bob")):
        base.policy(name, rank=2)
        stir(base, name, seed=seed)
    monkeypatch.setattr("agents.adapters.lora_linear", lambda *_, **__: pytest.fail("not the usual case"))
    layer = base.model.get_decoder().layers[0].self_attn.q_proj
    x = torch.randn(2, 3, 32)
    with torch.no_grad(), base.use("alice"):
        if state == "merged":
            layer.merge(adapter_names=["alice"])
        elif state == "two at once":
            layer._active_adapter = ["alice", "bob"]
        elif state == "bfloat16 base":
            layer.base_layer.to(torch.bfloat16)
            x = x.to(torch.bfloat16)
        extra = {"adapter_names": ["alice", "bob"]} if state == "adapters by row" else {}
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=state == "autocast"):
            assert torch.equal(layer(x, **extra), LoraLinear.forward(layer, x, **extra))
        if state == "two at once":
            layer._active_adapter = ["alice"]


def test_a_copy_of_a_layer_multiplies_with_factors_of_its_own() -> None:
    base = tiny_base()
    base.policy("alice", rank=2)
    stir(base, "alice")
    layer, x = base.model.get_decoder().layers[0].self_attn.q_proj, torch.randn(2, 3, 32)
    with torch.no_grad(), base.use("alice"):
        before, other = layer(x), copy.deepcopy(layer)
        other.lora_B["alice"].weight.zero_()
        assert torch.equal(other(x), layer.base_layer(x))
        assert torch.equal(layer(x), before)
