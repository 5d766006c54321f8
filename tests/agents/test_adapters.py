"""Two policies on one frozen base: the traps T1-T10, T12, T14, T18, T20 and T51 of LoRA training."""

import json
import threading
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from tiny_models import FAMILIES, stir, tiny_base, tiny_model
from torch import Tensor
from transformers import AutoModelForCausalLM, Gemma4Config, Qwen3Config

from agents.adapter_files import AdapterSpec
from agents.adapters import Adapters
from agents.errors import AdapterError, AdapterMismatch, AdapterSwitched, ChatTemplateMissing
from agents.shared_base import SharedBase


@pytest.fixture
def base() -> SharedBase:
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


# --- T1: forward and backward under one adapter -----------------------------------------------------


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


# --- T2, T3, T14: switching -------------------------------------------------------------------------


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


# --- T4, T6, T9: two policies train as if each were alone -------------------------------------------


def test_t04_training_one_leaves_the_bytes_of_the_other_and_of_the_base(base: SharedBase) -> None:
    bob = [parameter.clone() for parameter in base.parameters("bob")]
    checksum = base.checksum()
    optimizer = torch.optim.AdamW(base.parameters("alice"), lr=0.1)
    for step in range(2):
        with base.use("alice"):
            loss(base, step).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    assert all(torch.equal(a, b) for a, b in zip(bob, base.parameters("bob"), strict=True))
    assert base.checksum() == checksum


def test_t06_gradients_equal_those_of_pefts_mixed_batch(base: SharedBase) -> None:
    for name, seed in (("alice", 0), ("bob", 1)):
        with base.use(name):
            loss(base, seed).backward()
    own = gradients(base, "alice") + gradients(base, "bob")
    base.model.zero_grad(set_to_none=True)
    with base.use("alice"):  # PEFT routes each row to its adapter; the switch only has to be on
        names = ["alice"] * 3 + ["bob"] * 3
        both = base.adapters.peft.eval()(input_ids=torch.cat([ids(0), ids(1)]), adapter_names=names).logits
        both.log_softmax(-1)[..., 3].sum().backward()
    for a, b in zip(own, gradients(base, "alice") + gradients(base, "bob"), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_t09_adapters_start_as_the_base_with_different_seeds() -> None:
    base = pair(tiny_base())
    assert torch.equal(logits(base, "alice"), logits(base, None))
    assert torch.equal(logits(base, "bob"), logits(base, None))
    names = list(base.adapters.named_parameters("alice"))
    with base.use("alice"):
        loss(base).backward()
    for name, gradient in zip(names, gradients(base, "alice"), strict=True):
        assert gradient.any() == ("lora_B" in name), name
    starts = [[p for n, p in base.adapters.named_parameters(who).items() if "lora_A" in n] for who in ("alice", "bob")]
    assert not any(torch.equal(a, b) for a, b in zip(*starts, strict=True))


def test_adding_adapters_leaves_the_global_random_state_alone() -> None:
    base = tiny_base()
    before = torch.get_rng_state()
    pair(base).reset("alice", seed=3)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_same_seed_gives_the_same_adapter() -> None:
    a, b = tiny_base(), tiny_base()
    a.policy("alice", rank=4, seed=5)
    b.policy("bob", rank=4)
    b.policy("alice", rank=4, seed=5)
    assert all(torch.equal(x, y) for x, y in zip(a.parameters("alice"), b.parameters("alice"), strict=True))


# --- T8, T20: names and files -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["default", "base", "al.ice", "", "1st", "a b", "lora_A", "weight", "mlp", "keys", "train", "alice"]
)
def test_t08_names_that_would_go_wrong_are_refused(base: SharedBase, name: str) -> None:
    before = base.adapters.names
    with pytest.raises(AdapterError):
        base.adapters.add(name, AdapterSpec(4), seed=0)
    assert base.adapters.names == before


def test_unknown_names_are_refused(base: SharedBase) -> None:
    with pytest.raises(AdapterError, match="alice, bob"), base.use("carol"):
        pass


def test_t08_each_adapter_is_saved_alone_and_byte_equal(base: SharedBase, tmp_path: Path) -> None:
    for name in ("alice2", "q", "lora", "A"):  # parts of other names
        base.policy(name, rank=4)
    base.save("alice", tmp_path / "a")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    again = tiny_base()
    again.policy("other", adapter=tmp_path / "a")
    again.save("other", tmp_path / "b")
    for file in ("adapter_config.json", "adapter_model.safetensors"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert torch.equal(logits(again, "other"), logits(base, "alice"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize("name", ["bob", "q", "lora"])
def test_t08_peft_loads_what_was_saved(base: SharedBase, name: str, tmp_path: Path) -> None:
    if name not in base.adapters.names:
        base.policy(name, rank=4)
        stir(base, name)
    base.save(name, tmp_path / "bob")
    plain = PeftModel.from_pretrained(tiny_model(vocab=len(base.tokenizer)), str(tmp_path / "bob"))
    with torch.no_grad():
        torch.testing.assert_close(plain(ids()).logits, logits(base, name))


def test_saving_replaces_a_folder_as_a_whole(base: SharedBase, tmp_path: Path) -> None:
    base.save("alice", tmp_path / "a")
    (tmp_path / "a" / "left over").write_text("")
    base.save("bob", tmp_path / "a")
    assert len(list((tmp_path / "a").iterdir())) == 2
    base.load_adapter("alice", tmp_path / "a")
    assert torch.equal(logits(base, "alice"), logits(base, "bob"))


def test_a_failed_save_leaves_the_old_folder(base: SharedBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base.save("alice", tmp_path / "a")
    before = (tmp_path / "a" / "adapter_model.safetensors").read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("agents.adapter_files.save_file", full)
    with pytest.raises(OSError, match="no space"):
        base.save("bob", tmp_path / "a")
    assert (tmp_path / "a" / "adapter_model.safetensors").read_bytes() == before


def test_t20_a_folder_that_does_not_fit_is_refused_and_changes_nothing(base: SharedBase, tmp_path: Path) -> None:
    before = logits(base, "alice")
    other = tiny_base()
    other.policy("wide", rank=8)
    other.policy("loud", rank=4, alpha=64)
    other.policy("few", rank=4, target_modules=("q_proj",))
    other.policy(
        "more", rank=4, target_modules=("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head")
    )
    for name, complaint in [("wide", "r=8"), ("loud", "lora_alpha=64"), ("few", "lacks"), ("more", "that 'alice' lacks")]:
        other.save(name, tmp_path / name)
        with pytest.raises(AdapterMismatch, match=complaint):
            base.load_adapter("alice", tmp_path / name)
    with pytest.raises(AdapterMismatch, match="holds no adapter"):
        base.load_adapter("alice", tmp_path)
    assert torch.equal(logits(base, "alice"), before)


@pytest.mark.parametrize("others", [0, 1])
def test_a_folder_that_does_not_fit_leaves_its_name_free(tmp_path: Path, others: int) -> None:
    foreign = tiny_base(hidden_size=16)
    foreign.policy("foreign", rank=4)
    foreign.save("foreign", tmp_path / "foreign")
    base = tiny_base()
    good = pair(tiny_base())
    stir(good, "bob")
    good.save("bob", tmp_path / "good")
    for name in ("alice",)[:others]:
        base.policy(name, rank=4)
        stir(base, name)
        base.parameters(name)[0].requires_grad_(False)
    names, before, flags, checksum = base.adapters.names, logits(base, "base"), requires_grad(base), base.checksum()
    with pytest.raises(AdapterMismatch, match="shape"):
        base.policy("bob", adapter=tmp_path / "foreign")
    assert (base.adapters.names, base.active, base.checksum()) == (names, None, checksum)
    assert requires_grad(base) == flags
    assert torch.equal(logits(base, None), before)
    bob = base.policy("bob", adapter=tmp_path / "good")
    assert torch.equal(logits(base, "bob"), logits(good, "bob"))
    with base.use("bob"):
        loss(base).backward()
    assert all(parameter.grad is not None for parameter in bob.parameters())


def test_a_policy_that_can_not_be_made_leaves_its_name_free() -> None:
    base = tiny_base()
    template, base.tokenizer.chat_template = base.tokenizer.chat_template, ""
    try:
        with pytest.raises(ChatTemplateMissing):
            base.policy("alice", rank=4)
    finally:
        base.tokenizer.chat_template = template
    assert base.adapters.names == ()
    base.policy("alice", rank=4)


def test_a_start_that_can_not_be_drawn_leaves_the_name_free(base: SharedBase) -> None:
    with pytest.raises((RuntimeError, ValueError, OverflowError)):
        base.policy("carol", rank=2, seed=2**70)
    assert base.adapters.names == ("alice", "bob")
    base.policy("carol", rank=2)


def test_removing_one_leaves_the_others_as_they_were(base: SharedBase) -> None:
    alice = logits(base, "alice")
    with base.use("alice"):
        base.adapters.remove("bob")
        assert base.active == "alice"
        with pytest.raises(AdapterError, match="in use"):
            base.adapters.remove("alice")
    assert torch.equal(logits(base, "alice"), alice)
    assert {p.requires_grad for p in base.parameters("alice")} == {True}
    assert not any("bob" in name for name, _ in base.model.named_parameters())
    base.policy("bob", rank=2)
    assert torch.equal(logits(base, "bob"), logits(base, None))
    with pytest.raises(AdapterError, match="no adapter 'eve'"):
        base.adapters.remove("eve")


@pytest.mark.parametrize(
    "odd",
    [
        {"alpha_pattern": {"q_proj": 64}},
        {"rank_pattern": {"q_proj": 4}},
        {"use_rslora": True},
        {"use_dora": True},
        {"bias": "all"},
        {"init_lora_weights": "pissa_niter_4"},
        {"alora_invocation_tokens": [1, 2]},
        {"layer_replication": [[0, 1]]},
        {"an_option_of_tomorrow": 3},
        {"peft_type": "IA3"},
        {"target_modules": None},
    ],
)
def test_a_folder_that_is_not_plain_lora_is_refused(base: SharedBase, tmp_path: Path, odd: dict[str, object]) -> None:
    base.save("alice", tmp_path / "a")
    path = tmp_path / "a" / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **odd}))
    with pytest.raises(AdapterMismatch, match=next(iter(odd))):
        base.load_adapter("bob", tmp_path / "a")
    with pytest.raises(AdapterMismatch, match=next(iter(odd))):
        base.policy("carol", adapter=tmp_path / "a")
    assert base.adapters.names == ("alice", "bob")


def test_a_folder_of_another_peft_is_read_where_it_means_the_same(base: SharedBase, tmp_path: Path) -> None:
    base.save("alice", tmp_path / "a")
    path = tmp_path / "a" / "adapter_config.json"
    config = json.loads(path.read_text())
    for gone in ("use_rslora", "alpha_pattern", "peft_version", "init_lora_weights"):
        del config[gone]
    other = {"lora_dropout": 0.1, "rank_pattern": None, "base_model_name_or_path": "x/y", "an_option_of_tomorrow": None}
    path.write_text(json.dumps({**config, **other}))
    base.load_adapter("bob", tmp_path / "a")
    assert torch.equal(logits(base, "bob"), logits(base, "alice"))


@pytest.mark.parametrize("file", ["adapter_config.json", "adapter_model.safetensors"])
def test_a_damaged_folder_is_refused(base: SharedBase, tmp_path: Path, file: str) -> None:
    base.save("alice", tmp_path / "a")
    (tmp_path / "a" / file).write_bytes(b"[1")
    with pytest.raises(AdapterMismatch, match="can't be read"):
        base.load_adapter("bob", tmp_path / "a")


# --- T10, T12, T18, T51: weights --------------------------------------------------------------------


def test_t10_adapters_are_float32_on_a_bfloat16_base() -> None:
    base = SharedBase(tiny_model(vocab=320).to(torch.bfloat16), tiny_base().tokenizer)
    pair(base)
    base.reset("alice", seed=1)
    assert {parameter.dtype for name in ("alice", "bob") for parameter in base.parameters(name)} == {torch.float32}
    with base.use("alice"):
        loss(base).backward()
    assert {gradient.dtype for gradient in gradients(base, "alice")} == {torch.float32}


def test_t12_reset_gives_the_fresh_start(base: SharedBase) -> None:
    fresh = pair(tiny_base())
    base.reset("alice", seed=7)
    fresh.reset("alice", seed=7)
    assert torch.equal(logits(base, "alice"), logits(base, None))
    for (name, a), b in zip(base.adapters.named_parameters("alice").items(), fresh.parameters("alice"), strict=True):
        assert torch.equal(a, b)
        if "lora_A" in name:  # uniform within ±1/sqrt(inputs), as torch's Linear
            bound = a.shape[1] ** -0.5
            assert 0.8 * bound < a.abs().max() <= bound
        else:
            assert not a.any()
    assert not torch.equal(logits(base, "bob"), logits(base, None))


def test_t18_the_base_keeps_its_checksum(base: SharedBase) -> None:
    plain = Adapters(tiny_model(vocab=len(base.tokenizer)))
    assert base.checksum() == plain.base_checksum()
    next(base.model.get_input_embeddings().parameters()).data[0, 0] += 1e-3
    assert base.checksum() != plain.base_checksum()


def test_t48_there_is_no_dropout_in_training_mode(base: SharedBase) -> None:
    base.model.train()
    assert torch.equal(logits(base, "alice"), logits(base, "alice"))


def test_t51_all_linear_leaves_the_head_alone_and_a_head_adapter_counts() -> None:
    base = tiny_base(tie_word_embeddings=True)
    base.policy("alice", rank=2)
    base.policy("bob", rank=2, target_modules=("lm_head",))
    assert not any("lm_head" in name for name in base.adapters.named_parameters("alice"))
    stir(base, "bob")
    assert not torch.equal(logits(base, "bob"), logits(base, None))
    head, embedding = base.model.get_output_embeddings(), base.model.get_input_embeddings()
    assert head.weight is embedding.weight  # still tied


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_takes_adapters(family: str) -> None:
    base = pair(tiny_base(family))
    assert torch.equal(logits(base, "alice"), logits(base, None))
    with base.use("alice"):
        loss(base).backward()
    assert any(gradient is not None and gradient.any() for gradient in gradients(base, "alice"))


def test_adapter_memory_is_at_most_a_twentieth_of_qwen3_1_7b() -> None:
    # huggingface.co/Qwen/Qwen3-1.7B/blob/main/config.json
    config = Qwen3Config(
        vocab_size=151936,
        hidden_size=2048,
        intermediate_size=6144,
        num_hidden_layers=28,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        tie_word_embeddings=True,
    )
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    adapters = Adapters(model)
    adapters.add("alice", AdapterSpec(), seed=0)
    assert 1.6e9 < sum(p.numel() for p in model.parameters()) - adapters.count("alice") < 1.8e9
    assert adapters.count("alice") == 28 * 32 * (2 * 4096 + 2 * 3072 + 3 * 8192)
    assert 0.03 < adapters.overhead("alice") <= 0.05


def test_multimodal_models_are_adapted_and_guarded_in_their_text_part_alone() -> None:
    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 8}
    text = {**FAMILIES["gemma4"](320).to_dict(), "pad_token_id": 0}
    config = Gemma4Config(text_config=text, vision_config={**vision, "num_key_value_heads": 2}, audio_config=None)
    base = pair(SharedBase(AutoModelForCausalLM.from_config(config), tiny_base().tokenizer))
    assert any("vision" in name for name, _ in base.model.named_modules())
    for name in ("alice", "bob"):
        keys = list(base.adapters.named_parameters(name))
        assert keys
        assert not any("vision" in key or "lm_head" in key for key in keys)
    with base.use("alice"):
        pending = loss(base)
    with pytest.raises(AdapterSwitched):
        pending.backward()


def test_the_saved_configuration_is_json_with_sorted_targets(base: SharedBase, tmp_path: Path) -> None:
    base.save("alice", tmp_path / "a")
    config = json.loads((tmp_path / "a" / "adapter_config.json").read_text())
    assert config["target_modules"] == sorted(config["target_modules"])
    assert (config["r"], config["lora_alpha"], config["inference_mode"]) == (4, 8, True)
