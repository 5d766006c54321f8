"""Tiny random models of the families that the library is tested on, and a tokenizer of one character per token."""

from __future__ import annotations

import torch
from transformers import Gemma4TextConfig, LlamaConfig, PreTrainedModel, Qwen3_5TextConfig, Qwen3Config
from transformers.models.auto.modeling_auto import AutoModelForCausalLM

VOCAB = 61
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
CONFIGS = {
    "qwen3": lambda: Qwen3Config(**SIZES, num_hidden_layers=2),
    "llama": lambda: LlamaConfig(**SIZES, num_hidden_layers=2),
    "qwen3_5": lambda: Qwen3_5TextConfig(
        **SIZES,
        num_hidden_layers=3,
        layer_types=["linear_attention", "linear_attention", "full_attention"],
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
    ),
    "gemma4": lambda: Gemma4TextConfig(
        **SIZES,
        num_hidden_layers=4,
        layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
        sliding_window=6,
        global_head_dim=16,
        num_kv_shared_layers=2,
        hidden_size_per_layer_input=4,
        vocab_size_per_layer_input=VOCAB,
        final_logit_softcapping=30.0,
    ),
}


def tiny_model(family: str = "qwen3", *, seed: int = 0, scale: float = 8.0) -> PreTrainedModel:
    """Return a random model whose next-token distributions are far from uniform."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(CONFIGS[family]()).eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.ndim == 2 and "embed" not in name:
                    parameter.mul_(scale)
    model.generation_config.eos_token_id = None
    return model
