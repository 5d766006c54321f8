"""What a run has logged is cut back to its checkpoint before it goes on, so that no step is told twice."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

_STEP = re.compile(rb'\{"step": (\d+)[,}]')


def cut_lines(file: Path, first_step: int) -> None:
    """Cut a JSONL file, whose lines begin with their step and are in its order, before the first one of `first_step`.

    A torn line is cut off, and so is everything from a line on that does not name its step.
    """
    if not file.exists():
        return
    kept = 0
    with open(file, "rb+") as lines:
        for line in lines:
            step = _STEP.match(line)
            if step is None or int(step[1]) >= first_step or not line.endswith(b"\n"):
                break
            kept += len(line)
        lines.truncate(kept)


def cut_events(folder: Path, first_step: int) -> None:
    """Cut the event files of TensorBoard before their first event of `first_step`; torn records are cut off."""
    for file in folder.glob("events.out.tfevents.*"):
        kept = 0
        for end, step in _events(file):
            if step >= first_step:
                break
            kept = end
        with open(file, "rb+") as stream:
            stream.truncate(kept)
        if not kept:
            file.unlink()


def _events(file: Path) -> Iterator[tuple[int, int]]:
    """Yield where each whole record ends, and the step of its event; the first record, the file's version, is of step -1."""
    from tensorboard.compat.proto.event_pb2 import Event

    with open(file, "rb") as stream:
        end = 0
        while len(header := stream.read(12)) == 12:
            (length,) = struct.unpack("<Q", header[:8])
            if length > file.stat().st_size or len(body := stream.read(length + 4)) < length + 4:
                return
            end += 12 + length + 4
            event = Event.FromString(body[:length])
            yield end, -1 if event.HasField("file_version") else event.step
