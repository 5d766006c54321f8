"""`check_env`: does a contest keep the rules of the house? One function per rule; each message says how to mend.

Every rule takes a function that makes a fresh contest, plays a few, and raises `AssertionError` when the rule
is broken. Authors of games run them all with `check_env("MyGame-v0")`, or one with `check_copies(MyGame)`.

`conduct`        the order of calls, what is declared and shown, what becomes of moves, how it ends
`repeatability`  what a contest depends on: its seed and its moves, and nothing else
`judgement`      who is paid what, what is recorded, and that only good play scores
`players`        who plays the contests that are checked, and what they say
`requirements`   what every rule is written with
"""

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable

from agon_env.checker.conduct import (
    check_bad_actions,
    check_declarations,
    check_ends,
    check_hidden_texts,
    check_info,
    check_invalid_moves,
    check_lifecycle,
    check_prompts,
    check_roles,
    check_unicode,
)
from agon_env.checker.judgement import check_canaries, check_oracle, check_rewards, check_transcript
from agon_env.checker.players import GARBAGE, INJECTIONS, UNICODE, able_player, garbage_player, says, seated
from agon_env.checker.repeatability import (
    check_copies,
    check_global_randomness,
    check_no_shared_state,
    check_observe_is_pure,
    check_processes,
    check_reset_forgets,
    check_seeds,
)
from agon_env.checker.requirements import Make
from agon_env.contest import Contest
from agon_env.errors import Error
from agon_env.registration import ContestSpec
from agon_env.registration import spec as find_spec

__all__ = [
    "GARBAGE",
    "INJECTIONS",
    "RULES",
    "UNICODE",
    "CheckFailed",
    "Make",
    "able_player",
    "check_bad_actions",
    "check_canaries",
    "check_copies",
    "check_declarations",
    "check_ends",
    "check_env",
    "check_global_randomness",
    "check_hidden_texts",
    "check_info",
    "check_invalid_moves",
    "check_lifecycle",
    "check_no_shared_state",
    "check_observe_is_pure",
    "check_oracle",
    "check_processes",
    "check_prompts",
    "check_reset_forgets",
    "check_rewards",
    "check_roles",
    "check_seeds",
    "check_transcript",
    "check_unicode",
    "garbage_player",
    "says",
    "seated",
]

MENDS = {
    "setup": "setup() must stand any seed",
    "prompt": "prompt() must stand any play",
    "apply": "apply() must stand any text (raise InvalidMove for an illegal one)",
    "score": "score() must stand any play",
}
"""Method of a game → what to do if it raises an error."""


class CheckFailed(Error, AssertionError):
    """A contest breaks one of the rules; the message names each of them and how to mend it."""


def check_env(env: str | ContestSpec | Contest, *, processes: bool = False) -> list[str]:
    """Check a contest against every rule.

    Args:
        env: an id, a spec, or a contest that was not reset yet (copies of it are checked).
        processes: also play in two other processes with different hash seeds (takes seconds; the entry point
            must be "module:attribute").

    Returns:
        The names of the rules that were checked.

    Raises:
        CheckFailed: with one line for each mistake, which names the rules that it breaks.
    """
    spec = find_spec(env) if isinstance(env, str) else env if isinstance(env, ContestSpec) else env.spec
    make: Make = spec.make if spec is not None else (lambda: copy.deepcopy(env))  # type: ignore[assignment, return-value]
    rules = [*RULES, check_processes] if processes else RULES
    broken = {rule.__name__: error for rule in rules if (error := _error_of(rule, make)) is not None}
    if broken:
        named: dict[str, list[str]] = {}
        for name, error in broken.items():
            named.setdefault(_in_words(error), []).append(name)
        title = f"{_name(make())} breaks {len(broken)} rule{'s' * (len(broken) > 1)}:"
        lines = [f"{', '.join(names)}: {words}" for words, names in named.items()]
        raise CheckFailed("\n".join([title, *lines])) from next(iter(broken.values()))
    return [rule.__name__ for rule in rules]


RULES: tuple[Callable[[Make], None], ...] = (
    check_lifecycle,
    check_declarations,
    check_prompts,
    check_hidden_texts,
    check_observe_is_pure,
    check_reset_forgets,
    check_seeds,
    check_global_randomness,
    check_copies,
    check_no_shared_state,
    check_info,
    check_unicode,
    check_bad_actions,
    check_invalid_moves,
    check_ends,
    check_rewards,
    check_roles,
    check_transcript,
    check_canaries,
    check_oracle,
)


def _error_of(rule: Callable[[Make], None], make: Make) -> Exception | None:
    try:
        rule(make)
    except Exception as error:
        return error
    return None


def _in_words(error: Exception) -> str:
    if isinstance(error, AssertionError | Error):
        return str(error)
    methods = [
        frame.f_code.co_name
        for frame, _ in traceback.walk_tb(error.__traceback__)
        if isinstance(frame.f_locals.get("self"), Contest) and frame.f_code.co_name in MENDS
    ]
    mend = f"in {methods[-1]}(); {MENDS[methods[-1]]}" if methods else "; ".join(dict.fromkeys(MENDS.values()))
    return f"it raised {error!r} {mend}"


def _name(env: Contest) -> str:
    return env.spec.id if env.spec is not None else type(env).__name__
