"""`Contest`: a turn-based text environment for one or more players, in the manner of Gymnasium.

Players drive it with `reset`, `step`, `observe`; authors subclass it, name the `roles`, and write four
methods: `setup`, `prompt`, `apply` and `score`. The base class keeps the rules of the house, so that no
game has to: order of calls, seeding, the declared fate of bad actions, the transcript, the rewards of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from agon_env.errors import EpisodeOver, Error, InvalidMove, ResetNeeded
from agon_env.rewards import RewardRule, make_rule, total
from agon_env.transcript import Event, Header, Transcript
from agon_env.types import Action, FrozenDict, Message, Observation, Outcome, Reward

DEFAULT_PLAYERS = ("alice", "bob", "carol", "dave", "erin", "frank")


class Contest:
    """One contest between the players who hold `roles`.

    Example:
        ```python
        obs, info = env.reset(seed=0)
        while not env.done:
            action = players[env.current_player](obs)
            obs, rewards, terminated, truncated, info = env.step(action)
        env.outcome.rewards
        ```

    Every game declares what happens to bad actions:

    - something that is not text (`None`, bytes, a number) raises `TypeError` and changes nothing;
    - a text longer than `max_chars` keeps its head and counts as cut off; `info["chars"]` holds its length;
    - a text that was cut off is handled by `on_truncated`: "play" treats it like any text,
      "forfeit" like an invalid move;
    - an invalid move (`apply` raised `InvalidMove`) may be repeated `retries` times, then it forfeits:
      the contest ends, the offender gets the low end of `reward_range`, everyone else the high end.
    """

    roles: ClassVar[tuple[str, ...]] = ()
    """The parts that players take, in the order in which they speak."""
    rounds: ClassVar[int] = 1
    """How often each role speaks, unless `next_role` is overridden."""
    max_turns: int = 64
    """Accepted moves after which a contest is truncated, so that every game ends."""
    max_chars: int = 200_000
    """Characters that are kept of one action."""
    retries: int = 0
    """Invalid moves in a row that a player may repeat before it forfeits."""
    on_truncated: Literal["play", "forfeit"] = "play"
    """What becomes of a text that was cut off."""
    option_names: ClassVar[frozenset[str]] = frozenset()
    """Keys that `setup` understands in `reset(options=…)`, beside "roles"."""
    held_out: ClassVar[Mapping[str, Any]] = FrozenDict()
    """What `make` must be told so that the contest draws held-out problems, if the game has such."""
    score_range: tuple[float, float] = (0.0, 1.0)
    """Least and greatest score of a role."""

    spec: Any = None
    """The `ContestSpec` that `agon_env.make` built this from; None otherwise."""

    def __init__(
        self,
        *,
        players: Sequence[str] | None = None,
        roles: Mapping[str, str] | None = None,
        reward: str | RewardRule = "outcome",
        bonus: float | None = None,
    ) -> None:
        """Make a contest; call `reset` before anything else.

        Args:
            players: names of the players, as many as there are roles. Default: alice, bob, carol, …
            roles: player → role. Default: the players in order take the roles in order.
            reward: how scores become rewards: the name of a rule, or a rule. Default: everyone is paid its score.
            bonus: λ of the competitive rule.
        """
        self.players: tuple[str, ...] = tuple(players) if players is not None else _default_players(len(self.roles))
        self._default_roles = self._check_roles(roles if roles is not None else dict(zip(self.players, self.roles, strict=True)))
        self.reward_rule: RewardRule = make_rule(reward, bonus=bonus)
        self._seeds = np.random.default_rng()
        self._started = False

    # --- what authors write -------------------------------------------------------------------------

    def setup(self, rng: np.random.Generator, options: Mapping[str, Any]) -> None:
        """Start a new contest: set every attribute that the game uses. Draw randomness from `rng` alone."""
        raise NotImplementedError

    def prompt(self, role: str) -> str | Sequence[Message]:
        """Return what `role` reads now that it is its turn: a text, or chat messages. Must not change anything."""
        raise NotImplementedError

    def apply(self, role: str, text: str) -> str | None:
        """Play `text` as the move of `role`; return what was extracted from it, if anything.

        Raises:
            InvalidMove: the text is not a legal move; nothing may have been changed.
        """
        raise NotImplementedError

    def score(self) -> Mapping[str, Reward]:
        """Return the score of every role at the end; None for one that could not be computed."""
        raise NotImplementedError

    def next_role(self) -> str | None:
        """Return who speaks next, None when the contest is over. Default: everyone in turn, `rounds` times."""
        return self.roles[self.turn % len(self.roles)] if self.turn < self.rounds * len(self.roles) else None

    def details(self) -> dict[str, Any]:
        """Return facts about this contest for `info` and the transcript (plain JSON values, nothing secret)."""
        return {}

    def verdicts(self) -> dict[str, Any]:
        """Return what the game adds to `outcome.details` at the end (plain JSON values)."""
        return {}

    def solution(self, role: str) -> str:
        """Return a text with which `role` does as well as can be done now; for oracle players and checks."""
        raise NotImplementedError(f"{type(self).__name__} has no oracle: it does not define solution()")

    def legal_texts(self, role: str) -> Sequence[str] | None:
        """Return the texts that are legal now, None if any text is; random players draw from them."""
        return None

    # --- what players use ---------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        """Forget the last contest and start the one that `seed` names.

        Args:
            seed: a non-negative integer; the same seed gives the same contest. None takes the next one of
                a stream that the last seed began.
            options: settings of this contest alone: "roles" (player → role), and the game's `option_names`.

        Returns:
            What the player to move sees, and an info dict.
        """
        seed = self._next_seed(seed)
        options = dict(options or {})
        known = self.option_names | {"roles"}
        if unknown := sorted(set(options) - known):
            raise Error(f"{self._name} does not know the reset option {unknown[0]!r}; it takes {', '.join(sorted(known))}")
        given_roles = options.pop("roles", None)
        self.role_of = self._check_roles(given_roles) if given_roles is not None else dict(self._default_roles)
        self.player_of = {role: player for player, role in self.role_of.items()}
        self.seed: int = seed
        self.turn: int = 0
        self.outcome: Outcome | None = None
        self._invalid_in_a_row = 0
        self._complaint: str | None = None
        self.cut_roles: set[str] = set()
        self._seen: dict[str, Observation] = {}
        self.setup(np.random.default_rng(seed), FrozenDict(options))
        self._role = self.next_role()
        self._started = True
        self.transcript = Transcript(Header.of(self, options))
        return self.observe(), self._info(None)

    @property
    def done(self) -> bool:
        """True once the contest has ended."""
        self._require_reset("done")
        return self.outcome is not None

    @property
    def current_role(self) -> str | None:
        """The role to move; None after the end."""
        self._require_reset("current_role")
        return None if self.outcome is not None else self._role

    @property
    def current_player(self) -> str | None:
        """The player to move; None after the end."""
        role = self.current_role
        return None if role is None else self.player_of[role]

    def observe(self, player: str | None = None) -> Observation:
        """Return what `player` sees (default: the player to move), without changing anything.

        A player that is not to move sees what it was shown last; one that was never asked sees no messages.
        """
        self._require_reset("observe")
        player = self.current_player if player is None else player
        if player is None:
            raise EpisodeOver(f"{self._name} is over and nobody is to move; name a player, or call reset()")
        if player not in self.role_of:
            raise Error(f"there is no player {player!r} in {self._name}; the players are {', '.join(self.players)}")
        role = self.role_of[player]
        if role == self.current_role:
            return Observation(player, role, self._messages(role))
        seen = self._seen.get(player, Observation(player, role))
        return Observation(player, role, tuple(dict(message) for message in seen.messages))

    def step(self, action: str | Action) -> tuple[Observation | None, dict[str, Reward], bool, bool, dict[str, Any]]:
        """Play one action for the player to move.

        Returns:
            The observation of the next player (None after the end), the rewards that this step brought to
            every player, terminated, truncated (ended by `max_turns`), and an info dict.

        Raises:
            ResetNeeded: before the first reset.
            EpisodeOver: after the end; nothing changes.
            TypeError: the action is not text; nothing changes.
        """
        self._require_reset("step")
        if self.outcome is not None:
            raise EpisodeOver(f"{self._name} has ended ({self.outcome.reason}); call reset() before the next step()")
        action = Action(action) if isinstance(action, str) else action
        if not isinstance(action, Action) or not isinstance(action.text, str):
            raise TypeError(f"an action must be a str or an Action, not {type(action).__name__}; to pass, play an empty text")
        role, player = str(self._role), self.player_of[str(self._role)]
        chars = len(action.text)
        text, cut = action.text[: self.max_chars], action.truncated or chars > self.max_chars
        self._seen[player] = self.observe()
        (self.cut_roles.add if cut else self.cut_roles.discard)(role)
        extracted, complaint = self._play(role, text, cut)
        self.transcript.events.append(Event(self.turn, player, role, text, cut, chars, extracted, complaint, self.visible_to(role)))
        if complaint is None:
            self.turn, self._invalid_in_a_row = self.turn + 1, 0
            self._role = self.next_role()
        else:
            self._invalid_in_a_row += 1
        self._complaint = complaint
        out_of_turns = self._role is not None and self.turn >= self.max_turns
        if self._invalid_in_a_row > self.retries:
            self._end(f"forfeit: {complaint}", self._forfeit(role))
        elif self._role is None or out_of_turns:
            self._end("max_turns" if out_of_turns else "completed", self.reward_rule(self._scores()))
        rewards: dict[str, Reward] = dict(self.outcome.rewards) if self.outcome else dict.fromkeys(self.players, 0.0)
        info = self._info(player, chars=chars, truncated=cut, invalid=complaint)
        observation = self.observe() if self.outcome is None else None
        return observation, rewards, self.outcome is not None and not out_of_turns, self.outcome is not None and out_of_turns, info

    def visible_to(self, role: str) -> tuple[str, ...]:
        """Return the players that may see what `role` says now. Default: everyone."""
        return self.players

    @property
    def reward_range(self) -> tuple[float, float]:
        """Least and greatest reward of a player."""
        return self.reward_rule.range()

    @property
    def zero_sum(self) -> bool:
        """True when the rewards of the players always sum to zero."""
        return self.reward_rule.zero_sum

    def render(self) -> str:
        """Return the contest so far as plain text."""
        self._require_reset("render")
        return self.transcript.render()

    def close(self) -> None:
        """Release what the game holds. May be called at any time, and twice."""

    # --- how it works -------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return self.spec.id if self.spec is not None else type(self).__name__

    def _play(self, role: str, text: str, cut: bool) -> tuple[str | None, str | None]:
        """Return what was extracted and, for an invalid move, the complaint."""
        if cut and self.on_truncated == "forfeit":
            return None, "the text was cut off"
        try:
            return self.apply(role, text), None
        except InvalidMove as move:
            return None, str(move) or "invalid move"

    def _messages(self, role: str) -> tuple[Message, ...]:
        prompt = self.prompt(role)
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [dict(message) for message in prompt]
        if self._complaint is not None:
            messages.append({"role": "user", "content": f"That was not a legal move: {self._complaint}. Try again."})
        return tuple(messages)

    def _scores(self) -> dict[str, Reward]:
        scores = self.score()
        return {role: _finite(scores[role], self._name) for role in self.roles}

    def _forfeit(self, offender: str) -> dict[str, dict[str, Reward]]:
        low, high = self.reward_range
        return {role: {"forfeit": low if role == offender else high} for role in self.roles}

    def _end(self, reason: str, components: Mapping[str, Mapping[str, Reward]]) -> None:
        forfeit = reason.startswith("forfeit")
        scores = dict.fromkeys(self.roles, None) if forfeit else self._scores()
        by_player = {player: self.role_of[player] for player in self.players}
        self.outcome = Outcome(
            rewards=FrozenDict({p: total(components[r]) for p, r in by_player.items()}),
            scores=FrozenDict({p: scores[r] for p, r in by_player.items()}),
            components=FrozenDict({p: FrozenDict(dict(components[r])) for p, r in by_player.items()}),
            roles=FrozenDict(by_player),
            reason=reason,
            details=FrozenDict({} if forfeit else self.verdicts()),
        )
        self.transcript.outcome = self.outcome

    def _info(self, player: str | None, *, chars: int = 0, truncated: bool = False, invalid: str | None = None) -> dict[str, Any]:
        return {"turn": self.turn, "player": player, "chars": chars, "truncated": truncated, "invalid": invalid, **self.details()}

    def _require_reset(self, what: str) -> None:
        if not self._started:
            raise ResetNeeded(f"call reset() before {what} on {self._name}")

    def _next_seed(self, seed: int | None) -> int:
        if seed is None:
            return int(self._seeds.integers(2**63))
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise Error(f"seed must be a non-negative integer or None, not {seed!r}")
        self._seeds = np.random.default_rng([int(seed), 1])
        return int(seed)

    def _check_roles(self, roles: Mapping[str, str]) -> dict[str, str]:
        if set(roles) != set(self.players) or sorted(roles.values()) != sorted(self.roles):
            raise Error(
                f"roles must give each of {', '.join(self.players)} one of {', '.join(self.roles)}, not {dict(roles)}",
            )
        return {player: roles[player] for player in self.players}


def _default_players(n: int) -> tuple[str, ...]:
    return DEFAULT_PLAYERS[:n] if n <= len(DEFAULT_PLAYERS) else tuple(f"player_{i}" for i in range(n))


def _finite(score: Reward, name: str) -> Reward:
    if score is None:
        return None
    if not np.isfinite(score):
        raise Error(f"{name} gave the score {score}; a score must be finite, or None where it can't be computed")
    return float(score)
