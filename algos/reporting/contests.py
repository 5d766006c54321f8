"""The contests of a run, read from `contests.jsonl` (docs/runs.md): light rows to count, whole records to show.

A long run writes gigabytes of text. So the file is read twice, line by line: once for what is counted, and once more for
the few thousand contests that a page shows.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from algos.errors import ConfigError
from algos.reporting.plain import Json, Line, mapping, number, numbers, read_lines, step_of

DUEL = ("drafter", "challenger")
"""Roles of the contest in which one drafts and the other answers: only there is something fixed or broken."""

KINDS = {
    "fix": "fix: wrong draft, right answer",
    "break": "break: right draft, wrong answer",
    "both right": "both right",
    "both wrong": "both wrong",
    "right": "right",
    "wrong": "wrong",
    "draw": "draw",
    "unscored": "unscored",
}
"""What a contest came to → how it is called in a list. In other games than duels there are also "won by …"."""


@dataclass(frozen=True, slots=True)
class Seat:
    """What one player did in one contest."""

    role: str
    policy: str
    """Who played: a policy of the run, or an opponent that took its place."""
    score: float | None
    reward: float | None
    parts: Mapping[str, float]
    """Component → its part of the reward."""
    length: int
    """Tokens that were sampled; characters of one whose tokens were not counted, such as a scripted opponent."""
    tokens: bool
    """Whether the length is in tokens."""


@dataclass(frozen=True, slots=True)
class ContestRow:
    """What is counted of a contest."""

    step: int
    problem: str
    seats: tuple[Seat, ...]
    """In the order of speaking."""
    kind: str
    offset: int
    """Where its line begins in the file, in bytes."""
    size: int
    """Bytes of its line."""

    @property
    def first(self) -> float | None:
        """The score of the role that speaks first."""
        return self.seats[0].score

    @property
    def last(self) -> float | None:
        """The score of the role that speaks last."""
        return self.seats[-1].score

    @property
    def duel(self) -> bool:
        """Whether one drafted and the other answered."""
        return tuple(seat.role for seat in self.seats) == DUEL

    @property
    def cluster(self) -> tuple[int, str]:
        """Contests with the same value are about one problem at one step: they are no independent observations."""
        return (self.step, self.problem)


def read_rows(file: Path) -> list[ContestRow]:
    """Return what is counted of each contest of `file`, in its order; of no file there are none.

    Raises:
        ConfigError: a line is not a contest; the message names it.
    """
    return [_row(line) for line in read_lines(file)]


def read_whole(file: Path, rows: Sequence[ContestRow]) -> Iterator[Json]:
    """Yield the record of each of `rows`, whole."""
    if not rows:
        return
    with open(file, "rb") as stream:
        for row in rows:
            stream.seek(row.offset)
            yield json.loads(stream.read(row.size))


def choose(rows: Sequence[ContestRow], *, most: int, most_bytes: int) -> list[ContestRow]:
    """Return the contests to be shown: all, or as many as allowed, evenly from the whole run.

    Args:
        rows: all of them.
        most: contests.
        most_bytes: bytes of their lines together.
    """
    total = sum(row.size for row in rows)
    n = min(len(rows), most)
    if total > most_bytes:
        n = min(n, max(1, len(rows) * most_bytes // total))
    while True:
        chosen = [rows[place * len(rows) // n] for place in range(n)]
        if n <= 1 or sum(row.size for row in chosen) <= most_bytes:
            return chosen
        n -= max(1, n // 10)


def _row(line: Line) -> ContestRow:
    record = line.record
    try:
        if any(event["player"] not in record["roles"] or not isinstance(event["text"], str) for event in record["events"]):
            raise ValueError("a move is nobody's, or no text")
        said: defaultdict[str, list[Json]] = defaultdict(list)
        for event in record["events"]:
            said[event["player"]].append(event)
        seats = tuple(_seat(record, player, str(role), said[player]) for player, role in record["roles"].items())
        if not seats:
            raise ValueError("nobody plays")
        return ContestRow(
            step=step_of(line),
            problem=str(mapping(record.get("details")).get("problem", record["seed"])),
            seats=seats,
            kind=record["duel"] if record.get("duel") in KINDS else kind_of(seats),
            offset=line.offset,
            size=line.size,
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ConfigError(f"{line.where} is not a contest: {error!r}") from None


def _seat(record: Json, player: str, role: str, said: Sequence[Json]) -> Seat:
    outcome = mapping(record["outcome"])
    counts = [count for event in said if (count := number(event.get("tokens"))) is not None]
    return Seat(
        role=role,
        policy=_policy(record, player),
        score=number(mapping(outcome.get("scores")).get(player)),
        reward=number(mapping(outcome.get("rewards")).get(player)),
        parts=numbers(mapping(outcome.get("components")).get(player)),
        length=int(sum(counts)) if counts else sum(len(event["text"]) for event in said),
        tokens=bool(counts),
    )


def _policy(record: Json, player: str) -> str:
    policy = mapping(record.get("policies")).get(player, player)
    return f"{player} (no policy)" if policy is None else str(policy)


def kind_of(seats: Sequence[Seat]) -> str:
    """Return what a contest came to: a key of `KINDS`, or "won by <role>" in games other than duels."""
    if any(seat.score is None or seat.reward is None for seat in seats):
        return "unscored"
    right = [seat.score == 1 for seat in seats]
    if tuple(seat.role for seat in seats) == DUEL:
        names = {(False, True): "fix", (True, False): "break", (True, True): "both right", (False, False): "both wrong"}
        return names[right[0], right[1]]
    if len(seats) == 1:
        return "right" if right[0] else "wrong"
    best = max(seat.reward for seat in seats if seat.reward is not None)
    winners = [seat.role for seat in seats if seat.reward == best]
    return f"won by {winners[0]}" if len(winners) == 1 else "draw"
