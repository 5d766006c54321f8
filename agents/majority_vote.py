"""`MajorityVote`: one agent answers several times, the most frequent answer counts (self-consistency, arXiv 2203.11171)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence

from agents.agent import actions_of, as_agent
from agents.ensemble import Ensemble, Player
from agon_env.types import Action, Observation
from agon_env.verifiers.extraction import extract_answer


class MajorityVote(Ensemble):
    """Plays contests with one seat: asks its agent k times and says what most of the answers say."""

    def __init__(self, agent: Player, k: int, *, key: Callable[[str], Hashable | None] = extract_answer) -> None:
        r"""Make a player.

        Args:
            agent: an agent, or a function; it should not say the same each time.
            k: how often it is asked.
            key: what of a text is voted on: texts with equal keys are one answer, a text whose key is None has no
                vote. Default: the content of the last `\boxed{…}`, or what follows "answer:". A task's verifier may
                know more spellings of one answer; pass a function that normalises them.

        Raises:
            ValueError: `k` is below 1.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        self.agent = as_agent(agent)
        self.k = k
        self.key = key
        super().__init__(self.agent)

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        """Ask for all observations, k times each, in one batch."""
        said = actions_of(self.agent, [observation for observation in observations for _ in range(self.k)])
        return [self._winner(said[first : first + self.k]) for first in range(0, len(said), self.k)]

    def _winner(self, said: Sequence[Action]) -> Action:
        """Return the first text that gives the most frequent answer; of answers with equal votes, the one given first."""
        keys = [self.key(action.text) for action in said]
        votes = Counter(key for key in keys if key is not None)  # which keeps the order of the first mentions
        if not votes:
            return said[0]
        return said[keys.index(max(votes, key=votes.__getitem__))]
