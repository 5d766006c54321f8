"""What players say: the conversation as one of them reads it, and the move in a text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agon_env.errors import InvalidMove
from agon_env.quoting import quote, strip_thoughts


def conversation(said: Sequence[tuple[str, str]], reader: str) -> list[str]:
    """Return what was said, `(role, text)` in order, as the role `reader` is shown it: quoted, without hidden thoughts."""
    return [f"{'You' if role == reader else 'The other player'} said:\n\n{quote(strip_thoughts(text))}" for role, text in said]


def last_of(words: Sequence[str], text: str) -> str:
    """Return the one of `words` that `text` says last, in whatever case: models think aloud before they move.

    Raises:
        InvalidMove: it says none of them.
    """
    found = re.findall(rf"(?<!\w)(?:{'|'.join(map(re.escape, words))})(?!\w)", text, re.IGNORECASE)
    if not found:
        raise InvalidMove(f"say {', '.join(words[:-1])} or {words[-1]}")
    return next(word for word in words if word.lower() == found[-1].lower())
