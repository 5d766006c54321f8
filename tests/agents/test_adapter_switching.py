"""One adapter at a time: a forward pass and its backward pass under the same one, the bare base in between (T1 to T3, T14)."""

import threading

import pytest
import torch
from adapter_pair import checkpoint_activations, gradients, ids, logits, loss, requires_grad, stirred_pair
from tiny_models import tiny_model

from agents.errors import AdapterSwitched
from agents.shared_base import SharedBase


@pytest.fixture
def base() -> SharedBase:
    return stirred_pair()


@pytest.mark.parametrize("checkpointing", [None, "reentrant", "non-reentrant"])
@pytest.mark.parametrize("at_backward", ["bob", None])
def test_t01_a_switch_between_forward_and_backward_raises(
    base: SharedBase, checkpointing: str | None, at_backward: str | None
) -> None:
    if checkpointing is not None:
        checkpoint_activations(base, reentrant=checkpointing == "reentrant")
    with base.use("alice"):
        pending = loss(base)
        with base.use(at_backward), pytest.raises(AdapterSwitched, match=f"'alice'.*'{at_backward or 'base'}'"):
            pending.backward()
    assert all(gradient is None for name in ("alice", "bob") for gradient in gradients(base, name))


def test_t01_a_switch_by_pefts_own_call_is_noticed_too(base: SharedBase) -> None:
    with base.use("alice"):
        pending = loss(base)
        base.adapters.peft.base_model.set_adapter("bob")
        with pytest.raises(AdapterSwitched):
            pending.backward()


def test_t01_a_backward_after_the_block_raises(base: SharedBase) -> None:
    with base.use("alice"):
        pending = loss(base)
    with pytest.raises(AdapterSwitched):
        pending.backward()


def test_t01_hidden_states_are_guarded_like_logits(base: SharedBase) -> None:
    with base.use("alice"):
        hidden = base.model.get_decoder()(ids()).last_hidden_state
    with pytest.raises(AdapterSwitched):
        hidden.sum().backward()


@pytest.mark.parametrize("reentrant", [True, False])
def test_t01_checkpointed_gradients_equal_plain_ones(base: SharedBase, reentrant: bool) -> None:
    with base.use("alice"):
        loss(base).backward()
    plain = gradients(base, "alice")
    base.model.zero_grad(set_to_none=True)
    checkpoint_activations(base, reentrant=reentrant)
    with base.use("alice"):
        pending = loss(base)
        with torch.no_grad(), base.use(None):  # a reference pass in between does no harm
            base.model(ids(1))
        pending.backward()
    for a, b in zip(plain, gradients(base, "alice"), strict=True):
        torch.testing.assert_close(a, b)
    assert all(gradient is None for gradient in gradients(base, "bob"))


def test_t02_reference_pass_leaves_requires_grad_alone(base: SharedBase) -> None:
    for parameter in base.parameters("bob"):
        parameter.requires_grad_(False)
    before = requires_grad(base)
    for name in ("bob", None, "alice", "base"):
        logits(base, name)
        assert requires_grad(base) == before


def test_t02_adding_an_adapter_leaves_frozen_ones_frozen(base: SharedBase) -> None:
    for parameter in base.parameters("bob"):
        parameter.requires_grad_(False)
    base.policy("carol", rank=2)
    assert {p.requires_grad for p in base.parameters("bob")} == {False}
    assert {p.requires_grad for p in base.parameters("alice") + base.parameters("carol")} == {True}


def test_t03_parameter_lists_are_disjoint_complete_and_stable(base: SharedBase) -> None:
    alice, bob = ({id(parameter) for parameter in base.parameters(name)} for name in ("alice", "bob"))
    lora = {id(parameter) for name, parameter in base.model.named_parameters() if "lora_" in name}
    assert alice
    assert not alice & bob
    assert alice | bob == lora
    with base.use("bob"):
        assert [id(p) for p in base.parameters("alice")] == [id(p) for p in base.parameters("alice")]
    base.policy("carol", rank=2)
    assert {id(parameter) for parameter in base.parameters("alice")} == alice
    assert base.parameters("base") == []


@pytest.mark.parametrize("fast", [True, False])
def test_t14_the_bare_base_is_bit_equal_and_the_adapter_comes_back(base: SharedBase, fast: bool) -> None:
    base.adapters._fast = fast
    bare = tiny_model(vocab=len(base.tokenizer))(ids()).logits
    alice, bob = logits(base, "alice"), logits(base, "bob")
    assert torch.equal(logits(base, None), bare)
    assert not torch.equal(alice, bare)
    assert not torch.equal(alice, bob)
    with torch.no_grad(), base.use("alice"):
        with base.use(None):
            assert base.active is None
            assert torch.equal(base.model(ids()).logits, bare)
            with base.use("bob"):
                assert torch.equal(base.model(ids()).logits, bob)
            assert torch.equal(base.model(ids()).logits, bare)
        assert base.active == "alice"
        assert torch.equal(base.model(ids()).logits, alice)
    assert base.active is None


def test_the_fast_switch_equals_pefts_public_calls(base: SharedBase) -> None:
    assert base.adapters._fast
    fast = {name: logits(base, name) for name in ("alice", "bob", None)}
    tuner = base.adapters.peft.base_model
    with torch.no_grad():
        for name in ("alice", "bob"):
            tuner.set_adapter(name)
            tuner.enable_adapter_layers()
            assert torch.equal(base.model(ids()).logits, fast[name])
        tuner.disable_adapter_layers()
        assert torch.equal(base.model(ids()).logits, fast[None])


def test_without_pefts_private_attributes_the_public_calls_are_used(base: SharedBase, monkeypatch: pytest.MonkeyPatch) -> None:
    before, fast = requires_grad(base), {name: logits(base, name) for name in ("alice", "bob", None)}
    monkeypatch.setattr(type(base.adapters._layers[0]), "active_adapters", property(lambda layer: ["elsewhere"]))
    assert not base.adapters._can_switch_fast()
    monkeypatch.undo()
    base.adapters._fast = False
    for name, expected in fast.items():
        assert torch.equal(logits(base, name), expected)
        assert requires_grad(base) == before


def test_an_error_in_the_block_puts_the_adapter_back(base: SharedBase) -> None:
    with pytest.raises(RuntimeError, match="boom"), base.use("alice"):
        raise RuntimeError("boom")
    assert base.active is None


def test_another_thread_waits_for_its_turn(base: SharedBase) -> None:
    seen: list[str | None] = []

    def other() -> None:
        with base.use("bob"):
            seen.append(base.active)

    with base.use("alice"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.05)
        assert base.active == "alice"
        assert not seen
    thread.join()
    assert seen == ["bob"]
    assert base.active is None
