"""What the duel browser of a page shows of each contest, as plain JSON values. A text that occurs twice is held once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from algos.reporting.contests import KINDS, ContestRow
from algos.reporting.plain import Json, mapping, number

Plain: TypeAlias = dict[str, Any]


class Texts:
    """Texts by number: the drafts that several answers reply to, and the problem of a whole group, are held once."""

    def __init__(self) -> None:
        """Hold none yet."""
        self.texts: list[str] = []
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        """Return the number of `text`."""
        if text not in self._places:
            self._places[text] = len(self.texts)
            self.texts.append(text)
        return self._places[text]


def browser_data(rows: Iterable[ContestRow], records: Iterable[Json]) -> Plain:
    """Return what the browser of a page holds.

    Args:
        rows: the contests.
        records: the same, whole.
    """
    texts = Texts()
    contests = [_contest(row, record, texts) for row, record in zip(rows, records, strict=True)]
    present = dict.fromkeys(contest["kind"] for contest in contests)
    seats = sorted({(seat["policy"], seat["role"]) for contest in contests for seat in contest["seats"]})
    kinds = [kind for kind in KINDS if kind in present] + sorted(kind for kind in present if kind not in KINDS)
    return {
        "texts": texts.texts,
        "contests": contests,
        "kinds": [(kind, KINDS.get(kind, kind)) for kind in kinds],
        "seats": seats,
    }


def _contest(row: ContestRow, record: Json, texts: Texts) -> Plain:
    outcome, details = mapping(record["outcome"]), mapping(record.get("details"))
    verdicts = mapping(outcome.get("details"))
    places = {player: place for place, player in enumerate(record["roles"])}
    prompt = _text(record.get("prompt"))
    return {
        "step": row.step + 1,
        "kind": row.kind,
        "seed": _text(record.get("seed")),
        "problem": row.problem,
        "about": [f"{name} {details[name]}" for name in ("topic", "difficulty", "source") if details.get(name) is not None],
        "prompt": None if prompt is None else texts.place(prompt),
        "gold": _text(verdicts.get("answer")),
        "reason": _text(outcome.get("reason")),
        "seats": [
            {
                "role": seat.role,
                "policy": seat.policy,
                "score": seat.score,
                "reward": seat.reward,
                "parts": seat.parts,
                "read": _text(mapping(verdicts.get(seat.role)).get("extracted")),
                "why": _text(mapping(verdicts.get(seat.role)).get("reason")),
            }
            for seat in row.seats
        ],
        "turns": [
            {
                "seat": places[event["player"]],
                "text": texts.place(event["text"]),
                "cut": event.get("truncated") is True,
                "invalid": _text(event.get("invalid")),
                "tokens": number(event.get("tokens")),
            }
            for event in record["events"]
        ],
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)
