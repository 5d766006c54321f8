"""What a player said, as another player reads it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon_env.quoting import _CHAT_MARK, _LINE_BREAK, cut_middle, open_thought, quote, strip_thoughts

MARKS = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|start_header_id|>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<|turn>",
    "<turn|>",
    "<|channel>",
    "<channel|>",
    "<bos>",
    "<eos>",
    "<s>",
    "</s>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_response>",
    "[INST]",
    "[/INST]",
    "<<SYS>>",
    "<</SYS>>",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CALLS]",
    "<｜User｜>",
    "<｜begin▁of▁sentence｜>",
    "[|user|]",
    "[gMASK]",
    "<unused0>",
    "<START_OF_TURN>",
]
BREAKS = ["\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
PIECES = ["<", ">", "|", "\\", "[", "]", "/", "INST", "think", "s", "> ", " ", "x", "｜", *BREAKS, *MARKS]
HOSTILE = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
TEXT = st.text() | HOSTILE


@given(TEXT)
def test_no_line_stands_at_the_margin(text):
    quoted = quote(text)
    lines = quoted.splitlines() or [quoted]
    assert all(line.startswith("> ") for line in lines)
    assert all(line.startswith("> ") for line in _LINE_BREAK.split(quoted)[::2])


@given(HOSTILE)
def test_no_chat_mark_is_whole(text):
    quoted = quote(text).casefold()
    assert not [mark for mark in MARKS if mark.casefold() in quoted]


@given(TEXT)
def test_a_quotation_can_be_undone(text):
    """So that different texts have different quotations."""
    unprefixed = re.sub(f"{_LINE_BREAK.pattern}> ", r"\1", quote(text).removeprefix("> "))
    assert re.sub(rf"({_CHAT_MARK.pattern})\\", r"\1", unprefixed, flags=re.IGNORECASE) == text


@given(TEXT, TEXT)
def test_different_texts_have_different_quotations(one, two):
    assert (quote(one) == quote(two)) == (one == two)


def test_backslashes_that_were_there_differ_from_ours():
    assert len({quote(text) for text in ("<|x", "<\\|x", "<\\\\|x", "[INST]", "[\\INST]", "<s>", "<\\s>")}) == 7


@pytest.mark.parametrize("text", ["", "a < b and c > d", "$|x|$", "x = [1, 2]", "area of [ABC]", "3a*4b-9", "a_1 <= b"])
def test_ordinary_text_is_only_indented(text):
    assert quote(text) == f"> {text}"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>hidden</think>shown", "shown"),
        ("<think>\nhidden\n</think>\n\nshown", "shown"),
        ("<think></think>shown", "shown"),
        ("before <think>hidden</think> after", "before  after"),
        ("one <think>h</think> two <think>h</think> three", "one  two  three"),
        ("shown <think>cut off in the mid", "shown"),
        ("<think>cut off", ""),
        ("opened by the prompt</think>shown", "shown"),
        ("opened by the prompt</think>shown <think>again</think> end", "shown  end"),
        ("<think>a <think> b</think>shown", "shown"),
        ("<think>a <think>b</think> c</think>shown", "shown"),
        ("<think>a</think>b</think>shown", "shown"),
        ("<THINK>hidden</Think>shown", "shown"),
        ("<thinking>hidden</thinking>shown", "shown"),
        ("<thought>hidden</thought>shown", "shown"),
        ("[THINK]hidden[/THINK]shown", "shown"),
        ("<|channel>thought\nhidden<channel|>shown", "shown"),
        ("no thought at all", "no thought at all"),
        ("I think> that </thinkable>", "I think> that </thinkable>"),
        ("", ""),
    ],
)
def test_hidden_reasoning_is_stripped(text, left):
    assert strip_thoughts(text) == left


@given(st.lists(st.sampled_from(["<think>", "</think>", "secret", "[THINK]", "[/THINK]"]), max_size=8).map("".join))
def test_stripping_leaves_no_mark_and_is_done_at_once(text):
    left = strip_thoughts(text)
    assert "think" not in left.casefold()
    assert strip_thoughts(left) == left


def test_long_hostile_texts_take_no_time():
    for text in (
        "<" * 100_000,
        "<|" * 50_000,
        "<think>" * 20_000,
        "[" * 100_000,
        "<a" * 50_000,
        "\\" * 100_000,
        "<a." * 40_000,
    ):
        quote(text)
        strip_thoughts(text)


# --- cutting ----------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(["D", "D D", "> ", " ", *BREAKS]), max_size=30).map("".join), st.integers(0, 80))
def test_a_quotation_that_is_cut_stays_a_quotation(draft, keep):
    cut = cut_middle(f"question\n\n{quote(draft)}\n\ninstruction", keep)
    lines = _LINE_BREAK.split(cut)[::2]
    assert not [line for line in lines if "D" in line and not line.startswith("> ")]


def test_the_mark_of_a_cut_is_quoted_where_it_stands_in_a_quotation():
    assert cut_middle("> " + "a" * 20, 8) == "> aa\n> […]\n> aaaa"
    assert cut_middle("question " + quote("\n" + "a" * 20), 8) == "ques\n> […]\n> aaaa"
    assert cut_middle(quote("a" * 20) + "\ninstruction", 8) == "> aa\n> […]\ntion"
    assert cut_middle("question " * 10, 8) == "ques\n[…]\nion "
    assert cut_middle("> a\n> b\n> c", 7) == "> a\n\n> […]\n> c"  # the tail has its own prefix


def test_a_text_within_the_limit_is_not_cut():
    assert [cut_middle("abc", keep) for keep in (4, 3, 0, -1)] == ["abc", "abc", "", ""]


@pytest.mark.parametrize(
    ("text", "left_open"),
    [
        ("assistant\n<think>\n", "<think>\n"),
        ("assistant\n<think>\n\n</think>\n\n", ""),
        ("<think>a</think> <|channel>thought\nOh", "<|channel>thought\nOh"),
        ("assistant\n", ""),
    ],
)
def test_what_a_text_leaves_open(text, left_open):
    assert open_thought(text) == left_open
