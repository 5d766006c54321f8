"""A model that is as good as a table, for games with few situations: every prompt is one word of it, and so is every move.

It is a random Qwen3 of one layer in an ordinary folder, so that whatever trains a language model trains a table of chances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from agents.policy import LLMPolicy
from agon_env.errors import InvalidMove
from agon_env.types import Observation

PAD, END = "<pad>", "<end>"


def save_table_model(folder: str | Path, *, prompts: Sequence[str], moves: Sequence[str], seed: int = 0) -> Path:
    """Write a random model whose words are `prompts` and `moves`.

    Args:
        folder: where to; `--model FOLDER` loads it.
        prompts: all that a player may read, each a whole prompt of one message.
        moves: what it may say, each in one token.
        seed: of the weights.
    """
    folder, words = Path(folder), [PAD, END, *moves, *prompts]
    PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel({word: index for index, word in enumerate(words)}, unk_token=PAD)),
        eos_token=END,
        pad_token=PAD,
        chat_template="{% for message in messages %}{{ message['content'] }}{% endfor %}",
    ).save_pretrained(folder)
    shape: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "head_dim": 16}
    heads: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2}
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(Qwen3Config(vocab_size=len(words), tie_word_embeddings=True, **shape, **heads))
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.15)
    model.save_pretrained(folder)
    return folder


def move_chances(
    policy: LLMPolicy, observation: Observation, moves: Sequence[str], *, read: Callable[[Sequence[str], str], str]
) -> dict[str, float]:
    """Return how likely a policy that says one token makes each of `moves`, exactly; what they lack to one is no move.

    Args:
        policy: who moves, with `max_tokens=1`.
        observation: what it sees.
        moves: those that are legal.
        read: `(moves, text)` → the move that a text makes; raises `InvalidMove` where it makes none.
    """
    chances, tokenizer = dict.fromkeys(moves, 0.0), policy.base.tokenizer
    with torch.no_grad(), policy.base.use(policy.name):
        logits_V = policy.base.model(torch.tensor([policy.encode(observation)])).logits[0, -1]
    for token, chance in enumerate(logits_V.softmax(-1).tolist()):
        try:
            chances[read(moves, tokenizer.decode([token], skip_special_tokens=True))] += chance
        except InvalidMove:
            continue
    return chances
