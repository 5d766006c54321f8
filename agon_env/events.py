"""`Event`, one action in a transcript, and `Events`, all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias, overload

Row: TypeAlias = tuple[int, str, str, str, bool, int, str | None, str | None, tuple[str, ...]]
"""The fields of an `Event`, in their order."""


class Event(NamedTuple):
    """One action, also one that was refused."""

    turn: int
    player: str
    role: str
    text: str
    """The text as the contest took it, verbatim."""
    truncated: bool
    chars: int
    """Length of the text before it was cut to the contest's limit."""
    extracted: str | None
    """What the game read in it, for example the final answer."""
    invalid: str | None
    """Why the move was refused; None for a legal one."""
    visible_to: tuple[str, ...]


class Events(Sequence[Event]):
    """The events of a contest; equal to any sequence of the same events.

    They are held as plain tuples, which alone Python's garbage collector drops from its lists: thousands of contests of
    many turns would make each of its searches for cycles go through every event.
    """

    __slots__ = ("rows",)

    def __init__(self, events: Iterable[Event | Row] = ()) -> None:
        """Hold these events."""
        self.rows: list[Row] = [_row(event) for event in events]
        """What a contest appends to."""

    def append(self, event: Event) -> None:
        """Add an event at the end."""
        self.rows.append(_row(event))

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> Events: ...
    def __getitem__(self, index: int | slice) -> Event | Events:
        return Events(self.rows[index]) if isinstance(index, slice) else Event._make(self.rows[index])

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Event]:
        return map(Event._make, self.rows)

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))


def _row(event: Event | Row) -> Row:
    return tuple(event)  # type: ignore[return-value]  # mypy does not know the types of its items
