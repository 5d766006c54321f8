"""Reported faults of language model players that no other file here is about."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from tiny_models import tiny_base, tiny_model

from agents.shared_base import SharedBase


def test_t48_a_model_in_training_mode_is_shared_without_its_dropout() -> None:
    model = tiny_model(vocab=320, attention_dropout=0.5).train()
    ids = torch.arange(30).reshape(2, 15)
    with torch.no_grad():
        assert not torch.equal(model(ids).logits, model(ids).logits)
        base = SharedBase(model, tiny_base().tokenizer)
        assert torch.equal(base.model(ids).logits, base.model(ids).logits)


def test_t08_a_name_that_begins_another_takes_nothing_of_it(tmp_path: Path) -> None:
    base = tiny_base()
    for name in ("foobar", "foo", "fo"):
        base.policy(name, rank=2)
    owned = [{id(parameter) for parameter in base.parameters(name)} for name in ("foobar", "foo", "fo")]
    assert len(set.union(*owned)) == sum(map(len, owned)) == 3 * len(owned[0])
    base.save("foo", tmp_path / "foo")
    assert len(load_file(tmp_path / "foo" / "adapter_model.safetensors")) == len(owned[1])
