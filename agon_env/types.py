"""What travels between a contest and its players, in the order in which it appears.

`Message`      one chat message, `{"role": ..., "content": ...}`.
`Observation`  what the player to move sees: a tuple of messages.
`Action`       what a player says; `NoMove` stands for one that says nothing.
`Outcome`      how a contest ended: scores, and the rewards of *all* players.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, TypeAlias

import numpy as np

Message: TypeAlias = dict[str, str]
"""A chat message with the keys `role` ("system", "user" or "assistant") and `content`."""

Reward: TypeAlias = float | None
"""A reward or score. `None` means that it could not be computed; it is never a disguised 0."""


class FrozenDict(dict[str, Any]):
    """A dict that can't be changed; unlike `MappingProxyType` it can be copied, pickled and written as JSON."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("this mapping is part of a finished record and can't be changed; make a copy with dict(...)")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type, tuple[dict[str, Any]]]:
        return FrozenDict, (dict(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenDict:
        return FrozenDict(copy.deepcopy(dict(self), memo))


EMPTY = FrozenDict()

_ATOMS = frozenset({str, int, float, bool, type(None)})


def freeze(value: Any) -> Any:
    """Return `value` so that nobody can change it: dicts frozen, lists as tuples, numpy scalars as Python's, at any depth."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is dict or isinstance(value, Mapping):
        return FrozenDict({key: freeze(item) for key, item in value.items()}) if value else EMPTY
    if isinstance(value, list | tuple):
        return tuple([freeze(item) for item in value])
    return value.item() if isinstance(value, np.generic) else value


def unshared(value: Any) -> Any:
    """Return what `copy.deepcopy` does, at a fraction of its cost where `value` is made of plain JSON values."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is dict:
        return {key: unshared(item) for key, item in value.items()}
    return copy.deepcopy(value)


@dataclass(frozen=True, slots=True, init=False)
class Observation:
    """What one player sees when it is its turn.

    Observations compare by value and never change, so that a contest gives the same one to everybody who asks: `messages`
    are made anew at each access, and are the caller's to edit. `dataclasses.replace` makes another observation.
    """

    player: str
    """Who is asked to move, for example "alice"."""
    role: str
    """The part that this player has in this contest, for example "drafter"."""
    messages: tuple[Message, ...]
    """The conversation so far, in chat format. Empty for a player that has not been asked yet."""
    _held: ClassVar[Any]
    """What the slot of `messages` holds: one text of the user, or the messages."""

    def __init__(self, player: str, role: str, messages: str | Iterable[Message] = ()) -> None:
        """Hold what `player` sees; a text is short for one message of the user."""
        _set_player(self, player)
        _set_role(self, role)
        _hold(self, messages if isinstance(messages, str) else tuple([dict(message) for message in messages]))

    @property
    def text(self) -> str:
        """The contents of all messages as one string, separated by blank lines."""
        held = self._held
        return held if isinstance(held, str) else "\n\n".join([message["content"] for message in held])

    def __deepcopy__(self, memo: dict[int, Any]) -> Observation:
        return self


def _messages(observation: Observation) -> tuple[Message, ...]:
    held = observation._held
    if isinstance(held, str):
        return ({"role": "user", "content": held},)
    return tuple([message.copy() for message in held])


# `messages` is a field like any other to ==, repr, replace and pickle, but what its slot holds is never given away.
_set_player, _set_role, _hold = (vars(Observation)[name].__set__ for name in ("player", "role", "messages"))
setattr(Observation, "_held", vars(Observation)["messages"])  # noqa: B010 - mypy takes a slot for a value of its type
setattr(Observation, "messages", property(_messages, _hold))  # noqa: B010 - mypy allows no assignment to a field


@dataclass(frozen=True, slots=True)
class Action:
    """What a player says.

    A plain `str` is as good as `Action(text)` wherever an action is expected.
    """

    text: str
    """The text, verbatim."""
    truncated: bool = False
    """True when the sampler knows that the text was cut off before its end."""


NO_MOVE = "no move: "
"""What the complaint about a `NoMove` begins with in a transcript."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoMove(Action):
    """Stands for the action of a player that has none: it failed, or resigns. The contest ends by it."""

    text: str = ""
    """Nothing is said."""
    reason: str
    """Why, in a few words: "alice raised ValueError: …"."""
    forfeits: bool = True
    """Whether the player loses by it, as by an invalid move. Otherwise the contest is aborted, and nobody is paid."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a contest ended. It never changes once it exists."""

    rewards: Mapping[str, Reward]
    """Player → total reward; holds every player, also one that never moved."""
    scores: Mapping[str, Reward]
    """Player → the raw score of its own play, before the reward rule."""
    components: Mapping[str, Mapping[str, Reward]]
    """Player → the parts that its reward is the sum of, for example outcome and bonus."""
    roles: Mapping[str, str]
    """Player → role."""
    reason: str
    """Why it ended: "completed", "forfeit: …", "max_turns" or "aborted: …"."""
    details: Mapping[str, object] = field(default_factory=dict)
    """What the game adds, for example the extracted answers."""

    @property
    def winner(self) -> str | None:
        """The one player with the highest reward; None for a tie or where a reward is missing."""
        rewards = {player: reward for player, reward in self.rewards.items() if reward is not None}
        if len(rewards) < len(self.rewards):
            return None
        leaders = [player for player, reward in rewards.items() if reward == max(rewards.values())]
        return leaders[0] if len(leaders) == 1 else None
