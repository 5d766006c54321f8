"""A game of your own in less than 40 lines: two players split a pile of coins, if they agree on it.

python examples/custom_game.py          # check the rules, play, and train two policies on it: they learn to come to a deal
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

import agon_env
from agon_env import Contest
from agon_env.errors import InvalidMove
from algos.config import TINY
from algos.imitation import Imitation
from algos.learner import OptimConfig
from algos.trainer import train


class SplitTheCoins(Contest):
    """One proposes how many coins it keeps; the other takes the rest, or refuses and leaves both with nothing."""

    roles = ("proposer", "responder")

    def setup(self, rng: np.random.Generator, options: Mapping[str, Any]) -> None:
        """Lay out between 2 and 9 coins."""
        self.coins = int(rng.integers(2, 10))
        self.kept: int | None = None
        self.accepted = False

    def prompt(self, role: str) -> str:
        """Tell a player what it must decide."""
        if role == "proposer":
            return f"There are {self.coins} coins. How many do you keep? Answer with a number."
        return f"There are {self.coins} coins. Your rival keeps {self.kept}. Do you accept? Answer 1 for yes, 0 for no."

    def apply(self, role: str, text: str) -> str:
        """Read the proposal, or the verdict on it."""
        number, legal = re.search(r"[0-9]+", text), self.legal_texts(role)
        if number is None or number[0] not in legal:
            raise InvalidMove(f"say a number from 0 to {legal[-1]}")
        if role == "proposer":
            self.kept = int(number[0])
        self.accepted = role == "responder" and number[0] == "1"
        return number[0]

    def legal_texts(self, role: str) -> list[str]:
        """Name the moves, from which a random player draws."""
        return [str(number) for number in range(self.coins + 1 if role == "proposer" else 2)]

    def score(self) -> dict[str, float | None]:
        """Pay each player its share of the coins, if there is a deal."""
        share = (self.kept or 0) / self.coins
        return {"proposer": share, "responder": 1 - share} if self.accepted else {"proposer": 0.0, "responder": 0.0}


agon_env.register("examples/SplitTheCoins-v0", SplitTheCoins)

if __name__ == "__main__":
    agon_env.check_env("examples/SplitTheCoins-v0")
    env = agon_env.make("examples/SplitTheCoins-v0")
    env.reset(seed=0)
    env.step("I keep 1.")
    env.step("1, I accept.")
    print(env.render())
    few = {"steps": 8, "problems": 4, "max_tokens": 8, "eval_problems": 64}
    # The embedded model has never read of coins: before it competes it is shown legal moves, drawn at random.
    taught = {"imitation": Imitation(steps=10), "optim": OptimConfig(learning_rate=3e-3)}
    train(dataclasses.replace(TINY, env="examples/SplitTheCoins-v0", **few, **taught))
