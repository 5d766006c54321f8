"""Reported faults of language model players that no other file here is about."""

import torch
from tiny_models import tiny_base, tiny_model

from agents.shared_base import SharedBase


def test_t48_a_model_in_training_mode_is_shared_without_its_dropout() -> None:
    model = tiny_model(vocab=320, attention_dropout=0.5).train()
    ids = torch.arange(30).reshape(2, 15)
    with torch.no_grad():
        assert not torch.equal(model(ids).logits, model(ids).logits)
        base = SharedBase(model, tiny_base().tokenizer)
        assert torch.equal(base.model(ids).logits, base.model(ids).logits)
