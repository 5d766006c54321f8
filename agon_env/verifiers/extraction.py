r"""Where the final answer of a text is: the last `\boxed{…}`, else the last line with "answer:"."""

from __future__ import annotations

import re

from agon_env.quoting import strip_thoughts

_BARE = r"\s+-?\d+(?:\.\d+)?|\s*(?:\d+(?:\.\d+)?|(?<=\s)[A-Za-z]|\\[dt]?frac\s*\{[^{}]*\}\s*\{[^{}]*\})(?=\s*(?:\$|\\[)\]]|\Z))"
"""What a box without braces takes: one number, as in TeX, or all that is left of its formula if that is one thing."""
# One pass over the text: an escaped brace is text.
_TOKEN = re.compile(rf"\\(?:boxed|fbox)(?:\s*\{{|(?P<bare>{_BARE}))|\\[\\{{}}]|[{{}}]")
_DISPLAYED = r"(?:\$\$[^$]{0,1000}\$\$|\\\[(?:[^\\]|\\[^\]]){0,1000}\\\])"
_ANSWER_LINE = re.compile(rf"\banswer[\s*_]*[:：][*_\s]*(?P<answer>{_DISPLAYED}?[^\n]*)", re.IGNORECASE)


def extract_answer(text: str) -> str | None:
    r"""Return the final answer in `text`, or None.

    Only what follows the last `</think>` counts. The answer is the content of the last `\boxed{…}` (or
    `\fbox{…}`); a last box that is empty or never closed is no answer, so that an abandoned earlier one is
    not credited. In a text without any box it is what follows the last "answer:", on
    that line or, when it ends there, on the next; a displayed formula is taken to its end.
    """
    visible = strip_thoughts(text)
    found, boxed = _last_box(visible)
    if not found:
        lines = list(_ANSWER_LINE.finditer(visible))
        boxed = lines[-1]["answer"].strip().strip("*_ \t") if lines else None
    return (boxed or "").strip() or None


def _last_box(text: str) -> tuple[bool, str | None]:
    """Return whether there is a box, and the content of the one that opens last if it is complete. Linear time."""
    open_braces: list[tuple[int, bool]] = []  # (where its content begins, is it a box)
    last_start, last_content = -1, None
    for token in _TOKEN.finditer(text):
        if token["bare"] is not None:
            last_start, last_content = token.end(), token["bare"].strip()
        elif token[0] == "}":
            if open_braces:
                start, is_box = open_braces.pop()
                if is_box and start > last_start:
                    last_start, last_content = start, text[start : token.start()]
        elif token[0][-1] == "{" and token[0] != "\\{":
            open_braces.append((token.end(), token[0] != "{"))
    unclosed = max((start for start, is_box in open_braces if is_box), default=-1)
    if unclosed > last_start:
        return True, None
    return last_start >= 0, last_content
