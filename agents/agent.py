"""`Agent`: anything that turns observations into text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from agon_env.types import Action, Observation


class Agent(ABC):
    """A player. Acts on a batch, because models are fast that way; `agent(observation)` is the same for one."""

    @abstractmethod
    def act(self, observations: Sequence[Observation]) -> Sequence[Action]:
        """Return one action for each observation, in order."""

    def __call__(self, observation: Observation) -> Action:
        """Return the action for one observation."""
        (action,) = self.act([observation])
        return action


class FunctionAgent(Agent):
    """A function from an observation to a text, as an agent."""

    def __init__(self, function: Callable[[Observation], str | Action]) -> None:
        """Wrap `function`."""
        self.function = function

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        """Call the function once for each observation."""
        return [action if isinstance(action, Action) else Action(action) for action in map(self.function, observations)]


def as_agent(player: Agent | Callable[[Observation], str | Action]) -> Agent:
    """Return `player` as an agent; a plain function becomes a `FunctionAgent`."""
    return player if isinstance(player, Agent) else FunctionAgent(player)
