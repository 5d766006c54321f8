"""TextArena's games as contests, `TextArena/KuhnPoker-v0`, and contests as TextArena environments.

A game keeps TextArena's rules and rewards. Around it the rules of the house hold, which TextArena itself does not keep:
the game draws from generators of its own, moves that it refuses change nothing, what players said is kept and shown
verbatim in quotations, and nothing goes on after the end. Needs the package `textarena`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from agon_env.adapters.own_randomness import OwnRandomness
from agon_env.adapters.textarena_game import BOARD, ENV_REGISTRY, Attempt, kind_name, kinds_shown, make_game, textarena
from agon_env.contest import Contest
from agon_env.errors import Error, InvalidMove
from agon_env.quoting import escape, quote
from agon_env.registration import register
from agon_env.rewards import RewardRule
from agon_env.types import Reward

MAX_PLAYERS = 15
"""The most players that a game of TextArena takes."""
MAX_CANDIDATES = 64
"""So many texts are tried as moves when a random player asks what is legal."""
_BRACKETED = re.compile(r"\[[^\[\]\n]{1,60}\]")


class Shown(NamedTuple):
    """One message of a game to a player."""

    sender: str | None
    """Who said it, by the game's name for the player; None for the game itself."""
    text: str
    kind: str
    """Name of an `ObservationType`."""


class TextArenaContest(Contest):
    """A game of TextArena. Its player i is the role `player_i`; what it pays at the end are the scores.

    - A move that the game refuses may be repeated as often as the game allows; then the game does what it does with such
      a player: it loses, is eliminated, or plays a default move.
    - A text that makes the game fail with an error of its own is refused as well. If it fails where no repetition is
      left, the contest ends, and nobody has a score, because there is no telling who has won.
    - A contest that is cut off by `turn_limit` has no scores either.
    """

    score_range = (-1.0, 1.0)

    def __init__(
        self,
        game: str,
        *,
        num_players: int | None = None,
        view: Literal["default", "train", "raw"] = "default",
        turn_limit: int = 512,
        players: Sequence[str] | None = None,
        roles: Mapping[str, str] | None = None,
        reward: str | RewardRule = "outcome",
        bonus: float | None = None,
        **settings: Any,
    ) -> None:
        """Make a game.

        Args:
            game: its id in TextArena, for example "KuhnPoker-v0".
            num_players: how many play. Default: the fewest with which the game starts.
            view: what players are shown and how moves are read, as by TextArena's ids of that ending.
            turn_limit: accepted moves after which the contest is cut off; some games have no limit of their own.
            players: see `Contest`.
            roles: see `Contest`.
            reward: see `Contest`. "outcome" pays what the game pays.
            bonus: see `Contest`.
            settings: keyword arguments of TextArena's game, for example `max_rounds=3`.

        Raises:
            DependencyNotInstalled: the game needs word lists that are not there.
            Error: TextArena can't make the game, or not for so many players.
        """
        self.game, self.view, self.settings = game, view, settings
        if turn_limit < 1:
            raise Error(f"turn_limit must be at least 1, not {turn_limit}")
        self.max_turns = turn_limit
        with OwnRandomness(0).swapped_in():
            state, wrappers = self._first_state(num_players)
        self.roles = tuple(f"player_{i}" for i in range(state.num_players))  # type: ignore[misc]
        self.retries = max(0, getattr(state, "error_allowance", 0))
        self._adds_brackets = textarena.wrappers.ActionFormattingWrapper in wrappers
        self._kinds = kinds_shown(wrappers)
        if textarena.wrappers.ClipCharactersActionWrapper in wrappers:
            self.max_chars = 1_000
        super().__init__(players=players, roles=roles, reward=reward, bonus=bonus)

    def setup(self, rng: np.random.Generator, options: Mapping[str, Any]) -> None:
        """Start the game with the contest's seed, so that it deals as TextArena does with that seed."""
        self._randomness = OwnRandomness(self.seed)
        with self._randomness.swapped_in():
            self._env, _ = make_game(self.game, self.view, self.settings)
            self._env.reset(num_players=len(self.roles), seed=self.seed)
        self._seen: list[list[Shown]] = [[] for _ in self.roles]
        self._heard: tuple[int, tuple[str, ...]] = (-1, ())
        self._failure: str | None = None
        self._take_observations(self._env, repeats_players=False)

    def prompt(self, role: str) -> str:
        """Return what the game has told the player, in order; what players said stands in quotations."""
        seen = self._seen[self._number(role)]
        last_board = max((i for i, shown in enumerate(seen) if shown.kind == BOARD), default=-1)
        parts = [
            shown.text if shown.sender is None else f"{shown.sender}:\n{quote(shown.text)}"
            for i, shown in enumerate(seen)
            if self._is_shown(shown.kind) and not (self._kinds.last_board_only and shown.kind == BOARD and i != last_board)
        ]
        return "\n\n".join(part.strip("\n") for part in parts) or "It is your turn."

    def next_role(self) -> str | None:
        """Return whom the game waits for."""
        state = self._env.state
        return None if state.done or self._failure is not None else self.roles[state.current_player_id]

    def apply(self, role: str, text: str) -> str | None:
        """Play `text` on a copy of the game, which takes the game's place unless it refuses the move."""
        last_try = self._invalid_in_a_row >= self.retries
        sent = self._formatted(text)
        attempt = Attempt(self._env, self._randomness, sent, errors=min(self._invalid_in_a_row, self.retries))
        if attempt.refusal is not None and not last_try:
            raise InvalidMove(attempt.refusal)
        if attempt.failed:
            self._failure = attempt.refusal
            return None
        self._heard = (self.turn, tuple(self.player_of[self.roles[i]] for i in attempt.heard_by))
        self._env, self._randomness = attempt.env, attempt.randomness
        self._take_observations(self._env, repeats_players=True)
        return sent if sent != text else None

    def score(self) -> dict[str, Reward]:
        """Return what the game pays; None for everybody where it has not ended by itself."""
        paid = self._env.state.rewards if self._env.state.done and self._failure is None else None
        return {role: None if paid is None else self._paid(i, paid.get(i)) for i, role in enumerate(self.roles)}

    def details(self) -> dict[str, Any]:
        """Return the game."""
        return {"game": self.game, "source": "TextArena"}

    def verdicts(self) -> dict[str, Any]:
        """Return what the game says about every player at its end."""
        told = {role: dict(self._env.state.game_info[i]) for i, role in enumerate(self.roles)}
        return {"game_info": {role: {key: _plain(value) for key, value in info.items()} for role, info in told.items()}} | (
            {} if self._failure is None else {"failure": self._failure}
        )

    def visible_to(self, role: str) -> tuple[str, ...]:
        """Return who has been shown the last move: its player, and those to whom the game passed it on."""
        turn, heard = self._heard
        own = self.player_of[role]
        return (own, *(player for player in heard if player != own)) if turn == self.turn else (own,)

    def legal_texts(self, role: str) -> list[str] | None:
        """Return the bracketed texts that the player was shown and that the game takes now, found by trying them."""
        seen = self._seen[self._number(role)]
        named = [text for shown in reversed(seen) if shown.sender is None for text in _BRACKETED.findall(shown.text)]
        candidates = list(dict.fromkeys(named))[:MAX_CANDIDATES]
        return [text for text in candidates if Attempt(self._env, self._randomness, text, errors=0).refusal is None] or None

    # --- how it works -------------------------------------------------------------------------------

    def _first_state(self, num_players: int | None) -> tuple[Any, list[type]]:
        """Return the game's state for that many players, or for the fewest, and its wrappers."""
        env, wrappers = make_game(self.game, self.view, self.settings)
        problem: Exception | None = None
        for number in range(1, MAX_PLAYERS + 1) if num_players is None else [num_players]:
            try:
                env.reset(num_players=number, seed=0)
            except Exception as error:
                problem = problem or error
                continue
            if env.state.num_players > 1 or isinstance(env.state, textarena.SinglePlayerState):
                if num_players not in (None, env.state.num_players):
                    raise Error(f"TextArena's {self.game} is for {env.state.num_players} players, not for {num_players}")
                return env.state, wrappers
        wanted = "any number of" if num_players is None else num_players
        raise Error(f"TextArena's {self.game} does not start with {wanted} players: {problem}") from problem

    def _take_observations(self, env: Any, *, repeats_players: bool) -> None:
        """Move what the game has for the player to move into our records."""
        if env.state.done:
            return
        with self._randomness.swapped_in():
            player, messages = env.get_observation()
        for sender, text, kind in messages:
            name = None if sender == textarena.GAME_ID else env.state.role_mapping.get(sender, f"Player {sender}")
            # what the game says may repeat what players said
            clean = escape(str(text)) if repeats_players and name is None else str(text)
            self._seen[player].append(Shown(name, clean, kind_name(kind)))
        env.state.logs.clear()  # no game reads them, and every move would copy them

    def _paid(self, player: int, reward: Any) -> Reward:
        if isinstance(reward, int | float | np.number):
            return float(reward)
        # some games give the reason of an invalid move where its reward belongs, which is -1 by default
        return self.score_range[0] if self._env.state.game_info[player]["invalid_move"] else None

    def _is_shown(self, kind: str) -> bool:
        return self._kinds.names is None or kind in self._kinds.names

    def _formatted(self, text: str) -> str:
        return f"[{text}]" if self._adds_brackets and "[" not in text and "]" not in text else text

    def _number(self, role: str) -> int:
        return self.roles.index(role)


def register_all() -> None:
    """Register `TextArena/<game>` for every game of TextArena; a "/" in its id becomes a "."."""
    for id in ENV_REGISTRY:
        if not id.endswith(("-raw", "-train")):
            entry_point = "agon_env.adapters.textarena:TextArenaContest"
            register(f"TextArena/{id.replace('/', '.')}", entry_point, kwargs={"game": id}, force=True)


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)
