"""`Contest`: a turn-based text environment for one or more players, in the manner of Gymnasium.

Players drive it with `reset`, `step`, `observe`; authors subclass it, name the `roles`, and write four
methods: `setup`, `prompt`, `apply` and `score`. The base class keeps the rules of the house, so that no
game has to: order of calls, seeding, the declared fate of bad actions, the transcript, the rewards of all.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import numpy as np

from agon_env.errors import EpisodeOver, Error, InvalidMove, ResetNeeded
from agon_env.events import Row
from agon_env.payment import checked_scores, forfeited, paid
from agon_env.rewards import RewardRule, make_rule, total
from agon_env.seating import default_players, player_of, seated, unpaid
from agon_env.transcript import Header, Transcript
from agon_env.types import NO_MOVE, Action, FrozenDict, Message, NoMove, Observation, Outcome, Reward, freeze, unshared

StepResult: TypeAlias = tuple[Observation | None, Mapping[str, Reward], bool, bool, dict[str, Any]]
"""What `Contest.step` returns: observation, rewards, terminated, truncated, info. The rewards can't be changed."""


class Ending(NamedTuple):
    """How a move ends a contest, before anybody is paid; see `Contest.advance`."""

    reason: str
    """Why the contest is over."""
    offender: str | None = None
    """The role that forfeits."""
    aborted: bool = False
    """Whether nobody is paid."""

    @property
    def scored(self) -> bool:
        """Whether the contest went to its end, so that `score` decides who is paid what."""
        return self.offender is None and not self.aborted


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
      the contest ends, the offender gets the low end of `reward_range`, everyone else the high end
      (in a zero-sum contest, an equal share of what the offender lost);
    - a `NoMove`, which stands for a player that failed or resigns, forfeits at once, or aborts the contest: every
      reward is None then.
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
    shared: ClassVar[frozenset[str]] = frozenset(
        {"spec", "reward_rule", "players", "role_of", "player_of", "outcome", "_default_roles", "_unpaid"}
    )
    """Attributes that never change; copies of a contest hold the same object instead of copying it."""
    held_out: Mapping[str, Any] = FrozenDict()
    """What `make` must be told so that the contest draws held-out problems, if the game has such."""
    score_range: tuple[float, float] = (0.0, 1.0)
    """Least and greatest score of a role."""
    scores_are_verdicts: ClassVar[bool] = False
    """Whether a score says if an answer to a problem is right, whoever the rivals are. A mean of such scores measures progress
    in self-play too; that of what is won from a rival who learns as well does not."""

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
        if not self.roles or len(set(self.roles)) < len(self.roles):
            raise Error(f"{self._name} must name its roles, each once: roles = ('drafter', 'challenger')")
        self.players: tuple[str, ...] = tuple(players) if players is not None else default_players(len(self.roles))
        if len(set(self.players)) != len(self.roles):
            raise Error(f"{self._name} needs {len(self.roles)} different players, not {self.players}")
        seats = roles if roles is not None else dict(zip(self.players, self.roles, strict=True))
        self._default_roles = seated(seats, players=self.players, roles=self.roles)
        self.reward_rule: RewardRule = make_rule(reward, bonus=bonus)
        if self.reward_rule.zero_sum and len(self.players) < 2:
            raise Error(f"{self._name} has one player, and so no zero-sum reward; use reward='outcome'")
        self._unpaid = unpaid(self.players)
        self.outcome: Outcome | None = None
        self._seed_stream = (int(np.random.SeedSequence().entropy), 0)  # type: ignore[arg-type]
        self._started = False
        self._role: str | None = None

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

    @classmethod
    def score_all(cls, envs: Sequence[Self]) -> list[Mapping[str, Reward]]:
        """Return what `score` says of each contest; override it where many are judged faster together."""
        return [env.score() for env in envs]

    @classmethod
    def begin_scores(cls, envs: Sequence[Self]) -> None:
        """Begin what the scores of contests that go on will need and that can be made meanwhile. Default: nothing."""

    def next_role(self) -> str | None:
        """Return who speaks next, None when the contest is over. Default: everyone in turn, `rounds` times."""
        roles, turn = self.roles, self.turn
        return roles[turn % len(roles)] if turn < self.rounds * len(roles) else None

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
        given = self._check_options(options)
        given_roles = given.pop("roles", None)
        role_of = self._default_roles
        if given_roles is not None:
            role_of = seated(given_roles, players=self.players, roles=self.roles)
        self.seed: int = self._next_seed(seed)
        self._started, self._role = False, None  # until setup has succeeded
        self.role_of = role_of
        self.player_of = player_of(self.players, tuple(role_of.values()))
        self.turn: int = 0
        self.outcome = None
        self.cut_roles: frozenset[str] = frozenset()
        self._invalid_in_a_row = 0
        self._shown: dict[str, Observation] = {}
        self.setup(np.random.default_rng(self.seed), FrozenDict(given))
        self._role = self._next_role()
        if self._role is None:
            raise Error(f"{self._name} is over before the first move; next_role() must return who begins")
        self._ask(None)
        self._transcript = Transcript(Header.of(self, given))
        self._started = True
        return self.observe(), self._info(None)

    @property
    def done(self) -> bool:
        """True once the contest has ended."""
        return self._role is None and self.current_role is None

    @property
    def current_role(self) -> str | None:
        """The role to move; None after the end."""
        if self._role is None:
            self._require_reset("done and current_role")
        return self._role

    @property
    def current_player(self) -> str | None:
        """The player to move; None after the end."""
        role = self.current_role
        return None if role is None else self.player_of[role]

    @property
    def transcript(self) -> Transcript:
        """The record of this contest so far."""
        self._require_reset("transcript")
        return self._transcript

    def observe(self, player: str | None = None) -> Observation:
        """Return what `player` sees (default: the player to move), without changing anything.

        A player that is not to move sees what it was shown last; one that was never asked sees no messages.
        """
        if player is None and self._role is not None:
            return self._asked
        self._require_reset("observe")
        if player is None:
            raise EpisodeOver(f"{self._name} is over and nobody is to move; name a player, or call reset()")
        if player not in self.role_of:
            raise Error(f"there is no player {player!r} in {self._name}; the players are {', '.join(self.players)}")
        return self._shown.get(player) or Observation(player, self.role_of[player])

    def check_action(self, action: str | Action) -> str | Action:
        """Return the action that `step` would play, without playing it.

        Raises:
            ResetNeeded: before the first reset.
            EpisodeOver: after the end.
            TypeError: the action is not text.
        """
        if self._role is None:
            self._require_reset("step")
            reason = self.outcome.reason if self.outcome else "it could not be scored"
            raise EpisodeOver(f"{self._name} has ended ({reason}); call reset() before the next step()")
        if isinstance(action, str) or (isinstance(action, Action) and isinstance(action.text, str)):
            return action
        wrong = action.text if isinstance(action, Action) else action
        raise TypeError(f"an action must be a str or an Action, not {type(wrong).__name__}; to pass, play an empty text")

    def step(self, action: str | Action) -> StepResult:
        """Play one action for the player to move.

        Returns:
            The observation of the next player (None after the end), the rewards that this step brought to
            every player, terminated, truncated (ended by `max_turns`, or aborted), and an info dict.

        Raises:
            ResetNeeded, EpisodeOver, TypeError: see `check_action`; nothing changes.
        """
        result = self.advance(self.check_action(action))
        if isinstance(result, Ending):
            return self.conclude(result, self.score() if result.scored else None)
        return result

    def advance(self, action: str | Action) -> StepResult | Ending:
        """Play an action that `check_action` returned, but leave a contest that ends by it without its outcome.

        Returns:
            What `step` returns, if the contest goes on. Otherwise how it ends, and `conclude` must follow: apart from each
            other they let many contests be scored together, see `VectorContest`.
        """
        role: str = self._role  # type: ignore[assignment]  # check_action has seen to it
        if isinstance(action, str):
            text, cut = action, False
        elif isinstance(action, NoMove):
            return self._give_up(role, action)
        else:
            text, cut = action.text, bool(action.truncated)
        chars = len(text)
        if chars > self.max_chars:
            text, cut = text[: self.max_chars], True
        if cut != (role in self.cut_roles):
            self.cut_roles ^= {role}
        extracted: str | None = None
        complaint: str | None = None
        if cut and self.on_truncated == "forfeit":
            complaint = "the text was cut off"
        else:
            try:
                extracted = self.apply(role, text)
            except InvalidMove as move:
                complaint = str(move) or "invalid move"
        row = (self.turn, self.player_of[role], role, text, cut, chars, extracted, complaint, tuple(self.visible_to(role)))
        self._transcript.events.flat.extend(row)
        ending = self._ending_after(role, complaint)
        if ending is not None:
            self._role = None
            return ending
        return self._ask(complaint), self._unpaid, False, False, self._info(row)

    def conclude(self, ending: Ending, scores: Mapping[str, Reward] | None) -> StepResult:
        """Return what `step` returns for the action by which the contest ends.

        Args:
            ending: what `advance` returned.
            scores: what `score` or `score_all` says, if the ending is `scored`.
        """
        self._end(ending.reason, offender=ending.offender, given=scores)
        cut_short = ending.aborted or ending.reason == "max_turns"
        outcome: Outcome = self.outcome  # type: ignore[assignment]  # the end has just been told
        return None, outcome.rewards, not cut_short, cut_short, self._info(self._transcript.events.last_row())

    def fork(self) -> Self:
        """Return an independent copy that goes on from here as this contest would; what is read-only is shared."""
        return copy.deepcopy(self)

    def visible_to(self, role: str) -> tuple[str, ...]:
        """Return the players that may see what `role` says now. Default: everyone."""
        return self.players

    @property
    def reward_range(self) -> tuple[float, float]:
        """Least and greatest reward of a player."""
        return self.reward_rule.range(self.score_range)

    @property
    def zero_sum(self) -> bool:
        """True when the rewards of the players always sum to zero."""
        return self.reward_rule.zero_sum

    def pay(self, scores: Mapping[str, Reward]) -> Mapping[str, Mapping[str, Reward]]:
        """Return the components of every role's reward, as the reward rule makes them of the scores.

        Raises:
            Error: a reward is not finite, is outside of `reward_range`, or they do not sum to zero though `zero_sum` says so.
        """
        return paid(scores, self.reward_rule, reward_range=self.reward_range, zero_sum=self.zero_sum, game=self._name)

    def render(self) -> str:
        """Return the contest so far as plain text."""
        self._require_reset("render")
        return self.transcript.render()

    def __repr__(self) -> str:
        if not getattr(self, "_started", False):  # also where a subclass has not called super().__init__()
            return f"<{self._name}, not reset>"
        if self._role is None:
            return f"<{self._name}, over: {self.outcome.reason if self.outcome else 'not scored'}>"
        return f"<{self._name}, turn {self.turn}: {self.current_player}, the {self._role}, is to move>"

    def close(self) -> None:
        """Release what the game holds. May be called at any time, and twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- how it works -------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return self.spec.id if self.spec is not None else type(self).__name__

    def _next_role(self) -> str | None:
        role = self.next_role()
        if role is not None and role not in self.roles:
            raise Error(f"next_role() of {self._name} must return one of {', '.join(self.roles)}, or None, not {role!r}")
        return role

    def _ending_after(self, role: str, complaint: str | None) -> Ending | None:
        """Count the move and pass the turn on; return how the contest ends by it, if it does."""
        if complaint is not None:
            self._invalid_in_a_row += 1
            return Ending(f"forfeit: {complaint}", offender=role) if self._invalid_in_a_row > self.retries else None
        self.turn, self._invalid_in_a_row = self.turn + 1, 0
        self._role = self._next_role()
        if self._role is None:
            return Ending("completed")
        return Ending("max_turns") if self.turn >= self.max_turns else None

    def _give_up(self, role: str, move: NoMove) -> Ending:
        """Record that `role` has no action, and return how the contest ends by it."""
        complaint = NO_MOVE + move.reason
        self._transcript.events.flat.extend(
            (self.turn, self.player_of[role], role, "", False, 0, None, complaint, tuple(self.visible_to(role)))
        )
        self._role = None
        return (
            Ending(f"forfeit: {complaint}", offender=role) if move.forfeits else Ending(f"aborted: {complaint}", aborted=True)
        )

    def _ask(self, complaint: str | None) -> Observation:
        """Show the role to move its prompt; it is computed here alone, once a turn."""
        role: str = self._role  # type: ignore[assignment]  # nobody is asked after the end
        player = self.player_of[role]
        shown = Observation(player, role, self.prompt(role))
        if complaint is not None:
            shown = replace(shown, messages=_again(shown.messages, complaint))
        self._asked = self._shown[player] = shown
        return shown

    def _end(self, reason: str, *, offender: str | None, given: Mapping[str, Reward] | None) -> None:
        scores: dict[str, Reward] = dict.fromkeys(self.roles)
        if given is not None:
            scores = checked_scores(given, roles=self.roles, score_range=self.score_range, game=self._name)
        components: Mapping[str, Mapping[str, Reward]] = (
            self.pay(scores)
            if offender is None
            else forfeited(offender, roles=self.roles, reward_range=self.reward_range, zero_sum=self.zero_sum)
        )
        rewards = {player: total(components[role]) for player, role in self.role_of.items()}
        self.outcome = Outcome(
            rewards=FrozenDict(rewards),
            scores=FrozenDict({player: scores[role] for player, role in self.role_of.items()}),
            components=freeze({player: components[role] for player, role in self.role_of.items()}),
            roles=self._transcript.header.roles,
            reason=reason,
            details=freeze({} if given is None else self.verdicts()),
        )
        self._transcript.outcome = self.outcome

    def _info(self, move: Row | None) -> dict[str, Any]:
        """Return the facts about the contest and its last move; None for the reset, before any."""
        _, player, _, _, cut, chars, _, invalid, _ = move or _NO_MOVE
        info = {"turn": self.turn, "player": player, "chars": chars, "truncated": cut, "invalid": invalid}
        if details := self.details():
            info |= unshared(details)
        return info

    def _require_reset(self, what: str) -> None:
        if not self._started:
            raise ResetNeeded(f"call reset() before {what} on {self._name}")

    def _next_seed(self, seed: int | None) -> int:
        if seed is None:
            entropy, count = self._seed_stream
            self._seed_stream = (entropy, count + 1)
            # 53 bits: every JSON reader takes them for an integer
            return int(np.random.SeedSequence([entropy, count]).generate_state(1, np.uint64)[0] >> np.uint64(11))
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise Error(f"seed must be a non-negative integer or None, not {seed!r}")
        self._seed_stream = (int(seed), 0)
        return int(seed)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = object.__new__(type(self))
        memo[id(self)] = twin
        for name, value in vars(self).items():
            vars(twin)[name] = value if name in self.shared else copy.deepcopy(value, memo)
        return twin

    def _check_options(self, options: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the reset options as objects of the contest's own."""
        if options is None:
            return {}
        if not isinstance(options, Mapping):
            raise Error(f"the reset options must be a mapping from names to values, not {options!r}")
        known = self.option_names | {"roles"}
        if unknown := [key for key in options if key not in known]:
            raise Error(f"{self._name} does not know the reset option {unknown[0]!r}; it takes {', '.join(sorted(known))}")
        return {key: unshared(value) for key, value in options.items()}


_NO_MOVE = (0, None, None, "", False, 0, None, None, ())


def _again(messages: tuple[Message, ...], complaint: str) -> tuple[Message, ...]:
    again = f"That was not a legal move: {complaint}. Try again."
    if not messages or messages[-1]["role"] != "user":
        return (*messages, {"role": "user", "content": again})
    *before, last = messages  # many chat templates refuse two user messages in a row
    return (*before, {**last, "content": f"{last['content']}\n\n{again}"})
