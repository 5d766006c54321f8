"""Tiny random models of the families that are trained, and rows for them."""

import random

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import (
    Gemma4ForCausalLM,
    Gemma4TextConfig,
    GraniteConfig,
    GraniteForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen3_5ForCausalLM,
    Qwen3_5TextConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from agents.shared_base import SharedBase
from algos.types import Row

VOCABULARY = 37
COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,  # a width that the compiled kernels of attention take
    "max_position_embeddings": 64,
}


def _qwen3():
    return Qwen3ForCausalLM(Qwen3Config(**COMMON, tie_word_embeddings=True))


def _llama():
    return LlamaForCausalLM(LlamaConfig(**COMMON, tie_word_embeddings=False))


def _granite():
    return GraniteForCausalLM(GraniteConfig(**{k: v for k, v in COMMON.items() if k != "head_dim"}, logits_scaling=4.0))


def _gemma4():
    config = Gemma4TextConfig(
        **COMMON,
        layer_types=["sliding_attention", "full_attention"],
        sliding_window=4,
        final_logit_softcapping=2.0,
        hidden_size_per_layer_input=4,
        vocab_size_per_layer_input=VOCABULARY,
        global_head_dim=8,
        num_kv_shared_layers=0,
    )
    return Gemma4ForCausalLM(config)


def _qwen3_5():
    config = Qwen3_5TextConfig(
        **COMMON,
        layer_types=["linear_attention", "full_attention"],
        linear_num_key_heads=2,
        linear_num_value_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
    )
    return Qwen3_5ForCausalLM(config)


FAMILIES = {"qwen3": _qwen3, "llama": _llama, "granite": _granite, "gemma4": _gemma4, "qwen3_5": _qwen3_5}


def tiny_model(family="qwen3", *, seed=0):
    """A random model in eval mode, whose weights are large enough for its predictions to differ."""
    torch.manual_seed(seed)
    model = FAMILIES[family]().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "conv" not in name:
                parameter.normal_(std=0.3)
    return model


def tiny_rows(n=5, *, seed=0, ref=False, longest=7):
    """Rows of different lengths; token 0 occurs in prompts and completions, as it does in padding."""
    rng = random.Random(seed)

    def ids(low, high):
        return tuple(rng.choice((0, rng.randrange(VOCABULARY))) for _ in range(rng.randint(low, high)))

    def row(index):
        completion = ids(1, longest)
        old = tuple(rng.uniform(-5, -1) for _ in completion)
        return Row(
            prompt_ids=ids(1, 6),
            completion_ids=completion,
            old_logprobs=old,
            advantage=rng.choice((-1, 1)) * rng.uniform(0.2, 2),
            ref_logprobs=tuple(x + rng.uniform(-0.3, 0.3) for x in old) if ref else None,
        )

    return [row(index) for index in range(n)]


def plain_logprobs(model, row, *, temperature=1.0):
    """One row alone, without padding, chunks or position ids, from the model's own full logits."""
    ids = torch.tensor([row.prompt_ids + row.completion_ids])
    logp = (model(input_ids=ids).logits[0, :-1].float() / temperature).log_softmax(-1)
    first = len(row.prompt_ids) - 1
    return logp[first:].gather(-1, ids[0, first + 1 :, None]).squeeze(-1)


def tiny_tokenizer():
    words = Tokenizer(WordLevel({f"w{index}": index for index in range(VOCABULARY)}, unk_token="w1"))
    words.pre_tokenizer = WhitespaceSplit()
    template = "{% for message in messages %}{{ message['content'] }} {% endfor %}"
    return PreTrainedTokenizerFast(tokenizer_object=words, eos_token="w2", pad_token="w2", chat_template=template)


def tiny_base(*names, family="qwen3", trained=True):
    """A shared base with a policy for each name; `trained`: with adapters that change its predictions."""
    base = SharedBase(tiny_model(family), tiny_tokenizer())
    policies = [base.policy(name, rank=2, seed=seed) for seed, name in enumerate(names)]
    if trained:
        with torch.no_grad():
            for seed, policy in enumerate(policies):
                generator = torch.Generator().manual_seed(seed)
                for parameter in policy.parameters():
                    parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    return base, *policies
