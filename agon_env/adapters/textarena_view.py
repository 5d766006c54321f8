"""A contest as a TextArena environment (needs the package `textarena`).

Example:
    ```python
    env = agon_env.to_textarena(agon_env.make("ArithmeticDuel-v0"))
    env.reset(num_players=2, seed=0)
    done = False
    while not done:
        player_id, observation = env.get_observation()
        done, info = env.step(action=agents[player_id](observation))
    rewards, game_info = env.close()
    ```
"""

from __future__ import annotations

from math import nan
from typing import Any

from agon_env.adapters.seats import check_contest
from agon_env.adapters.textarena import textarena
from agon_env.contest import Contest
from agon_env.errors import Error
from agon_env.types import Action


class TextArenaView(textarena.Env):
    """The contest with its players as TextArena's: player i is the i-th of `contest.players`.

    Looking at an observation does not consume it, and no step is taken after the end, unlike in TextArena's own games. A
    reward that could not be computed is NaN. `close` before the end gives the rewards None.
    """

    def __init__(self, contest: Contest) -> None:
        """See `to_textarena`."""
        self.contest = check_contest(contest)

    def reset(self, num_players: int, seed: int | None = None) -> None:
        """Start a contest.

        Raises:
            Error: the contest is for another number of players, or the seed is not a non-negative integer.
        """
        if num_players != len(self.contest.players):
            raise Error(f"{self.contest!r} is for {len(self.contest.players)} players, not for {num_players}")
        self.contest.reset(seed=seed)

    def get_observation(self) -> tuple[int, str]:
        """Return the number of the player to move and what it sees.

        Raises:
            EpisodeOver: nobody is to move.
        """
        observation = self.contest.observe()
        return self.contest.players.index(observation.player), observation.text

    def step(self, action: str | Action) -> tuple[bool, dict[str, Any]]:
        """Play for the player to move; return whether the contest has ended, and the contest's info.

        Raises:
            ResetNeeded, EpisodeOver, TypeError: see `Contest.step`; nothing changes.
        """
        *_, info = self.contest.step(action)
        return self.contest.done, info

    def close(self) -> tuple[dict[int, float] | None, dict[int, dict[str, Any]]]:
        """Return the rewards, None if the contest has not ended, and for every player its role and how it ended."""
        outcome = self.contest.outcome
        self.contest.close()
        if outcome is None:
            return None, {number: {"reason": "closed before the end"} for number in range(len(self.contest.players))}
        paid = {number: outcome.rewards[player] for number, player in enumerate(self.contest.players)}
        told = {
            number: {"role": outcome.roles[player], "reason": outcome.reason, "unscored": outcome.rewards[player] is None}
            for number, player in enumerate(self.contest.players)
        }
        return {number: nan if reward is None else reward for number, reward in paid.items()}, told


def to_textarena(env: Contest) -> TextArenaView:
    """Return `env` as a TextArena environment, which drives it from now on.

    Args:
        env: a contest.

    Raises:
        TypeError: `env` is no contest.
    """
    return TextArenaView(env)
