"""`RunData`: what the folder of a run holds, as plain values. Nothing in it is trusted: it may be from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from algos.errors import ConfigError
from algos.reporting.charts import MOST_NAMES
from algos.reporting.contests import ContestRow, read_rows
from algos.reporting.plain import Json, numbers, read_lines, read_object, step_of

CONTESTS = "contests.jsonl"
"""As `algos.training.contest_log.CONTESTS`, which takes seconds to import."""


@dataclass(frozen=True)
class RunData:
    """One run."""

    path: Path
    config: Json
    metrics: tuple[Mapping[str, float], ...]
    """One flat record for each step, see docs/runs.md."""
    summary: Json
    """The evaluations `before` and `after`; empty for a run that has not ended."""
    rows: tuple[ContestRow, ...]
    """Its training contests; empty where they were not kept."""

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.path.resolve().name

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies that were trained, in alphabetical order; of very many one more than a chart shows."""
        found = {key.removesuffix("/reward") for record in self.metrics for key in record if key.endswith("/reward")}
        return tuple(sorted(found)[: MOST_NAMES + 1])

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of its game, in the order of speaking."""
        if self.rows:
            return tuple(seat.role for seat in self.rows[0].seats)
        for prefix in ("pair/wins_", "/score_"):  # of a game for one player there are no wins
            if found := dict.fromkeys(key.partition(prefix)[2] for record in self.metrics for key in record if prefix in key):
                return tuple(found)
        return ()

    @property
    def keeps_contests(self) -> bool:
        """Whether the contests of every step were kept, so that its curves can be counted from them."""
        return bool(self.rows) and {record["step"] for record in self.metrics} <= {row.step for row in self.rows}

    @property
    def steps_done(self) -> int:
        """How many steps were done."""
        return 1 + max((int(record["step"]) for record in self.metrics), default=-1)

    @property
    def file_of_contests(self) -> Path:
        """Where its contests are."""
        return self.path / CONTESTS


def read_run(path: Path) -> RunData:
    """Read the folder of a run, also of one that is still going on.

    Raises:
        ConfigError: `path` is not the folder of a run, or one of its files is broken; the message names it.
    """
    if not (path / "config.json").is_file():
        raise ConfigError(f"{path} is not the folder of a run: it holds no config.json. agon train makes one under runs/")
    return RunData(
        path=path,
        config=read_object(path / "config.json"),
        metrics=_metrics(path / "metrics.jsonl"),
        summary=read_object(path / "summary.json") if (path / "summary.json").is_file() else {},
        rows=tuple(read_rows(path / CONTESTS)),
    )


def _metrics(file: Path) -> tuple[Mapping[str, float], ...]:
    """Return the metrics of each step as numbers; what is not finite is left out."""
    records = []
    for line in read_lines(file):
        step_of(line)
        records.append(numbers(line.record))
    return tuple(records)
