"""The folder of a run: what was asked for, what happened at every step, what came of it.

| file             | holds                                                        |
|------------------|--------------------------------------------------------------|
| `config.json`    | the configuration, complete                                  |
| `metrics.jsonl`  | one line per step: flat metrics                              |
| `contests.jsonl` | one line per training contest: what was said and paid        |
| `events.jsonl`   | what should not have happened: see `algos.guards`            |
| `sessions.jsonl` | one line per start: versions, git, hardware, the command     |
| `events.out.*`   | the metrics, histograms and sample contests, for TensorBoard |
| `summary.json`   | the evaluations before and after                             |
| `alice/`, `bob/` | the trained adapters, as PEFT writes them                    |
| `checkpoint/`    | what is needed to go on                                      |
"""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from safetensors import SafetensorError

from agon_env.types import EMPTY
from algos.errors import FolderFailed
from algos.events import Event
from algos.training.contest_log import CONTESTS, contest_lines
from algos.training.contest_view import contest_text
from algos.training.cut_back import cut_back, log_sizes
from algos.training.loggers import LOGGERS, LoggedRun, LoggerName
from algos.training.provenance import session

if TYPE_CHECKING:
    from agon_env.contest import Contest
    from algos.rollouts import Rollout


EVENTS = "events.jsonl"
LOGS = ("metrics.jsonl", CONTESTS, EVENTS)
"""Files to which every step adds lines, which begin with the step."""


class RunFolder:
    """Writes the files of one run."""

    shortened: Sequence[str] = ()
    """Logs that are shorter than they were when the run was saved; what is missing in them stays missing."""

    def __init__(
        self,
        path: Path,
        *,
        first_step: int = 0,
        logged: Mapping[str, int] = EMPTY,
        log: Sequence[LoggerName] = ("tensorboard",),
        config: Mapping[str, Any] = EMPTY,
    ) -> None:
        """Open `path`, which is made if it does not exist.

        Args:
            path: the folder.
            first_step: where the run begins, or goes on.
            logged: the size that each log had then (`sync`): what it holds beyond it is dropped, and logged again.
            log: who is shown the metrics as well; see `algos.training.loggers`.
            config: of the run, as plain JSON values; told to loggers.

        Raises:
            DependencyNotInstalled: a logger's package is missing.
            FolderFailed: something in the folder leads out of it, or another process writes to it.
        """
        path.mkdir(parents=True, exist_ok=True)
        check_no_links(path)
        self.path = path
        self._lock = lock(path)
        self.shortened = cut_back(path, LOGS, logged)
        self._logs = {name: open(path / name, "a", encoding="utf-8") for name in LOGS}  # noqa: SIM115
        self._loggers = [LOGGERS[name](LoggedRun(path, config, first_step)) for name in log]

    def write(self, name: str, record: Mapping[str, Any]) -> None:
        """Write `record` as the JSON file `name`, complete or not at all."""
        write_json(self.path / name, record)

    def log(self, step: int, metrics: Mapping[str, float], samples: Mapping[str, Sequence[float]] = EMPTY) -> None:
        """Append the metrics of a step; values that are not finite are written as null.

        Args:
            step: counted from 0.
            metrics: numbers.
            samples: what loggers draw histograms of; it is not kept in `metrics.jsonl`.
        """
        finite = {key: value if math.isfinite(value) else None for key, value in metrics.items()}
        self._write_line("metrics.jsonl", json.dumps({"step": step, **finite}, allow_nan=False))
        for logger in self._loggers:
            logger.scalars(step, metrics)
            logger.histograms(step, samples)

    def log_contests(self, step: int, played: Rollout) -> None:
        """Append the contests of a step."""
        for line in contest_lines(step, played):
            self._write_line(CONTESTS, line)

    def log_event(self, event: Event) -> None:
        """Append an event."""
        self._write_line(EVENTS, json.dumps(event.to_dict()))

    def log_session(self, *, step: int) -> None:
        """Append what this process is and runs on, and the step that it begins with."""
        with open(self.path / "sessions.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **session()}) + "\n")

    def log_evaluation(self, step: int, figures: Mapping[str, Any]) -> None:
        """Draw the figures of an evaluation, as `eval/…`."""
        numbers = {f"eval/{key}": value for key, value in figures.items() if isinstance(value, int | float)}
        for logger in self._loggers:
            logger.scalars(step, numbers)

    def show(self, step: int, tag: str, contest: Contest) -> None:
        """Show a contest as text: what its first speaker read, what was said, what came of it."""
        for logger in self._loggers:
            logger.text(step, tag, contest_text(contest))

    def close(self) -> None:
        """Finish writing."""
        try:
            for log in self._logs.values():
                log.close()
            for logger in self._loggers:
                logger.close()
        finally:
            self._lock.close()

    def sync(self) -> dict[str, int]:
        """Make sure that what was logged so far survives a power cut; return the size of each log."""
        for log in self._logs.values():
            log.flush()
            os.fsync(log.fileno())
        for logger in self._loggers:
            logger.flush()
        return log_sizes(self.path, LOGS)

    def _write_line(self, name: str, line: str) -> None:
        self._logs[name].write(line + "\n")
        self._logs[name].flush()


class NoFolder(RunFolder):
    """Writes nothing: the folder of a rank beside the first one, which writes for all."""

    def __init__(self, path: Path) -> None:
        """Open nothing; `path` is what the first rank writes to."""
        self.path = path

    def write(self, name: str, record: Mapping[str, Any]) -> None:
        """Do nothing."""

    def log(self, step: int, metrics: Mapping[str, float], samples: Mapping[str, Sequence[float]] = EMPTY) -> None:
        """Do nothing."""

    def log_contests(self, step: int, played: Rollout) -> None:
        """Do nothing."""

    def log_evaluation(self, step: int, figures: Mapping[str, Any]) -> None:
        """Do nothing."""

    def show(self, step: int, tag: str, contest: Contest) -> None:
        """Do nothing."""

    def log_event(self, event: Event) -> None:
        """Do nothing."""

    def log_session(self, *, step: int) -> None:
        """Do nothing."""

    def sync(self) -> dict[str, int]:
        """Do nothing."""
        return {}

    def close(self) -> None:
        """Do nothing."""


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Say in a sentence, instead of a traceback, that the folder of a run can't be written.

    Raises:
        FolderFailed: the disk is full, read-only, broken or not ours.
    """
    try:
        yield
    except (OSError, SafetensorError) as error:
        if isinstance(error, OSError) and error.errno not in _DISK:
            raise
        raise FolderFailed(
            f"{folder} can't be written: {error}. What its last checkpoint holds is sound. Make room on the disk, or make the "
            f"folder writable, then go on with: agon train --resume {folder}"
        ) from error


_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ENOTDIR, errno.EFBIG}


def check_no_links(folder: Path) -> None:
    """Refuse a run folder in which a name leads elsewhere: what a run writes, cuts back and deletes must be its own.

    Raises:
        FolderFailed: it holds a link, a pipe or a device.
    """
    for place in (folder, folder / "checkpoint"):
        for entry in os.scandir(place) if place.is_dir() else ():
            if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
                raise FolderFailed(
                    f"{entry.path} is a link or no ordinary file, and a run does not write through those: put the file or "
                    "folder itself there. To keep a run on another disk, move its whole folder, and link that"
                )


def lock(folder: Path) -> IO[str]:
    """Keep other processes from writing to the folder of a run as long as the returned file is open.

    Raises:
        FolderFailed: another one writes to it.
    """
    file = open(folder / ".lock", "a", encoding="utf-8")  # noqa: SIM115
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise FolderFailed(f"another process is training in {folder}: wait until it has ended, or stop it") from None
    return file


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Write `record` to `path`, complete or not at all."""
    write_text(path, json.dumps(record, indent=2, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path`, complete or not at all: aside first, then renamed."""
    aside = path.with_name(path.name + ".partial")
    aside.unlink(missing_ok=True)
    with open(aside, "x", encoding="utf-8") as file:  # never through a link that somebody has put there
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
