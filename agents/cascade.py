"""`Cascade`: a trained pair as one player. One drafts, the other answers after reading the draft."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agents.agent import actions_of, as_agent
from agents.ensemble import Ensemble, Player, challenged
from agon_env.games.draft_challenge import Reveal, check_reveal
from agon_env.types import Action, Observation


class Cascade(Ensemble):
    """Plays contests with one seat, such as `Solo`, as the duel was trained.

    The drafter answers; the challenger is asked through the prompt that `DraftChallenge` gives, and its answer
    is the action. The two may be the same agent.
    """

    def __init__(self, drafter: Player, challenger: Player, *, reveal: Reveal = "draft") -> None:
        """Make a pair.

        Args:
            drafter: an agent, or a function.
            challenger: an agent, or a function.
            reveal: as in `DraftChallenge`: how much of the draft the challenger reads. An "answer" is what
                `agon_env.verifiers.extraction.extract_answer` finds.
        """
        self.drafter = as_agent(drafter)
        self.challenger = as_agent(challenger)
        check_reveal(reveal)
        self.reveal = reveal
        super().__init__(self.drafter, self.challenger)

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        """Draft for all observations, then answer all of them."""
        drafts = actions_of(self.drafter, [replace(observation, role="drafter") for observation in observations])
        asked = [
            challenged(observation, [draft.text], role="challenger", reveal=self.reveal)
            for observation, draft in zip(observations, drafts, strict=True)
        ]
        return actions_of(self.challenger, asked)
