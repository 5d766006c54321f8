"""`Transcript`: what was said in a contest and what came of it, as JSON lines.

One header line, one line per event, one outcome line; many contests may follow one another in a file.
The header holds the spec, the seed and the options, so that `replay` can play the file again and prove
that it says what happened, and `rescore` can judge it by today's verifier. Lines are split at the line feed
alone: model text is full of characters (U+2028, U+0085, …) that `str.splitlines` would break at. Lone
surrogates survive; a high and a low one side by side are read back as the character that they encode.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, BinaryIO, get_args, get_origin, get_type_hints

from agon_env.errors import Error, TranscriptError
from agon_env.events import Event, Events
from agon_env.printable import printable, quotation
from agon_env.types import NO_MOVE, Action, FrozenDict, NoMove, Outcome, freeze

if TYPE_CHECKING:
    from agon_env.contest import Contest
    from agon_env.types import Observation


@dataclass(frozen=True, slots=True)
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
            kwargs=freeze(env.spec.kwargs if env.spec is not None else {}),
            seed=env.seed,
            options=freeze(options),
            players=env.players,
            roles=env.role_of,
            details=freeze(env.details()),
            versions=_versions(),
        )


@dataclass(slots=True)
class Transcript:
    """The record of one contest."""

    header: Header
    events: Events = field(default_factory=Events)
    outcome: Outcome | None = None

    def to_lines(self) -> Iterator[str]:
        """Yield the JSON lines of this contest, without line ends.

        Raises:
            TranscriptError: an argument, option or detail of the contest has no JSON form.
        """
        record = self.to_dict()
        yield _dump({"type": "header", **record["header"]})
        for event in record["events"]:
            yield _dump({"type": "event", **event})
        if record["outcome"] is not None:
            yield _dump({"type": "outcome", **record["outcome"]})

    def to_dict(self) -> dict[str, Any]:
        """Return this contest as what `json.dumps` takes: `header`, `events`, and `outcome`, None before the end.

        Raises:
            TranscriptError: an argument of the contest has no JSON form.
        """
        from agon_env.registration import jsonable_kwargs

        header = self.header
        try:
            kwargs = jsonable_kwargs(header.env or "this contest", header.kwargs)
        except ValueError as error:
            raise TranscriptError(str(error)) from error
        return {
            "header": {**_fields(header), "kwargs": kwargs},
            "events": [event._asdict() for event in self.events],
            "outcome": None if self.outcome is None else _fields(self.outcome),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Transcript:
        """Return the contest that `to_dict` described.

        Raises:
            TranscriptError: the record is none of a contest.
        """
        try:
            outcome = record["outcome"]
            return cls(
                _record(Header, record["header"]),
                Events(_record(Event, event) for event in record["events"]),
                None if outcome is None else _record(Outcome, outcome),
            )
        except (TypeError, KeyError, AttributeError, RecursionError) as error:
            raise TranscriptError(f"this is no record of a contest ({type(error).__name__}: {error})") from error

    def save(self, path: str | Path) -> None:
        """Append this contest to `path`. A torn last line, which a crash left there, is cut off first.

        Raises:
            TranscriptError: the file ends in a line that is not from a transcript.
        """
        lines = "".join(line + "\n" for line in self.to_lines())
        with open(path, "ab+") as file:
            _cut_torn_line(file, path)
            file.write(lines.encode("ascii"))

    def render(self) -> str:
        """Return the contest as plain text for people: what is said is quoted, and none of it acts on a terminal."""
        parts = [f"[{event.player}, {event.role}]\n{quotation(event.text)}" for event in self.events]
        if self.outcome is not None:
            reason = " ".join(printable(self.outcome.reason).split())
            parts.append(f"[outcome] {reason}; rewards {dict(self.outcome.rewards)}")
        return "\n\n".join(parts)

    def __deepcopy__(self, memo: dict[int, Any]) -> Transcript:
        return Transcript(self.header, Events(self.events), self.outcome)  # the records themselves never change


def load(path: str | Path) -> list[Transcript]:
    """Read every contest of a file.

    A last line that is not complete is what a crash leaves behind: it is skipped.

    Raises:
        TranscriptError: a line is not what it should be; the message names the line.
    """
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            *lines, last = file.read().split("\n")
    except UnicodeDecodeError as error:
        raise TranscriptError(f"{path} is not a transcript: {error}") from error
    return list(_parse([*lines, last] if _is_json(last) else lines, str(path)))


def replay(transcript: Transcript, *, env: Contest | None = None) -> Contest:
    """Play the contest again from its seed and return it.

    Args:
        transcript: of the contest.
        env: what `contest_of` has made of a transcript with the same id and arguments; it is reset. Default: a new one.

    Raises:
        TranscriptError: the contest can't be made again, or does not go as the transcript says.
    """
    env = _play_again(transcript, env)
    name = f"{transcript.header.env} (seed {transcript.header.seed})"
    for number, (then, now) in enumerate(zip(transcript.events, env.transcript.events, strict=True)):
        if now._replace(chars=then.chars) != then:  # the original length of a text that was cut is not known any more
            raise TranscriptError(f"event {number} of {name} differs in the replay: {now} is not {then}")
    if transcript.outcome is not None and env.outcome != transcript.outcome:
        raise TranscriptError(
            f"the replay of {name} ends with {env.outcome}, the transcript says {transcript.outcome}; "
            "use rescore() if the verifier has changed on purpose",
        )
    return env


def rescore(transcript: Transcript) -> Outcome | None:
    """Return the outcome that today's game and verifier give to what was said; None if it was not finished."""
    return _play_again(transcript).outcome


def watch(transcript: Transcript) -> Iterator[Observation]:
    """Play the contest again and yield what the player of each event read before it.

    Raises:
        TranscriptError: the contest can't be made again, or another player moves than the transcript says.
    """
    env = _begin_again(transcript)
    for event in _events_played(env, transcript):
        yield env.observe(event.player)
        env.step(_action(event, transcript.outcome))


def _play_again(transcript: Transcript, env: Contest | None = None) -> Contest:
    env = _begin_again(transcript, env)
    for event in _events_played(env, transcript):
        env.step(_action(event, transcript.outcome))
    return env


def contest_of(transcript: Transcript) -> Contest:
    """Make the contest of a transcript, which is to be reset.

    Raises:
        TranscriptError: it can't be made.
    """
    from agon_env.registration import jsonable_kwargs, make

    header = transcript.header
    if header.env is None:
        raise TranscriptError("this contest was not made by agon_env.make(), so its transcript can't be played again")
    if ":" in header.env:  # a file from elsewhere must not choose what is imported
        raise TranscriptError(
            f"{header.env!r} names a module, which is not imported for a file; import it, and put the plain id in the header"
        )
    try:
        return make(header.env, **jsonable_kwargs(header.env, header.kwargs))
    except (Error, TypeError, ValueError, LookupError) as error:
        raise TranscriptError(f"{header.env} (seed {header.seed}) can't be made again: {error}") from error


def _begin_again(transcript: Transcript, env: Contest | None = None) -> Contest:
    env, header = env or contest_of(transcript), transcript.header
    try:
        env.reset(seed=header.seed, options={**json.loads(_dump(header.options)), "roles": header.roles})
    except (Error, TypeError, ValueError, LookupError) as error:
        raise TranscriptError(f"{header.env} (seed {header.seed}) can't be made again: {error}") from error
    return env


def _events_played(env: Contest, transcript: Transcript) -> Iterator[Event]:
    """Yield the events, each when its player is to move."""
    for number, event in enumerate(transcript.events):
        if env.done or env.current_player != event.player:
            raise TranscriptError(f"event {number}: {event.player} moves in the transcript, but not in the replay")
        yield event


def _action(event: Event, outcome: Outcome | None) -> Action:
    """Return what was played: a text, or nothing where the contest ended because the player had no move."""
    complaint = event.invalid or ""
    for ending in ("forfeit", "aborted"):
        if complaint.startswith(NO_MOVE) and outcome is not None and outcome.reason == f"{ending}: {complaint}":
            return NoMove(reason=complaint.removeprefix(NO_MOVE), forfeits=ending == "forfeit")
    return Action(event.text, truncated=event.truncated)


def _parse(lines: Iterable[str], path: str) -> Iterator[Transcript]:
    current: Transcript | None = None
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            kind = record.pop("type")
            if kind == "header":
                if current is not None:
                    yield current
                current = Transcript(_record(Header, record))
            elif current is None:
                raise ValueError(f"a {kind} comes before any header")
            elif current.outcome is not None:
                raise ValueError(f"a {kind} comes after the outcome")
            elif kind == "event":
                current.events.append(_record(Event, record))
            elif kind == "outcome":
                current.outcome = _record(Outcome, record)
            else:
                raise ValueError(f"unknown type {kind!r}")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise TranscriptError(f"{path}, line {number}: not a transcript line ({error})") from error
    if current is not None:
        yield current


def _record(cls: Any, fields: Mapping[str, Any]) -> Any:
    """Return a `Header`, `Event` or `Outcome` whose fields have the declared types.

    Raises:
        TypeError: one of them has not, is missing or is unknown.
    """
    frozen = freeze(fields)
    record = cls(**frozen)
    for name, hint in _hints(cls).items():
        if not _fits(value := getattr(record, name), hint):
            raise TypeError(f"{name} must not be {value!r}")
    return record


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a JSON value, frozen, has a type that a record declares."""
    if isinstance(hint, UnionType):
        return any(_fits(value, choice) for choice in get_args(hint))
    if get_origin(hint) is Mapping:
        return isinstance(value, Mapping) and all(_fits(item, get_args(hint)[1]) for item in value.values())
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_fits(item, get_args(hint)[0]) for item in value)
    if hint in (Any, object):
        return True
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, int | float if hint is float else hint)


def _fields(record: Header | Outcome) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}


_START = b'{"type": "'


def _dump(record: Mapping[str, Any]) -> str:
    # ASCII keeps lone surrogates, U+2028 and their kin from breaking a line or the encoding.
    try:
        return json.dumps(record, ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TranscriptError(f"a transcript holds plain JSON values alone ({error}): {record}") from error


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    except RecursionError:  # nested too deeply to be from a transcript, torn or not
        return True
    return True


def _cut_torn_line(file: BinaryIO, path: str | Path) -> None:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 1))
    if file.read() in (b"", b"\n"):
        return
    file.seek(0)
    torn = file.read().rpartition(b"\n")[2]
    if not torn.startswith(_START[: len(torn)]):
        raise TranscriptError(f"{path} does not end like a transcript; give another file, or end its last line")
    if _is_json(torn.decode("ascii", "replace")):
        file.write(b"\n")
    else:
        file.truncate(size - len(torn))


@cache
def _versions() -> FrozenDict:
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        return FrozenDict({"agon-env": version("agon-env")})
    except PackageNotFoundError:
        return FrozenDict({"agon-env": "unknown"})
