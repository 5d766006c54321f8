r"""How a text that somebody else wrote is shown on a terminal or in a log: nothing in it acts.

Control characters move the cursor, change colours, rename the window or ring; bidirectional marks make a line read
otherwise than it is; a pile of marks on one character covers other lines. They are shown as what they are: \x1b, \u202e.
Line feeds and tabs stay.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

_KEPT = frozenset("\n\t")
_ACTING = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Unicode categories: control, format (bidirectional marks, zero widths), surrogate, private use, separators of lines."""
_JOINERS = frozenset("\u200c\u200d\ufe0f")
"""Format characters that words of some scripts and emoji are written with."""
_STACKING = frozenset({"Mn", "Me"})
_MOST_MARKS = 8
"""On one character; no script needs as many."""


def printable(text: str, *, limit: int | None = None) -> str:
    """Return `text` with every character that acts instead of showing written as its escape.

    Args:
        text: whatever it is.
        limit: most characters of `text` that are kept; the rest becomes an ellipsis.
    """
    if limit is not None and len(text) > limit:
        text = text[:limit] + "…"
    return "".join(_shown(text)) if not text.isascii() or not text.isprintable() else text


def quotation(text: str) -> str:
    """Return `text` printable, and every line of it behind "> ", so that none of them poses as what stands around it."""
    return "> " + printable(text).replace("\n", "\n> ")


def _shown(text: str) -> Iterator[str]:
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category in _STACKING else 0
        acts = category in _ACTING and character not in _KEPT and character not in _JOINERS
        yield character.encode("unicode_escape", "surrogatepass").decode("ascii") if acts or marks > _MOST_MARKS else character
