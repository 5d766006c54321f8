"""`Agent`: anything that turns observations into text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence, Sized
from itertools import islice
from typing import Protocol

from agents.errors import MalformedActions
from agon_env.types import Action, Observation


class Agent(ABC):
    """A player. Acts on a batch, because models are fast that way; `agent(observation)` is the same for one."""

    @abstractmethod
    def act(self, observations: Sequence[Observation]) -> Sequence[Action]:
        """Return one action for each observation, in order."""

    def __call__(self, observation: Observation) -> Action:
        """Return the action for one observation."""
        (action,) = actions_of(self, [observation])
        return action


class Acts(Protocol):
    """What has the method of an agent, whatever its class is."""

    def act(self, observations: Sequence[Observation], /) -> Iterable[str | Action]:
        """Return one action for each observation, in order."""
        ...


class FunctionAgent(Agent):
    """A function from an observation to a text, as an agent."""

    def __init__(self, function: Callable[[Observation], str | Action]) -> None:
        """Wrap `function`."""
        self.function = function

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        """Call the function once for each observation."""
        return list(map(_action, map(self.function, observations)))


class ActingAgent(Agent):
    """An object with a method `act`, as an agent."""

    def __init__(self, player: Acts) -> None:
        """Wrap `player`."""
        self.player = player

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        """Ask the object for all observations at once."""
        return actions_of(self.player, observations)


def as_agent(player: Agent | Acts | Callable[[Observation], str | Action]) -> Agent:
    """Return `player` as an agent: an agent itself, an object with `act`, or a function from an observation to a text.

    Raises:
        TypeError: it is none of these.
    """
    if isinstance(player, Agent):
        return player
    if isinstance(player, type):
        raise TypeError(f"{player.__name__} is a class; make a player of it first: {player.__name__}(…)")
    if callable(getattr(player, "act", None)):
        return ActingAgent(player)  # type: ignore[arg-type]
    if not callable(player):
        raise TypeError(
            f"{player!r} is no player: pass an Agent, an object with act(observations), or a function from an observation to "
            "a text; for a name use agents.make"
        )
    return FunctionAgent(player)


def actions_of(player: Acts, observations: Sequence[Observation]) -> list[Action]:
    """Return what `player.act` says to the observations, one action for each; a plain text becomes an `Action`.

    Raises:
        MalformedActions: `act` returned no list, or more or fewer actions than there are observations.
    """
    said = player.act(observations)
    expected = f"{type(player).__name__}.act must return a list with one action for each observation, in their order"
    if isinstance(said, str) or not isinstance(said, Iterable):
        raise MalformedActions(f"{expected}, not {said!r}")
    actions = list(map(_action, islice(said, len(observations) + 1)))  # it may never end
    if len(actions) != len(observations):
        count = len(said) if isinstance(said, Sized) else len(actions)
        raise MalformedActions(f"{expected}; it returned {count} for {len(observations)}")
    return actions


def _action(said: str | Action) -> Action:
    return said if isinstance(said, Action) else Action(said)
