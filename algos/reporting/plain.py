"""Plain values from the files of a run, of which nothing is believed: they may be from elsewhere, or half written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from algos.errors import ConfigError

Json: TypeAlias = Mapping[str, Any]
LARGEST = 1e100
"""Of the numbers that are believed: squares and sums of them are finite."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a JSONL file."""

    record: Json
    offset: int
    """Where it begins, in bytes."""
    size: int
    """Its bytes, with the line feed."""
    where: str
    """Names it in a message."""


def number(value: object) -> float | None:
    """Return a number that can be counted with as it is, and None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -LARGEST <= value <= LARGEST:
        return None
    return float(value)


def numbers(record: object) -> dict[str, float]:
    """Return what is a number in an object; nothing of what is no object."""
    if not isinstance(record, Mapping):
        return {}
    return {str(key): found for key, value in record.items() if (found := number(value)) is not None}


def mapping(value: object) -> Json:
    """Return an object as it is, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def read_object(file: Path) -> Json:
    """Return the object that a JSON file holds.

    Raises:
        ConfigError: it holds none; the message names the file.
    """
    try:
        record = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} is broken: {error}") from None
    if not isinstance(record, dict):
        raise ConfigError(f"{file} should hold an object, not {type(record).__name__}")
    return record


def read_lines(file: Path) -> Iterator[Line]:
    """Yield the objects of a JSONL file; of no file there are none.

    Lines end at a line feed alone. A last line without one is what a crash leaves behind: it is skipped.

    Raises:
        ConfigError: a line holds no object; the message names it.
    """
    if not file.is_file():
        return
    offset = 0
    with open(file, "rb") as stream:
        for count, text in enumerate(stream, start=1):
            where = f"{file}, line {count}"
            if text.endswith(b"\n"):
                try:
                    record = json.loads(text)
                except (ValueError, RecursionError) as error:
                    raise ConfigError(f"{where} is broken: {error}") from None
                if not isinstance(record, dict):
                    raise ConfigError(f"{where} should hold an object, not {type(record).__name__}")
                yield Line(record, offset, len(text), where)
            offset += len(text)


def step_of(line: Line) -> int:
    """Return the training step that a line tells of, counted from 0.

    Raises:
        ConfigError: it names none; the message names the line.
    """
    step = line.record.get("step")
    if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step < 2**32:
        raise ConfigError(f"{line.where} does not say of which step it is")
    return step
