r"""How a prompt shows a player what another player said.

The quoted text is data: nothing in it may look like the instructions around it, like another speaker, or
like the tokens of a chat template. Every line of it is therefore prefixed as in Markdown ("> "), also after
the exotic line breaks of Unicode, and a backslash splits what looks like a special token: <\|im_end|\>,
<\start_of_turn>, [\INST]. Different texts have different quotations. The transcript keeps the text itself.
"""

from __future__ import annotations

import re

_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_LINE_BREAK = re.compile(f"(\r\n|[{_BREAKS}])")
_PREFIX = "> "
# The backslashes in the look-aheads are those of the text: "<\|" gets a second one, so that it differs from "<|".
_CHAT_MARK = re.compile(
    r"<(?=\\*[|｜])|[|｜](?=\\*>)"  # <|im_end|>, <|turn>, <turn|>, <｜User｜>
    r"|<(?=\\*/?[^\W\d][\w.-]*>)"  # <s>, </s>, <start_of_turn>, <think>, <tool_call>, and any other tag
    r"|\[(?=\\*[|])|[|](?=\\*\])"  # [|user|]
    r"|\[(?=\\*/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_\w+|THINK|ARGS|BOS|EOS|g?MASK|CLS|SEP|PAD|UNK)\])",
    re.IGNORECASE,
)

_THOUGHT_MARK = re.compile(
    r"(?P<open><(?:think|thinking|thought)>|\[THINK\]|<\|channel>thought\b)|</(?:think|thinking|thought)>|\[/THINK\]|<channel\|>",
    re.IGNORECASE,
)


def quote(text: str) -> str:
    """Return `text` as a block quotation in which no line stands at the margin and no chat mark is whole."""
    return _PREFIX + _LINE_BREAK.sub(lambda end: end[1] + _PREFIX, escape(text))


def escape(text: str) -> str:
    """Return `text` with no chat mark whole."""
    return _CHAT_MARK.sub(lambda mark: mark[0] + "\\", text)


def cut_middle(text: str, keep: int) -> str:
    """Return the head and the tail of `text`, about `keep` characters, around a line that marks the cut.

    What was quoted stays quoted: a tail that begins within a quoted line gets that line's prefix, and so does
    the mark when the cut begins or ends in a quotation.
    """
    if keep >= len(text):
        return text
    if keep <= 0:
        return ""
    head, tail = (keep + 1) // 2, len(text) - keep // 2
    line, last_line = _line_start(text, head), _line_start(text, tail)
    in_quotation = text.startswith(_PREFIX, last_line)
    mark = f"\n{_PREFIX if in_quotation or text.startswith(_PREFIX, line) else ''}[…]\n"
    if in_quotation and tail > last_line:
        return text[:head] + mark + _PREFIX + text[max(tail, last_line + len(_PREFIX)) :]
    return text[:head] + mark + text[tail:]


def strip_thoughts(text: str) -> str:
    """Return `text` without its hidden reasoning.

    Reasoning is what stands between the marks of thinking models (<think>…</think>, [THINK]…[/THINK],
    <|channel>thought…<channel|>), what follows a mark that is never closed (the text was cut off), and
    everything before a closing mark that was never opened (the prompt had opened it).
    """
    kept: list[str] = []
    thinking, end = False, 0
    for mark in _THOUGHT_MARK.finditer(text):
        if not thinking:
            kept.append(text[end : mark.start()])
            if not mark["open"]:
                kept.clear()
        thinking, end = bool(mark["open"]), mark.end()
    if not thinking:
        kept.append(text[end:])
    return "".join(kept).strip()


def open_thought(text: str) -> str:
    """Return the end of `text` from the mark of the hidden reasoning that it leaves open; "" if it leaves none open."""
    *_, last = [None, *_THOUGHT_MARK.finditer(text)]
    return text[last.start() :] if last is not None and last["open"] else ""


def _line_start(text: str, place: int) -> int:
    """Return where the line begins that holds the character at `place`."""
    return 1 + max(text.rfind(end, 0, place) for end in _BREAKS)
