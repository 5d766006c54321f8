"""`MixtureOfAgents`: several propose, one reads all proposals and answers (arXiv 2406.04692)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agents.agent import Agent, actions_of, as_agent
from agents.ensemble import Ensemble, Player, challenged
from agon_env.games.draft_challenge import Reveal, check_reveal
from agon_env.types import Action, Observation


class MixtureOfAgents(Ensemble):
    """Plays contests with one seat. Nothing is trained: what it gains comes from reading alone.

    In the first layer each proposer answers; in every further one each answers again after reading all answers of the
    layer before; the aggregator reads those of the last layer, and its answer is the action. `MixtureOfAgents([a], b)`
    is `Cascade(a, b)`.
    """

    def __init__(self, proposers: Sequence[Player], aggregator: Player, *, layers: int = 1, reveal: Reveal = "draft") -> None:
        """Make a player.

        Args:
            proposers: agents or functions; one may occur several times, and then proposes as often.
            aggregator: an agent or a function; it may be a proposer too.
            layers: how often the proposers answer before the aggregator does.
            reveal: how much of the proposals is read; see `Cascade`.

        Raises:
            ValueError: there is no proposer, or no layer.
        """
        if not proposers:
            raise ValueError("a mixture needs at least one proposer")
        if layers < 1:
            raise ValueError(f"layers must be at least 1, not {layers}")
        self.proposers = tuple(map(as_agent, proposers))
        self.aggregator = as_agent(aggregator)
        self.layers = layers
        check_reveal(reveal)
        self.reveal = reveal
        super().__init__(*self.proposers, self.aggregator)

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        """Answer all observations: in each layer every proposer is asked once, for all of them."""
        proposals = self._layer([replace(observation, role="drafter") for observation in observations])
        for _ in range(self.layers - 1):
            proposals = self._layer(self._challenged(observations, proposals))
        return actions_of(self.aggregator, self._challenged(observations, proposals))

    def _layer(self, asked: Sequence[Observation]) -> list[list[str]]:
        """Return for each observation the text of each proposer; one that occurs several times is asked in one batch."""
        texts: list[list[str]] = [[""] * len(self.proposers) for _ in asked]
        for agent, places in _places(self.proposers):
            said = iter(actions_of(agent, [observation for observation in asked for _ in places]))
            for row in texts:
                for place in places:
                    row[place] = next(said).text
        return texts

    def _challenged(self, observations: Sequence[Observation], proposals: Sequence[Sequence[str]]) -> list[Observation]:
        return [
            challenged(observation, texts, role="challenger", reveal=self.reveal)
            for observation, texts in zip(observations, proposals, strict=True)
        ]


def _places(agents: Sequence[Agent]) -> list[tuple[Agent, list[int]]]:
    """Return each agent once, with the places at which it stands."""
    found: dict[int, tuple[Agent, list[int]]] = {}
    for place, agent in enumerate(agents):
        found.setdefault(id(agent), (agent, []))[1].append(place)
    return list(found.values())
