"""How a prompt shows a player what another player said.

The quoted text is data: nothing in it may look like the instructions around it, like another speaker, or
like the tokens of a chat template. Every line of it is therefore prefixed as in Markdown ("> "), also after
the exotic line breaks of Unicode, and the marks of the common chat templates get a backslash. The
transcript keeps the text itself, verbatim.
"""

from __future__ import annotations

import re

_LINE_BREAK = re.compile("(\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029])")
# <|im_end|>, <|eot_id|>, <|turn>, <turn|>, <start_of_turn>, <s>, </s>, [INST] …
_CHAT_MARK = re.compile(
    r"<(?=\|)|\|(?=>)|<(?=/?(?:s|bos|eos|pad|unk|start_of_turn|end_of_turn|think|tool_call|tool_response)>)|\[(?=/?INST\])",
    re.IGNORECASE,
)
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


def quote(text: str) -> str:
    """Return `text` as a block quotation in which no line stands at the margin and no chat mark is whole."""
    escaped = _CHAT_MARK.sub(lambda mark: mark[0] + "\\", text)
    return "> " + _LINE_BREAK.sub(lambda end: end[1] + "> ", escaped)


def strip_thoughts(text: str) -> str:
    """Return `text` without its hidden reasoning: `<think>…</think>`, unclosed ones, and ones opened by the prompt."""
    _, closed, after = text.rpartition("</think>")
    return _THOUGHT.sub("", after if closed else text).strip()
