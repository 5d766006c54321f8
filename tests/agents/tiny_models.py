"""Tiny random models of the families that the library is tested on, tokenizers for them, and policies of both."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    Gemma4TextConfig,
    LlamaConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen3_5TextConfig,
    Qwen3Config,
)

from agents.shared_base import SharedBase

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEXT = (
    "The quick brown fox jumps over the lazy dog.\n\nWhat is 12 + 34?\n\n  The answer is 46.\n\n\nuser assistant system model\n"
    * 4
)


@cache
def tiny_tokenizer(
    template: str = CHAT_TEMPLATE,
    special: Sequence[str] = CHATML,
    marks: Sequence[str] = ("<think>", "</think>"),
    bos: str | None = None,
) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE tokenizer with a few merges, also across line ends; its last special token is EOS."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=list(special), show_progress=False
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=special[-1], bos_token=bos, chat_template=template)
    fast.add_tokens(list(marks))
    return fast


def sizes(vocab: int) -> dict[str, object]:
    return {
        "vocab_size": vocab,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,  # a width that the compiled kernels of attention take
        "max_position_embeddings": 256,
        "pad_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
    }


FAMILIES = {
    "qwen3": lambda vocab: Qwen3Config(**sizes(vocab), num_hidden_layers=2),
    "llama": lambda vocab: LlamaConfig(**sizes(vocab), num_hidden_layers=2),
    "qwen3_5": lambda vocab: Qwen3_5TextConfig(
        **sizes(vocab),
        num_hidden_layers=3,
        layer_types=["linear_attention", "linear_attention", "full_attention"],
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
    ),
    "gemma4": lambda vocab: Gemma4TextConfig(
        **sizes(vocab),
        num_hidden_layers=4,
        layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
        sliding_window=6,
        global_head_dim=16,
        num_kv_shared_layers=2,
        hidden_size_per_layer_input=4,
        vocab_size_per_layer_input=vocab,
        final_logit_softcapping=30.0,
    ),
}


def tiny_model(
    family: str = "qwen3", *, vocab: int = 61, seed: int = 0, scale: float = 8.0, **overrides: object
) -> PreTrainedModel:
    """Return a random model whose next-token distributions are far from uniform, so that errors show."""
    config = FAMILIES[family](vocab)
    for name, value in overrides.items():
        setattr(config, name, value)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2 and "embed" not in name:
                parameter.mul_(scale)
    return model


def tiny_base(family: str = "qwen3", **options: object) -> SharedBase:
    """Return a shared base on a tiny model with a tokenizer that can chat."""
    tokenizer = tiny_tokenizer()
    return SharedBase(tiny_model(family, vocab=len(tokenizer), **options), tokenizer, name=f"tiny {family}")


def stir(base: SharedBase, name: str, *, seed: int = 0, size: float = 0.1) -> None:
    """Move an adapter away from the identity, as training would."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in base.parameters(name):
            parameter.add_(size * torch.randn(parameter.shape, generator=generator))
