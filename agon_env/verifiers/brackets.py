"""Answers cut at what stands outside of all brackets."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SEMICOLON = re.compile(";")


def top_level(text: str, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Yield the matches of `pattern` outside of all brackets; none of them is empty."""
    depth = position = 0
    while position < len(text):
        if text[position] in "([{":
            depth += 1
        elif text[position] in ")]}":
            depth -= 1
        elif depth == 0 and (found := pattern.match(text, position)) and found.end() > position:
            yield found
            position = found.end()
            continue
        position += 1


def split(text: str, separator: re.Pattern[str]) -> list[str]:
    """Split outside of all brackets; no empty parts."""
    parts, start = [], 0
    for found in top_level(text, separator):
        parts.append(text[start : found.start()])
        start = found.end()
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]


def balanced(text: str) -> bool:
    """Return whether every bracket that closes was opened, of whatever shape."""
    depth = 0
    for sign in text:
        depth += (sign in "([{") - (sign in ")]}")
        if depth < 0:
            return False
    return depth == 0


def group(text: str) -> tuple[str, list[str]] | None:
    """Return the brackets and the parts of a set, tuple, interval or union; None for a formula."""
    text = text.strip()
    if len(parts := split(text, re.compile(r"\\cup(?![A-Za-z])"))) > 1:
        return "union", parts
    opening, closing = (r"\{", r"\}") if text.startswith(r"\{") else (text[:1], text[-1:])
    if not (text.startswith(opening) and text.endswith(closing)) or opening + closing not in (r"\{\}", "()", "[]", "(]", "[)"):
        return None
    inside = text[len(opening) : -len(closing)]
    if not balanced(inside):
        return None
    parts = split(inside, re.compile(",")) if not any(top_level(inside, _SEMICOLON)) else split(inside, _SEMICOLON)
    if not parts and inside.strip():
        return None  # a lone comma
    if opening + closing != r"\{\}" and len(parts) < 2:
        return None
    return opening + closing, parts
