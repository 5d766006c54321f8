"""`NimExpert`: a player that has read Bouton."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agents import Agent
from agon_env import Action, Observation


class NimExpert(Agent):
    """Leaves a multiple of `most + 1` sticks whenever it can."""

    def __init__(self, most: str = "3") -> None:
        """Make a player; `agents.make("nim-expert:4")` plays where 4 may be taken.

        Args:
            most: how many sticks may be taken at once. What follows the colon of an id is a text.
        """
        self.most = int(most)

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        """Return a move for each observation, in their order: players act on batches."""
        return [Action(self._say(observation.text)) for observation in observations]

    def _say(self, text: str) -> str:
        pile = re.search(r"There are ([0-9]+) sticks", text)
        sticks = int(pile[1]) if pile else 1
        return rf"\boxed{{{sticks % (self.most + 1) or 1}}}"
