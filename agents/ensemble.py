"""`Ensemble`: several agents that act as one, in contests with one seat. Also, how an answer is put before the next agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from agents.agent import Acts, Agent, as_agent
from agon_env.games.draft_challenge import CHALLENGE, Reveal, challenge_prompt, revealed
from agon_env.quoting import quote
from agon_env.types import Action, Observation

Player: TypeAlias = Agent | Acts | Callable[[Observation], str | Action]
"""Whatever `as_agent` makes an agent of."""


class Ensemble(Agent):
    """Agents that act as one. An agent may be a member several times, directly or inside another ensemble."""

    def __init__(self, *members: Player) -> None:
        """Take the members in."""
        self.members: tuple[Agent, ...] = tuple(map(as_agent, members))

    @property
    def tokens_spent(self) -> int:
        """Tokens that all members have sampled so far, as far as they count them; each member counts once."""
        return tokens_spent([self])


def tokens_spent(agents: Iterable[Agent]) -> int:
    """Return the tokens that agents have sampled by `act` so far, as far as they count them.

    An agent counts once, however often it is among them or a member of the ensembles among them.
    """
    single = {key: one for agent in agents for key, one in _single(agent).items()}
    return sum(getattr(agent, "tokens_spent", 0) for agent in single.values())


def _single(agent: Agent) -> dict[int, Agent]:
    """Return the agents that an ensemble consists of, whatever is nested in what, each once."""
    if not isinstance(agent, Ensemble):
        return {id(agent): agent}
    return {key: single for member in agent.members for key, single in _single(member).items()}


def challenged(observation: Observation, answers: Sequence[str], *, role: str, reveal: Reveal = "draft") -> Observation:
    """Return what an agent is asked after others have answered: the question, their answers quoted, and to check them.

    One answer is put as `DraftChallenge` puts a draft, so that a policy trained in the duel reads what it knows.

    Args:
        observation: the question as a contest with one seat asks it.
        answers: the texts of the others, at least one.
        role: in which role the agent is asked.
        reveal: how much of each answer is quoted.
    """
    *before, question = observation.messages
    if len(answers) == 1 or reveal == "nothing":
        prompt = challenge_prompt(question["content"], answers[0], reveal=reveal)
    else:
        shown = [revealed(answer, reveal) for answer in answers]
        quoted = ["none" if text is None else quote(text) for text in shown]
        introduction = f"{len(answers)} rivals have answered. The answers are quoted below; any of them may be wrong."
        numbered = [f"Answer {number}:\n\n{text}" for number, text in enumerate(quoted, start=1)]
        prompt = "\n\n".join([question["content"], introduction, *numbered, CHALLENGE])
    return replace(observation, role=role, messages=(*before, {**question, "content": prompt}))
