"""The folder of a run: what was asked for, what happened at every step, what came of it.

| file             | holds                                                        |
|------------------|--------------------------------------------------------------|
| `config.json`    | the configuration, complete                                  |
| `metrics.jsonl`  | one line per step: flat metrics                              |
| `events.out.*`   | the same and sample contests as text, for TensorBoard        |
| `summary.json`   | the evaluations before and after                             |
| `alice/`, `bob/` | the trained adapters, as PEFT writes them                    |
| `checkpoint/`    | what is needed to go on                                      |
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agon_env.contest import Contest


class RunFolder:
    """Writes the files of one run."""

    def __init__(self, path: Path, *, first_step: int = 0) -> None:
        """Open `path`, which is made if it does not exist.

        Args:
            path: the folder.
            first_step: what was logged for this step and later ones is dropped: a resumed run logs it again.
        """
        from torch.utils.tensorboard import SummaryWriter

        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._drop_metrics_from(first_step)
        self._metrics = open(path / "metrics.jsonl", "a", encoding="utf-8")  # noqa: SIM115
        self._events = SummaryWriter(str(path), purge_step=first_step if first_step else None)

    def write(self, name: str, record: Mapping[str, Any]) -> None:
        """Write `record` as the JSON file `name`, complete or not at all."""
        write_json(self.path / name, record)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Append the metrics of a step; values that are not finite are written as null."""
        finite = {key: value if math.isfinite(value) else None for key, value in metrics.items()}
        self._metrics.write(json.dumps({"step": step, **finite}, allow_nan=False) + "\n")
        self._metrics.flush()
        for key, value in metrics.items():
            self._events.add_scalar(key, value, step)

    def log_evaluation(self, step: int, figures: Mapping[str, Any]) -> None:
        """Draw the figures of an evaluation in TensorBoard, as `eval/…`."""
        for key, value in figures.items():
            if isinstance(value, int | float):
                self._events.add_scalar(f"eval/{key}", value, step)

    def show(self, step: int, tag: str, contest: Contest) -> None:
        """Show a contest as text in TensorBoard: what its first speaker read, what was said, what came of it."""
        first = contest.transcript.events[0].player
        text = f"{contest.observe(first).text}\n\n{contest.render()}"
        # Four spaces make a code block of every line: Markdown or HTML in a model's text stays text.
        self._events.add_text(tag, "".join(f"    {line}\n" for line in text.split("\n")), step)

    def close(self) -> None:
        """Finish writing."""
        self._metrics.close()
        self._events.close()

    def _drop_metrics_from(self, first_step: int) -> None:
        file = self.path / "metrics.jsonl"
        if file.exists():
            lines = file.read_text(encoding="utf-8").split("\n")
            kept = [line for line in lines[:-1] if json.loads(line)["step"] < first_step]
            write_text(file, "".join(line + "\n" for line in kept))


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Write `record` to `path`, complete or not at all."""
    write_text(path, json.dumps(record, indent=2, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path`, complete or not at all: aside first, then renamed."""
    aside = path.with_name(path.name + ".partial")
    with open(aside, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
