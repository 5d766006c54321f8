"""`SelfRefine`: one agent that reads its own answer and gives it again, several times (arXiv 2303.17651)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agents.agent import actions_of, as_agent
from agents.ensemble import Ensemble, Player, challenged
from agon_env.games.draft_challenge import Reveal, check_reveal
from agon_env.types import Action, Observation


class SelfRefine(Ensemble):
    """Plays contests with one seat: drafts, then checks and answers anew `rounds` times; the last answer counts.

    One round is `Cascade(agent, agent)`.
    """

    def __init__(self, agent: Player, rounds: int = 1, *, reveal: Reveal = "draft") -> None:
        """Make a player.

        Args:
            agent: an agent, or a function.
            rounds: how often the answer is read and given again; 0 leaves the draft.
            reveal: how much of its last answer the agent reads; see `Cascade`.

        Raises:
            ValueError: `rounds` is negative.
        """
        if rounds < 0:
            raise ValueError(f"rounds must be at least 0, not {rounds}")
        self.agent = as_agent(agent)
        self.rounds = rounds
        check_reveal(reveal)
        self.reveal = reveal
        super().__init__(self.agent)

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        """Answer all observations at once, round after round."""
        answers = actions_of(self.agent, [replace(observation, role="drafter") for observation in observations])
        for _ in range(self.rounds):
            asked = [
                challenged(observation, [answer.text], role="challenger", reveal=self.reveal)
                for observation, answer in zip(observations, answers, strict=True)
            ]
            answers = actions_of(self.agent, asked)
        return answers
