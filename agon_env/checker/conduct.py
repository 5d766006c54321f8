"""Rules of how a contest is conducted: the order of calls, what is declared and shown, what becomes of moves, how it ends."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

from agon_env.checker.players import GARBAGE, PLAYERS, SEEDS, UNICODE, able_player, go_on, play, says
from agon_env.checker.requirements import Make, require, require_json, require_raises
from agon_env.contest import Contest
from agon_env.errors import EpisodeOver, Error, ResetNeeded
from agon_env.types import Action

NOT_ACTIONS: tuple[Any, ...] = (None, b"bytes", 3, ["x"], Action(None))  # type: ignore[arg-type]

SECRET = "qwrtz plmkn, qwrtz plmkn; vbxcy"
"""A text that no game says by itself."""


def check_lifecycle(make: Make) -> None:
    """Calls out of order raise and change nothing; reset and close may come at any time."""
    env = make()
    env.close()
    env.close()
    calls: dict[str, Callable[[], Any]] = {
        "step": lambda: env.step("x"),
        "observe": env.observe,
        "done": lambda: env.done,
        "current_player": lambda: env.current_player,
        "render": env.render,
    }
    for name, call in calls.items():
        require_raises(ResetNeeded, call, f"{name} before reset must raise ResetNeeded; call super().__init__() in __init__")
    env.reset(seed=0)
    env.step(able_player(env))
    play(env, able_player, seed=1)
    outcome, events = env.outcome, list(env.transcript.events)
    require(outcome is not None, "the contest ends without an outcome")
    for text in ("", "x"):
        require_raises(EpisodeOver, partial(env.step, text), "step after the end must raise EpisodeOver")
    require(env.outcome is outcome and env.transcript.events == events, "step after the end changed the outcome or the record")
    env.close()
    env.reset(seed=2)


def check_declarations(make: Make) -> None:
    """Roles, players, score range, reward range and limits are declared and make sense."""
    env = make()
    low, high = env.score_range
    require(
        math.isfinite(low) and math.isfinite(high) and low < high, f"score_range must be finite and not empty: {(low, high)}"
    )
    low, high = env.reward_range
    require(math.isfinite(low) and math.isfinite(high) and low <= high, f"the reward rule declares the range {(low, high)}")
    require(env.max_turns >= 1 and env.max_chars >= 1 and env.retries >= 0, "max_turns and max_chars must be ≥ 1, retries ≥ 0")
    require(env.on_truncated in ("play", "forfeit"), f"on_truncated must be 'play' or 'forfeit', not {env.on_truncated!r}")
    observation, _ = env.reset(seed=0)
    require(observation.player == env.current_player and observation.role == env.current_role, "reset shows the wrong player")


def check_prompts(make: Make) -> None:
    """Whoever is to move sees at least one message, made of a role and a text."""
    for player in PLAYERS:
        for step in play(make(), player, seed=0):
            if step[0] is None:
                continue
            messages = step[0].messages
            require(bool(messages), "prompt() returned no messages")
            for message in messages:
                well = set(message) == {"role", "content"} and all(isinstance(value, str) for value in message.values())
                require(well, f"a message must hold the texts 'role' and 'content' alone, not {message}")
                require(
                    message["role"] in ("system", "user", "assistant"),
                    f"a message's role must be system, user or assistant, not {message['role']!r}",
                )


def check_hidden_texts(make: Make) -> None:
    """A text is shown to nobody but the players that `visible_to` names."""

    def look(env: Contest, *, turn: int) -> None:
        for event in list(env.transcript.events)[turn : turn + 1]:
            for player in set(env.players) - set(event.visible_to):
                message = f"{player} is shown what visible_to() hides from it: leave it out of prompt(), or mend visible_to()"
                require(SECRET not in env.observe(player).text, message)

    def secretive(env: Contest, *, turn: int) -> str:
        look(env, turn=turn)
        return SECRET if len(env.transcript.events) == turn else able_player(env)

    for turn in range(len(make().roles)):
        env = make()
        play(env, partial(secretive, turn=turn), seed=0)
        look(env, turn=turn)


def check_info(make: Make) -> None:
    """Info has the same keys on every step, and plain JSON values."""
    for player in PLAYERS:
        record = play(make(), player, seed=0)
        infos = [record[0][1], *(step[4] for step in record[1:])]
        for info in infos:
            require(info.keys() == infos[0].keys(), f"info changes its keys: {sorted(info)} and {sorted(infos[0])}")
            require_json(info, "details() must hold plain JSON values (no timestamps, no objects)")


def check_unicode(make: Make) -> None:
    """Any text is kept verbatim."""
    for text in (UNICODE, *GARBAGE):
        env = make()
        env.reset(seed=0)
        env.step(text)
        event = env.transcript.events[0]
        require(event.text == text[: env.max_chars] and event.chars == len(text), f"the text {text!r} was not kept verbatim")


def check_bad_actions(make: Make) -> None:
    """What is not text is refused; empty, huge and cut-off texts have the declared result."""
    env = make()
    env.reset(seed=0)
    before = env.observe()
    for wrong in NOT_ACTIONS:
        require_raises(TypeError, partial(env.step, wrong), f"the action {wrong!r} must raise TypeError")
    require(env.observe() == before and not env.transcript.events, "an action that was refused changed the contest")
    huge = "9" * (env.max_chars + 1)
    for action, chars, cut in ((Action(""), 0, False), (Action(huge), len(huge), True), (Action("4", truncated=True), 1, True)):
        env.reset(seed=0)
        info = env.step(action)[4]
        require((info["chars"], info["truncated"]) == (chars, cut), f"an action of {chars} characters is reported as {info}")
        require(env.transcript.events[0].text == action.text[: env.max_chars], "a text that is too long must keep its head")
        if cut and env.on_truncated == "forfeit":
            require(info["invalid"] is not None, "a text that was cut off must count as invalid under on_truncated='forfeit'")


def check_invalid_moves(make: Make) -> None:
    """An invalid move changes nothing but the complaint; a player that repeats it forfeits."""
    for seed, text in itertools.product(SEEDS, GARBAGE):
        env = make()
        env.reset(seed=seed)
        for _ in range(env.retries + 1):
            before = env.fork()
            if env.step(text)[4]["invalid"] is None or env.done or not _has_legal_move(before):
                break
            same = go_on(env.fork(), able_player) == go_on(before, able_player)
            require(same, "an invalid move changed the state; raise InvalidMove before apply() changes anything")
        else:
            raise AssertionError("a player that repeats an invalid move must forfeit after `retries`")


def check_ends(make: Make) -> None:
    """The contest ends, whatever the players say, and each is asked once per step."""
    for player in (*PLAYERS, *map(says, GARBAGE)):
        env = make()
        record = play(env, player, seed=0)
        require(record[-1][2] != record[-1][3], "the last step must be either terminated or truncated")
        require(not any(step[2] or step[3] for step in record[1:-1]), "a step before the last says that the contest ended")
        require(len(env.transcript.events) == len(record) - 1, "the record does not hold one event per step")


def check_roles(make: Make) -> None:
    """The option "roles" seats the players as told."""
    env = make()
    for order in itertools.islice(itertools.permutations(env.roles), 6):
        wanted = dict(zip(env.players, order, strict=True))
        play(env, able_player, seed=0, options={"roles": wanted})
        assert env.outcome is not None
        require(dict(env.outcome.roles) == wanted, f"the roles are {env.outcome.roles} instead of {wanted}")
        said = {event.player: event.role for event in env.transcript.events}
        require(said.items() <= wanted.items(), "a player spoke in the role of another")
    for wrong in ({}, dict.fromkeys(env.players, "nobody"), {"stranger": env.roles[0]}):
        require_raises(Error, partial(env.reset, options={"roles": wrong}), f"the roles {wrong} must be refused")
    require_raises(Error, partial(env.reset, options={"no such option": 1}), "an unknown reset option must be refused")


def _has_legal_move(env: Contest) -> bool:
    """Return whether the able player knows a legal move; without one, going on can't show that nothing has changed."""
    return env.fork().step(able_player(env))[4]["invalid"] is None
