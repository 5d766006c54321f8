"""A game of your own in less than 40 lines: two players split a pile of coins, and both must say the same split.

python examples/custom_game.py          # check the rules, play, and train two policies on it for a few steps
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

import agon_env
from agon_env import Contest
from agon_env.errors import InvalidMove


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
        return f"There are {self.coins} coins. Your rival keeps {self.kept}. Do you accept? Answer yes or no."

    def apply(self, role: str, text: str) -> str:
        """Read the proposal, or the verdict on it."""
        if role == "responder":
            self.accepted = "yes" in text.lower()
            return "yes" if self.accepted else "no"
        number = re.search(r"[0-9]+", text)
        if number is None or number[0] not in map(str, range(self.coins + 1)):
            raise InvalidMove(f"say a number from 0 to {self.coins}")
        self.kept = int(number[0])
        return number[0]

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
    env.step("Yes!")
    print(env.render())
