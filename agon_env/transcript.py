"""`Transcript`: what was said in a contest and what came of it, as JSON lines.

One header line, one line per event, one outcome line; many contests may follow one another in a file.
The header holds the spec, the seed and the options, so that `replay` can play the file again and prove
that it says what happened, and `rescore` can judge it by today's verifier. Lines are split at "\\n" alone:
model text is full of characters (U+2028, U+0085, …) that `str.splitlines` would break at.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agon_env.errors import TranscriptError
from agon_env.types import Action, FrozenDict, Outcome

if TYPE_CHECKING:
    from agon_env.contest import Contest


@dataclass(frozen=True)
class Header:
    """What is needed to play the contest again."""

    env: str | None
    """Id in the registry; None for a contest that was built by hand, which can't be replayed."""
    kwargs: Mapping[str, Any]
    seed: int
    options: Mapping[str, Any]
    players: tuple[str, ...]
    roles: Mapping[str, str]
    """Player → role."""
    details: Mapping[str, Any]
    """What the game tells of itself, for example the problem's id and source."""
    versions: Mapping[str, str]

    @classmethod
    def of(cls, env: Contest, options: Mapping[str, Any]) -> Header:
        """Describe a contest that has just been reset."""
        return cls(
            env=env.spec.id if env.spec is not None else None,
            kwargs=dict(env.spec.kwargs) if env.spec is not None else {},
            seed=env.seed,
            options=dict(options),
            players=env.players,
            roles=dict(env.role_of),
            details=env.details(),
            versions={"agon-env": _own_version()},
        )


@dataclass(frozen=True)
class Event:
    """One action, also one that was refused."""

    turn: int
    player: str
    role: str
    text: str
    """The text as the contest took it, verbatim."""
    truncated: bool
    chars: int
    """Length of the text before it was cut to the contest's limit."""
    extracted: str | None
    """What the game read in it, for example the final answer."""
    invalid: str | None
    """Why the move was refused; None for a legal one."""
    visible_to: tuple[str, ...]


@dataclass
class Transcript:
    """The record of one contest."""

    header: Header
    events: list[Event] = field(default_factory=list)
    outcome: Outcome | None = None

    def to_lines(self) -> Iterator[str]:
        """Yield the JSON lines of this contest, without line ends."""
        yield _dump({"type": "header", **asdict(self.header)})
        for event in self.events:
            yield _dump({"type": "event", **asdict(event)})
        if self.outcome is not None:
            yield _dump({"type": "outcome", **outcome_dict(self.outcome)})

    def save(self, path: str | Path) -> None:
        """Append this contest to `path`."""
        with open(path, "a", encoding="utf-8", newline="\n") as file:
            file.write("".join(line + "\n" for line in self.to_lines()))

    def render(self) -> str:
        """Return the contest as plain text for people."""
        parts = [f"[{event.player}, {event.role}]\n{event.text}" for event in self.events]
        if self.outcome is not None:
            parts.append(f"[outcome] {self.outcome.reason}; rewards {dict(self.outcome.rewards)}")
        return "\n\n".join(parts)


def load(path: str | Path) -> list[Transcript]:
    """Read every contest of a file.

    Raises:
        TranscriptError: a line is not what it should be; the message names the line. A last line without
            an end is what a crash leaves behind: it is skipped.
    """
    with open(path, encoding="utf-8", newline="\n") as file:
        text = file.read()
    *complete, _torn = text.split("\n")
    return list(_parse(complete, str(path)))


def replay(transcript: Transcript) -> Contest:
    """Play the contest again from its seed and return it.

    Raises:
        TranscriptError: the contest can't be made again, or does not go as the transcript says.
    """
    env = _play_again(transcript)
    if transcript.outcome is not None and (env.outcome is None or outcome_dict(env.outcome) != outcome_dict(transcript.outcome)):
        now = None if env.outcome is None else dict(env.outcome.rewards)
        raise TranscriptError(
            f"the replay of {transcript.header.env} (seed {transcript.header.seed}) ends with rewards {now}, "
            f"the transcript says {dict(transcript.outcome.rewards)}; use rescore() if the verifier has changed on purpose",
        )
    return env


def rescore(transcript: Transcript) -> Outcome | None:
    """Return the outcome that today's game and verifier give to what was said; None if it was not finished."""
    return _play_again(transcript).outcome


def outcome_dict(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as plain JSON values."""
    return {
        "rewards": dict(outcome.rewards),
        "scores": dict(outcome.scores),
        "components": {player: dict(parts) for player, parts in outcome.components.items()},
        "roles": dict(outcome.roles),
        "reason": outcome.reason,
        "details": json.loads(_dump(dict(outcome.details))),
    }


def _play_again(transcript: Transcript) -> Contest:
    from agon_env.registry import make

    header = transcript.header
    if header.env is None:
        raise TranscriptError("this contest was not made by agon_env.make(), so its transcript can't be played again")
    env = make(header.env, **header.kwargs)
    env.reset(seed=header.seed, options={**header.options, "roles": header.roles})
    for number, event in enumerate(transcript.events):
        if env.done or env.current_player != event.player:
            raise TranscriptError(f"event {number}: {event.player} moves in the transcript, but not in the replay")
        env.step(Action(event.text, truncated=event.truncated))
    return env


def _parse(lines: Iterable[str], path: str) -> Iterator[Transcript]:
    current: Transcript | None = None
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            kind = record.pop("type")
            if kind == "header":
                if current is not None:
                    yield current
                current = Transcript(Header(**{**record, "players": tuple(record["players"])}))
            elif current is None:
                raise ValueError(f"a {kind} comes before any header")
            elif kind == "event":
                current.events.append(Event(**{**record, "visible_to": tuple(record["visible_to"])}))
            elif kind == "outcome":
                current.outcome = Outcome(**{key: FrozenDict(v) if isinstance(v, dict) else v for key, v in record.items()})
            else:
                raise ValueError(f"unknown type {kind!r}")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise TranscriptError(f"{path}, line {number}: not a transcript line ({error})") from error
    if current is not None:
        yield current


def _dump(record: Mapping[str, Any]) -> str:
    # ASCII keeps lone surrogates, U+2028 and their kin from breaking a line or the encoding.
    return json.dumps(record, ensure_ascii=True, allow_nan=False)


@cache
def _own_version() -> str:
    try:
        return version("agon-env")
    except PackageNotFoundError:
        return "unknown"
