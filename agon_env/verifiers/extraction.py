r"""Where the final answer of a text is: the last `\boxed{…}`, else the last line with "answer:"."""

from __future__ import annotations

import re

from agon_env.quoting import strip_thoughts

_BARE = r"\s+-?\d+(?:\.\d+)?|\s*(?:\d+(?:\.\d+)?|(?<=\s)[A-Za-z]|\\[dt]?frac\s*\{[^{}]*\}\s*\{[^{}]*\})(?=\s*(?:\$|\\[)\]]|\Z))"
"""What a box without braces takes: one number, as in TeX, or all that is left of its formula if that is one thing."""
# One pass over the text: an escaped brace is text.
_TOKEN = re.compile(rf"\\(?:boxed|fbox)(?:\s*\{{|(?P<bare>{_BARE}))|\\[\\{{}}]|\{{+|\}}+")
_SIMPLE_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{((?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})*)\}")
_BESIDE = re.compile(
    r"(?:\n[ \t]*[-•](?=\s)|[\s,;/|&*_$]|\\[\\,;:!()\[\] ]|\\q?quad(?![A-Za-z])"
    r"|(?:\\text\s*\{\s*,?\s*)?\b(?P<word>and|or)\b(?:\s*\})?)*"
)
"""What may stand between boxes that are one answer."""
MAX_BESIDE = 1000
"""Characters before the last box in which others are looked for; longer answers are not read."""
_DISPLAYED = r"(?:\$\$[^$]{0,1000}\$\$|\\\[(?:[^\\]|\\[^\]]){0,1000}\\\])"
_MARKER = re.compile(r"\banswer[\s*_]{0,20}[:：]", re.IGNORECASE)
_ANSWER_LINE = re.compile(rf"{_MARKER.pattern}[*_\s]*(?P<answer>{_DISPLAYED}?[^\n]*)", re.IGNORECASE)
_PHRASE = re.compile(
    r"(?:the\s+)?(?:final\s+|correct\s+)?answer\s+is:?\s+(?P<answer>.+?)(?:\s+I hope it is correct\.?)?",
    re.IGNORECASE | re.DOTALL,
)
"""What models put between the marker and the value."""


def extract_answer(text: str) -> str | None:
    r"""Return the final answer in `text`, or None.

    Only what follows the last `</think>` counts. The answer is the content of the last `\boxed{…}` (or
    `\fbox{…}`), all of it if there is another box inside; a last box that is empty or never closed is no answer, so
    that an abandoned earlier one is not credited. Boxes of one paragraph with nothing but separators, "and" or "or"
    between them are one answer, a list: `\boxed{A}, \boxed{B}` is not the answer B. In a text without any box it is
    what follows the last "answer:", on that line or, when it ends there, on the next, without "the final answer is"
    and "I hope it is correct"; a displayed formula is taken to its end.
    """
    visible = strip_thoughts(text.rpartition("</think>")[2])
    found, boxed = _last_box(visible)
    if not found:
        boxed = _last_answer(visible)
    return (boxed or "").strip() or None


def _last_answer(text: str) -> str | None:
    lines = list(_ANSWER_LINE.finditer(text))
    if not lines:
        return None
    answer = _MARKER.split(lines[-1]["answer"])[-1].strip().strip("*_ \t")
    phrase = _PHRASE.fullmatch(answer)
    return phrase["answer"] if phrase else answer


def _last_box(text: str) -> tuple[bool, str | None]:
    """Return whether there is a box, and the content of the one that closes last if none opens after it. Linear time.

    Those beside it belong to it.
    """
    start = max(text.rfind(r"\boxed"), text.rfind(r"\fbox"))
    if start < 0:
        return False, None
    start = len(text[:start].rstrip("\\"))
    # what is before the last box matters only if that is within another one, or is none: \\boxed
    found = _scan(text[start:], is_whole=start == 0)
    if found is None:
        start, found = 0, _scan(text, is_whole=True)
    assert found
    at, content = found
    return at is not None, content if at is None or content is None else _with_those_beside(text, start + at, content)


def _with_those_beside(text: str, start: int, content: str) -> str:
    """Return the contents of the boxes of which the last opens at `start`, as a list; of equal ones the last."""
    found = {content: ""}
    for box in reversed([*_SIMPLE_BOX.finditer(text, max(0, start - MAX_BESIDE), start)]):
        gap = _BESIDE.fullmatch(text, box.end(), start)
        if not gap or not box[1].strip() or re.search(r"\n\s*\n", gap[0]):
            break
        found.setdefault(box[1].strip(), rf" \text{{ {gap['word']} }} " if gap["word"] else ", ")
        start = box.start()
    return "".join(part + link for part, link in reversed(found.items()))


def _scan(text: str, *, is_whole: bool) -> tuple[int | None, str | None] | None:
    """Return where the box begins that `_last_box` looks for, and its content; None and None if there is no box.

    None alone for a part of a text that does not tell without what is before it.
    """
    # the tokens that open boxes, as spans, and the numbers of other open braces between them
    open_braces: list[tuple[int, int] | int] = []
    outer, content = (-1, -1), (-1, -1)  # the last box with its braces, and what is in it
    for token in _TOKEN.finditer(text):
        if token["bare"] is not None:
            outer, content = token.span(), token.span("bare")
        elif token[0][0] == "}":
            closing, end = token.span()
            while closing < end and open_braces:
                opening = open_braces.pop()
                if isinstance(opening, int):
                    used = min(opening, end - closing)
                    closing += used
                    if opening > used:
                        open_braces.append(opening - used)
                    continue
                start, inside = opening
                around = text[inside : outer[0]] + text[outer[1] : closing] if inside <= outer[0] else "?"
                if around.strip():  # a box in a box, with nothing beside it, is one box
                    content = (inside, closing)
                closing += 1
                outer = (start, closing)
            if closing < end and not is_whole:
                return None
        elif token[0][0] == "{":
            open_braces.append(len(token[0]))
        elif token[0][-1] == "{" and token[0] != "\\{":
            open_braces.append(token.span())
    unclosed = max((opening[1] for opening in open_braces if not isinstance(opening, int)), default=-1)
    if unclosed > content[0]:
        return unclosed, None
    if outer[0] < 0:
        return (None, None) if is_whole else None
    return outer[0], text[slice(*content)].strip()
