"""`Event`, one action in a transcript, and `Events`, all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, overload

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


_WIDTH = len(Event._fields)


class Events(Sequence[Event]):
    """The events of a contest; equal to any sequence of the same events.

    Their fields are held one after another in a flat list, so that an event is no object by itself: an object each would
    make Python search for cycles the more often, and through all of them, the more contests there are.
    """

    __slots__ = ("flat",)

    def __init__(self, events: Iterable[Event] = ()) -> None:
        """Hold these events."""
        self.flat: list[Any] = (
            events.flat.copy() if isinstance(events, Events) else [field for event in events for field in event]
        )
        """The fields of all events; a contest extends it by a `Row`."""

    def append(self, event: Event) -> None:
        """Add an event at the end."""
        self.flat.extend(event)

    def last_row(self) -> Row:
        """Return the fields of the last event."""
        return tuple(self.flat[-_WIDTH:])

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> Events: ...
    def __getitem__(self, index: int | slice) -> Event | Events:
        if isinstance(index, slice):
            return Events(list(self)[index])
        start = _WIDTH * range(len(self))[index]
        return Event._make(self.flat[start : start + _WIDTH])

    def __len__(self) -> int:
        return len(self.flat) // _WIDTH

    def __iter__(self) -> Iterator[Event]:
        fields = iter(self.flat)
        return map(Event, *[fields] * _WIDTH)

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))
