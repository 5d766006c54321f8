"""An agent of your own: a function from what it sees to what it says, or a class that acts on a batch.

python examples/custom_agent.py
"""

import re
from collections.abc import Sequence

import agents
import agon_env
from agon_env import Action, Observation


def guesser(observation: Observation) -> str:
    """Always say 7. Any function is an agent."""
    return r"It is often seven. \boxed{7}"


class Follower(agents.Agent):
    """Repeat the rival's answer; where there is no draft to copy, say 0."""

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        """Answer a batch of observations."""
        return [Action(self._copy(observation.text)) for observation in observations]

    def _copy(self, text: str) -> str:
        answers = re.findall(r"\\boxed\{([^{}]+)\}", text)
        return rf"I agree. \boxed{{{answers[-1]}}}" if answers else r"\boxed{0}"


agents.register("follower", Follower, description="repeats the rival's answer")

if __name__ == "__main__":
    env = agon_env.make("ArithmeticDuel-v0")
    players = {"alice": agents.as_agent(guesser), "bob": agents.make("follower")}
    wins = 0
    for seed in range(100):
        observation, _ = env.reset(seed=seed)
        while not env.done:
            observation, *_ = env.step(players[env.current_player](observation))
        wins += env.outcome.scores["bob"] == 1
    print(f"The follower was right in {wins} of 100 contests: as often as the guesser whom it follows.")
