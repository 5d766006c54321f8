"""`Cascade`: a trained pair as one player. One drafts, the other answers after reading the draft."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from agents.agent import Agent, actions_of, as_agent
from agon_env.games.draft_challenge import challenge_prompt
from agon_env.types import Action, Observation


class Cascade(Agent):
    """Plays contests with one seat, such as `Solo`, as the duel was trained.

    The drafter answers; the challenger is asked through the prompt that `DraftChallenge` gives, and its answer
    is the action. The two may be the same agent.
    """

    def __init__(
        self,
        drafter: Agent | Callable[[Observation], str | Action],
        challenger: Agent | Callable[[Observation], str | Action],
        *,
        show_thinking: bool = False,
    ) -> None:
        """Make a pair.

        Args:
            drafter: an agent, or a function.
            challenger: an agent, or a function.
            show_thinking: as in `DraftChallenge`: whether the challenger sees the drafter's hidden reasoning.
        """
        self.drafter = as_agent(drafter)
        self.challenger = as_agent(challenger)
        self.show_thinking = show_thinking

    @property
    def tokens_spent(self) -> int:
        """Tokens that both have sampled so far, as far as they count them."""
        members = {id(agent): agent for agent in (self.drafter, self.challenger)}
        return sum(getattr(agent, "tokens_spent", 0) for agent in members.values())

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        """Draft for all observations, then answer all of them."""
        drafts = actions_of(self.drafter, [replace(observation, role="drafter") for observation in observations])
        return actions_of(self.challenger, [self._challenge(*pair) for pair in zip(observations, drafts, strict=True)])

    def _challenge(self, observation: Observation, draft: Action) -> Observation:
        *before, question = observation.messages
        prompt = challenge_prompt(question["content"], draft.text, show_thinking=self.show_thinking)
        return replace(observation, role="challenger", messages=(*before, {**question, "content": prompt}))
