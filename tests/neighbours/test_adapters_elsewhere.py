"""What a run has trained is an ordinary PEFT adapter: PEFT and transformers load it, and it has what vLLM asks for."""

from __future__ import annotations

import json

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from agents import embedded
from agents.shared_base import SharedBase

TEXT = "Start with 4 a+2 b+1"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a folder with an adapter that does something, and the logits of its policy for `TEXT`."""
    base = SharedBase.load("embedded", dtype=torch.float32)
    base.policy("alice", rank=8, seed=0)
    with torch.no_grad():
        for number, parameter in enumerate(base.parameters("alice")):
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number)) * 0.1)
    folder = tmp_path_factory.mktemp("run") / "alice"
    base.save("alice", folder)
    ids = base.tokenizer(TEXT, return_tensors="pt").input_ids
    with torch.no_grad(), base.use("alice"):
        logits = base.model(ids).logits
    with torch.no_grad(), base.use("base"):
        plain = base.model(ids).logits
    assert (logits - plain).abs().max() > 0.1
    return folder, ids, logits


def load_plain():
    return AutoModelForCausalLM.from_pretrained(embedded.path(), dtype=torch.float32)


def test_peft_loads_it(trained):
    folder, ids, logits = trained
    model = PeftModel.from_pretrained(load_plain(), folder)
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, logits, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(model.merge_and_unload()(ids).logits, logits, atol=1e-4, rtol=1e-4)


def test_transformers_loads_it(trained):
    folder, ids, logits = trained
    model = load_plain()
    model.load_adapter(str(folder))
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, logits, atol=1e-4, rtol=1e-4)


def test_vllm_would_take_it(trained):
    folder, *_ = trained
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    assert config["peft_type"] == "LORA"
    assert config["bias"] == "none"
    assert not config["modules_to_save"]
    assert not config["use_dora"]
    assert isinstance(config["target_modules"], list)
    names = load_file(folder / "adapter_model.safetensors")
    assert all(name.startswith("base_model.model.model.layers.") for name in names)
    assert {name.rpartition(".lora_")[2] for name in names} == {"A.weight", "B.weight"}
