"""The tokenizer of the embedded model: bytes, and one token for each sentence that all prompts share."""

from __future__ import annotations

from string import ascii_lowercase

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from agents.embedded.searcher import CHECK
from agon_env.games.draft_challenge import CHALLENGE, DRAFT_INTRODUCTION
from agon_env.tasks import chain_search
from agon_env.tasks.arithmetic import INSTRUCTION, OPERANDS, QUESTION, START

OPEN, CLOSE, PAD = "<|im_start|>", "<|im_end|>", "<|endoftext|>"

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

CONTEXT = 2048
"""Longest sequence in tokens. Nothing is learned per position, so it costs no weights."""


def sentences() -> list[str]:
    """Return the texts that are one token each, as they stand in the prompts of the games today."""
    return [
        *(part.removesuffix(START) for part in QUESTION.split("{chain}")),
        START,
        INSTRUCTION,
        chain_search.QUESTION.split("{chain}")[1],
        chain_search.INSTRUCTION,
        CHECK,
        DRAFT_INTRODUCTION,
        CHALLENGE,
        r"\boxed{",
        "\n\n",
        *(f"{role}\n" for role in ("system", "user", "assistant")),
    ]


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Return the tokenizer: 256 bytes, a few pairs of them, the sentences, the chat marks."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    steps = [(operation, str(operand)) for operation in OPERANDS for operand in OPERANDS[operation]]
    merges = [*(("Ġ", letter) for letter in ascii_lowercase), *steps, (">", "Ġ"), (";", "Ġ")]
    vocabulary = {token: i for i, token in enumerate([*alphabet, *("".join(pair) for pair in merges)])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in sentences()])
    tokenizer.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in (OPEN, CLOSE, PAD)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=CLOSE,
        pad_token=PAD,
        extra_special_tokens=[OPEN],
        chat_template=CHAT_TEMPLATE,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
