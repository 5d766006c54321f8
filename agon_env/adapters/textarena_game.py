"""TextArena itself: its games without their wrappers, and moves that are tried on copies of them."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

from agon_env.adapters.own_randomness import OwnRandomness
from agon_env.errors import DependencyNotInstalled, Error
from agon_env.quoting import escape, quote

with OwnRandomness(0).swapped_in():  # the import draws
    try:
        import nltk
        import textarena
        from textarena.envs.registration import ENV_REGISTRY
        from textarena.envs.utils.word_lists import EnglishDictionary
    except ImportError as error:
        raise DependencyNotInstalled("this needs the package textarena; run: pip install 'agon-env[textarena]'") from error

MANY = 10_000
"""A longer list of a game is one of words."""
PLAYER_ACTION = textarena.ObservationType.PLAYER_ACTION.name
BOARD = textarena.ObservationType.GAME_BOARD.name
_ADMIN = textarena.ObservationType.GAME_ADMIN.name
_PROMPT = textarena.ObservationType.PROMPT.name


def make_game(game: str, view: str, settings: Mapping[str, Any]) -> tuple[Any, list[type]]:
    """Return TextArena's game without its wrappers, and the classes of these.

    Raises:
        DependencyNotInstalled, Error: see `TextArenaContest`.
    """
    name = game if view == "default" else f"{game}-{view}"
    if name not in ENV_REGISTRY:
        raise Error(f"TextArena has no game {name!r}; its games are in textarena.envs.registration.ENV_REGISTRY")
    download, nltk.download = nltk.download, _no_download
    try:
        env = textarena.make(name, **settings)
    except LookupError as error:
        if type(error) is not LookupError:  # NLTK raises a bare one
            raise Error(f"TextArena can't make {game}: {error!r}") from error
        raise DependencyNotInstalled(
            f"TextArena's {game} needs word lists of NLTK, which are not downloaded here; "
            "run: python -m nltk.downloader words averaged_perceptron_tagger_eng"
        ) from error
    except TypeError:  # an unknown setting; `ContestSpec.make` says what is accepted
        raise
    except (Exception, SyntaxError) as error:
        raise Error(f"TextArena {version('textarena')} can't make {game}: {type(error).__name__}: {error}") from error
    finally:
        nltk.download = download
    wrappers = []
    while isinstance(env, textarena.Wrapper):
        wrappers.append(type(env))
        env = env.env
    if game.startswith("WordChains"):  # draws from a list that was a set, whose order depends on PYTHONHASHSEED
        env.word_list.sort()
    return env, wrappers


class Attempt:
    """A move played on a copy of the game."""

    def __init__(self, env: Any, randomness: OwnRandomness, text: str, *, errors: int) -> None:
        """Play `text` for the player to move.

        Args:
            env: a game of TextArena without wrappers; stays as it is.
            randomness: what the game draws from; stays as it is.
            text: the move.
            errors: how many moves in a row count as refused so far. A game that has refused as many as it allows does not
                refuse, but does what its rules say of such a player.
        """
        words = [value for value in vars(env).values() if _holds_words(value)]
        self.env = copy.deepcopy(env, {id(value): value for value in words})  # megabytes that never change
        self.randomness = randomness.copy()
        self.refusal: str | None = None
        """Why the game refuses the move; None if it takes it."""
        self.failed = False
        """True if the game failed with an error of its own."""
        self.heard_by: list[int] = []
        """The players to whom the game passed the text on."""
        state = self.env.state
        mover = state.current_player_id
        waiting = {player: len(messages) for player, messages in state.observations.items()}
        state.error_count = errors
        try:
            with self.randomness.swapped_in():
                self.env.step(text)
        except Exception as error:
            self.refusal, self.failed = f"the game can't take it ({type(error).__name__}: {error})", True
            return
        fresh = {player: state.observations[player][count:] for player, count in waiting.items()}
        if not state.done and state.error_count > errors and state.current_player_id == mover:
            told = [message for _, message, kind in fresh[mover] if kind is textarena.ObservationType.GAME_ADMIN]
            self.refusal = _reason(told[-1]) if told else "the game does not take it"
            return
        for player, messages in fresh.items():
            verbatim = [_verbatim(message, mover, text, state.role_mapping) for message in messages]
            if verbatim != messages or any(
                sender == mover and kind_name(kind) == PLAYER_ACTION for sender, _, kind in messages
            ):
                self.heard_by.append(player)
                state.observations[player][waiting[player] :] = verbatim


class Kinds(NamedTuple):
    """What a player of a game is shown."""

    names: frozenset[str] | None
    """The kinds of messages that are shown; None for all."""
    last_board_only: bool


def kinds_shown(wrappers: list[type]) -> Kinds:
    """Return what the observation wrapper of a game would show."""
    names = {wrapper.__name__ for wrapper in wrappers}
    without_players = frozenset(kind.name for kind in textarena.ObservationType) - {PLAYER_ACTION, _ADMIN}
    if "GameBoardObservationWrapper" in names:
        return Kinds(frozenset({_PROMPT, BOARD}), True)
    if "GameMessagesObservationWrapper" in names:
        return Kinds(without_players, False)
    if "GameMessagesAndCurrentBoardObservationWrapper" in names:
        return Kinds(without_players, True)
    return Kinds(None, "SettlersOfCatanObservationWrapper" in names)


def _verbatim(message: tuple[int, str, Any], mover: int, text: str, role_mapping: Mapping[int, str]) -> tuple[int, str, Any]:
    """Return the message with the words that TextArena cuts out of a player's text put back.

    Where the game itself repeats a text of several lines, they become a quotation, so that none of them stands at the margin.
    """
    sender, shown, kind = message
    said = text.strip()
    if sender == textarena.GAME_ID and len(said.splitlines()) > 1:
        return sender, str(shown).replace(said, f"\n{quote(said)}\n"), kind
    cut = text
    for tag in role_mapping.values():
        cut = cut.replace(f"[{tag}]", "")
    return (sender, text, kind) if sender == mover and kind_name(kind) == PLAYER_ACTION and shown == cut else message


_ANNOUNCED = re.compile(
    r"^(?:Player \d+|You) attempted an invalid move\. Reason: (.*) Please resubmit a valid move.*$", re.DOTALL
)


def _reason(told: str) -> str:
    """Return the reason alone from what the game tells a player whose move it refuses."""
    announced = _ANNOUNCED.match(told)
    return escape(announced[1] if announced else told).rstrip(". ")


def _holds_words(value: Any) -> bool:
    return isinstance(value, EnglishDictionary) or (isinstance(value, set | list) and len(value) > MANY)


def kind_name(kind: Any) -> str:
    """Return the name of a message's kind; some games give something else."""
    return kind.name if isinstance(kind, textarena.ObservationType) else "GAME_MESSAGE"


def _no_download(*_: Any, **__: Any) -> bool:
    return False
