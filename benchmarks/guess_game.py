"""One two-player text game in three libraries, each written as that library's authors write games.

The referee thinks of a number. The players guess in turn, twenty times each; every one reads the rules and what its rival
said last, and says a text with a number in brackets. Whoever came closest wins. `Guess`, `GuessTextArena` and
`GuessPettingZoo` differ in the library alone: the rules, the moves and the scores are those below.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import textarena
from pettingzoo import AECEnv
from pettingzoo.utils.wrappers import OrderEnforcingWrapper
from textarena.wrappers.ObservationWrappers.llm_observation_wrapper import FirstLastObservationWrapper

import agon_env
from agon_env.errors import InvalidMove

GUESSES = 40  # as many turns as the game that TextArena ships
TOP = 1000
RULES = (
    "You play against one rival. The referee thinks of a whole number from 0 to 999. You and your rival guess in turn, twenty "
    "times each; whoever has made the guess that is closest to the number at the end of the contest wins it. You read what "
    "your rival has said, so that you can learn from its guesses and from its reasons, if you believe them. Think aloud as "
    "long as you like, then write your guess in square brackets, for example [512]. The last number in brackets counts."
)
_NUMBER = re.compile(r"\[(\d{1,3})\]")


def read_guess(text: str) -> int | None:
    """Return the last number in brackets, if any."""
    found = _NUMBER.findall(text)
    return int(found[-1]) if found else None


def scores(secret: int, best: list[int]) -> list[float]:
    """Return 1 for whoever came closer, ½ each for a tie; `best` holds the least distance of either player."""
    return [0.5, 0.5] if best[0] == best[1] else [float(best[0] < best[1]), float(best[1] < best[0])]


class Guess(agon_env.Contest):
    """The game for agon-env."""

    roles = ("first", "second")
    rounds = GUESSES // 2

    def setup(self, rng: np.random.Generator, options: Mapping[str, Any]) -> None:
        """Think of a number."""
        self.secret = int(rng.integers(TOP))
        self.best = [TOP, TOP]
        self.last = ""

    def prompt(self, role: str) -> str:
        """Return the rules, and what the rival said."""
        return f"{RULES}\n\nYour rival said:\n\n{self.last}" if self.last else RULES

    def apply(self, role: str, text: str) -> str:
        """Take a guess."""
        guess = read_guess(text)
        if guess is None:
            raise InvalidMove("there is no number in brackets")
        seat = self.roles.index(role)
        self.best[seat] = min(self.best[seat], abs(guess - self.secret))
        self.last = text
        return str(guess)

    def score(self) -> dict[str, float | None]:
        """Say who came closer."""
        return dict(zip(self.roles, scores(self.secret, self.best), strict=True))


class GuessTextArena(textarena.Env):
    """The game for TextArena."""

    def reset(self, num_players: int, seed: int | None = None) -> None:
        """Think of a number."""
        self.state = textarena.TwoPlayerState(num_players=num_players, seed=seed, max_turns=GUESSES)
        self.state.reset(
            game_state={"secret": random.randrange(TOP), "best": [TOP, TOP]}, player_prompt_function=lambda **_: RULES
        )

    def step(self, action: str) -> tuple[bool, dict[str, Any]]:
        """Take a guess."""
        state, seat = self.state, self.state.current_player_id
        guess = read_guess(action)
        if guess is None:
            state.set_invalid_move(reason="there is no number in brackets")
            return state.step()
        best = state.game_state["best"]
        best[seat] = min(best[seat], abs(guess - state.game_state["secret"]))
        state.add_observation(
            from_id=seat, to_id=1 - seat, message=action, observation_type=textarena.ObservationType.PLAYER_ACTION
        )
        if state.turn == GUESSES - 1:
            result = scores(state.game_state["secret"], best)
            if result[0] == result[1]:
                state.set_draw(reason="both came as close")
            else:
                state.set_winner(player_id=result.index(1.0), reason="came closer")
        return state.step()


class GuessPettingZoo(AECEnv):
    """The game for PettingZoo."""

    metadata = {"name": "guess_v0", "render_modes": []}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.possible_agents = ["first", "second"]
        self._space = gymnasium.spaces.Text(max_length=200_000)

    def observation_space(self, agent: str) -> gymnasium.Space:
        """Return any text."""
        return self._space

    def action_space(self, agent: str) -> gymnasium.Space:
        """Return any text."""
        return self._space

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Think of a number."""
        rng = np.random.default_rng(seed)
        self.secret = int(rng.integers(TOP))
        self.best, self.last, self.turn = [TOP, TOP], "", 0
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self.agent_selection = self.agents[0]

    def observe(self, agent: str) -> str:
        """Return the rules, and what the rival said."""
        return f"{RULES}\n\nYour rival said:\n\n{self.last}" if self.last else RULES

    def step(self, action: str | None) -> None:
        """Take a guess."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        guess = None if action is None else read_guess(action)
        seat = self.turn % 2
        if action is None or guess is None:
            self._end({agent: 0.0, self.possible_agents[1 - seat]: 1.0})
        else:
            self.best[seat] = min(self.best[seat], abs(guess - self.secret))
            self.last, self.turn = action, self.turn + 1
            if self.turn == GUESSES:
                self._end(dict(zip(self.possible_agents, scores(self.secret, self.best), strict=True)))
        self.agent_selection = self.possible_agents[1 - seat]
        self._accumulate_rewards()

    def _end(self, rewards: dict[str, float]) -> None:
        self.rewards = rewards
        self.terminations = dict.fromkeys(self.agents, True)


def make_textarena() -> textarena.Env:
    """Return the game as a model plays it in TextArena: the observation is a text, of the rules and the last message."""
    return FirstLastObservationWrapper(GuessTextArena())


def make_pettingzoo() -> AECEnv:
    """Return the game in the wrapper that PettingZoo's own games come in."""
    return OrderEnforcingWrapper(GuessPettingZoo())


def make_shipped_textarena() -> textarena.Env:
    """Return a game that TextArena ships, as its users make it: ten rounds of talk and a decision, 40 turns."""
    return textarena.make("IteratedPrisonersDilemma-v0")
