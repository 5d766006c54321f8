"""A contest as a Gymnasium environment: one seat is yours, the others are played for you.

Example:
    ```python
    env = agon_env.to_gymnasium(agon_env.make("ArithmeticDuel-v0"), seat="challenger", rivals=my_drafter)
    env = gymnasium.make("agon_env/ArithmeticDuel-v0", seat="challenger", rivals=my_drafter)  # after import agon_env
    env = gymnasium.make("agon_env:agon_env/ArithmeticDuel-v0", …)  # imports agon_env by itself
    ```
An id with a namespace, `Space/Game-v0`, is `agon_env/Space.Game-v0` in Gymnasium, which has but one level.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from typing import Any

import gymnasium

from agon_env.adapters.seats import Rival, check_contest, check_seat, player_in, rival_of
from agon_env.contest import Contest
from agon_env.errors import Error
from agon_env.registration import make
from agon_env.spaces import TextSpace
from agon_env.types import Action

OBSERVATION_CHARS = 2**24
"""Characters that an observation may have in the views; a prompt has no bound of its own."""


class GymnasiumContest(gymnasium.Env[str, str]):
    """The contest as its player in one seat sees it. Observations and actions are texts.

    - The observation is `Observation.text`; the chat messages are in `info["messages"]`.
    - The reward is what the seat was paid since its last action. A reward that could not be computed is NaN,
      and `info["unscored"]` is True.
    - A contest that a rival ends before the seat has moved ends with the first `step`, whatever its action.
    """

    metadata = {  # noqa: RUF012 - gymnasium.Env declares it as an instance attribute
        "render_modes": ["ansi"],
        "render_fps": 1,
    }

    def __init__(
        self,
        contest: Contest,
        seat: str | None = None,
        rivals: Rival | Mapping[str, Rival] | None = None,
        *,
        render_mode: str | None = None,
    ) -> None:
        """See `to_gymnasium`."""
        self.contest = check_contest(contest)
        self.seat = check_seat(contest, seat, rivals)
        self.rivals = rivals
        self.render_mode = render_mode
        self.observation_space = TextSpace(OBSERVATION_CHARS)
        self.action_space = TextSpace(contest.max_chars)
        self._reward, self._terminated, self._truncated = 0.0, False, False
        self._ended_in_reset = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start a contest and let the rivals play until it is the seat's turn. Arguments as in `Contest.reset`."""
        super().reset(seed=seed)
        _, info = self.contest.reset(seed=int(self.np_random.integers(2**53)) if seed is None else seed, options=options)
        self.player = player_in(self.contest, self.seat)
        self._reward, self._terminated, self._truncated, self._ended_in_reset = 0.0, False, False, False
        self._let_rivals_play()
        self._ended_in_reset = self.contest.done
        return self._text(), self._info(info)

    def step(self, action: str | Action) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play `action` for the seat, then let the rivals play until it is the seat's turn again.

        Raises:
            Error: a rival raised an exception in the last call and has yet to move; only `reset` goes on.
            ResetNeeded, EpisodeOver, TypeError: see `Contest.check_action`; nothing changes.
        """
        if self._ended_in_reset:
            self._ended_in_reset = False
            info = {"turn": self.contest.turn, **self.contest.details()}
        else:
            action = self.contest.check_action(action)
            if self.contest.current_player != self.player:
                raise Error(f"{self.contest.current_player} has yet to move, because its player failed; call reset()")
            self._reward = 0.0
            info = self._play(action)
            self._let_rivals_play()
        return self._text(), self._reward, self._terminated, self._truncated, self._info(info)

    def render(self) -> str | None:
        """Return the contest so far as text, in the render mode "ansi"."""
        return self.contest.render() if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Close the contest."""
        self.contest.close()

    def _play(self, action: str | Action) -> dict[str, Any]:
        _, rewards, self._terminated, self._truncated, info = self.contest.step(action)
        reward = rewards[self.player]
        self._reward += nan if reward is None else reward
        return info

    def _let_rivals_play(self) -> None:
        while not self.contest.done and self.contest.current_player != self.player:
            observation = self.contest.observe()
            self._play(rival_of(self.rivals, observation)(observation))

    def _text(self) -> str:
        return self.contest.observe(self.player).text

    def _info(self, info: dict[str, Any]) -> dict[str, Any]:
        seen = self.contest.observe(self.player)
        return info | {"role": seen.role, "messages": seen.messages, "unscored": self._reward != self._reward}


def to_gymnasium(
    env: Contest,
    seat: str | None = None,
    rivals: Rival | Mapping[str, Rival] | None = None,
    *,
    render_mode: str | None = None,
) -> GymnasiumContest:
    """Return the view of `env` from one seat.

    Args:
        env: a contest; the view drives it from now on.
        seat: a player or a role. Default: the first player.
        rivals: a function from an observation to a text (agents are such functions) that plays all other seats,
            or one per player or role.
        render_mode: "ansi" or None.

    Raises:
        Error: there is no such seat, or nobody to play the others.
        TypeError: `env` is no contest.
    """
    return GymnasiumContest(env, seat, rivals, render_mode=render_mode)


def make_gymnasium(
    contest: str,
    *,
    seat: str | None = None,
    rivals: Rival | Mapping[str, Rival] | None = None,
    render_mode: str | None = None,
    **kwargs: Any,
) -> GymnasiumContest:
    """Build the contest with the id `contest` and return its view; what Gymnasium calls for "agon_env/<id>"."""
    return to_gymnasium(make(contest, **kwargs), seat, rivals, render_mode=render_mode)
