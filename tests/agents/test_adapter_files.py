"""Adapters by their names and in their folders: what is refused, saved, loaded and removed (T8, T20)."""

import json
from pathlib import Path

import pytest
import torch
from adapter_pair import ids, logits, loss, pair, requires_grad, stirred_pair
from peft import PeftModel
from tiny_models import stir, tiny_base, tiny_model

from agents.adapter_files import AdapterSpec
from agents.errors import AdapterError, AdapterMismatch, ChatTemplateMissing
from agents.shared_base import SharedBase


@pytest.fixture
def base() -> SharedBase:
    return stirred_pair()


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


def test_the_saved_configuration_is_json_with_sorted_targets(base: SharedBase, tmp_path: Path) -> None:
    base.save("alice", tmp_path / "a")
    config = json.loads((tmp_path / "a" / "adapter_config.json").read_text())
    assert config["target_modules"] == sorted(config["target_modules"])
    assert (config["r"], config["lora_alpha"], config["inference_mode"]) == (4, 4, True)
