"""What players say: the conversation as one of them reads it, and the move in a text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agon_env.errors import InvalidMove
from agon_env.quoting import quote, strip_thoughts


def conversation(said: Sequence[tuple[str, str]], reader: str) -> list[str]:
    """Return what was said, `(role, text)` in order, as the role `reader` is shown it: quoted, without hidden thoughts."""
    return [f"{'You' if role == reader else 'The other player'} said:\n\n{quote(strip_thoughts(text))}" for role, text in said]


def chosen(moves: Sequence[str], text: str) -> str:
    """Return the one of `moves` that `text` names last, by its word or its number from 1: models think aloud before they move.

    Raises:
        InvalidMove: it names none of them.
    """
    by_name = {move.lower(): move for move in moves} | {str(number): move for number, move in enumerate(moves, start=1)}
    found = re.findall(rf"(?<!\w)(?:{'|'.join(map(re.escape, by_name))})(?!\w)", text, re.IGNORECASE)
    if not found:
        raise InvalidMove(f"say {', '.join(moves[:-1])} or {moves[-1]}, or its number")
    return by_name[found[-1].lower()]


def numbers(moves: Sequence[str]) -> tuple[str, ...]:
    """Return what names each of `moves` in the fewest tokens: its number."""
    return tuple(str(number) for number in range(1, len(moves) + 1))


def menu(moves: Sequence[str]) -> str:
    """Return the moves with their numbers, for a prompt."""
    return ", ".join(f"{number} {move}" for number, move in enumerate(moves, start=1))
