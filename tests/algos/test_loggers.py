"""TensorBoard, Weights & Biases and trackio get the same numbers and texts, and texts stay texts in each."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from agents.errors import DependencyNotInstalled
from algos.training.loggers import LOGGERS, LoggedRun, Logger

HOSTILE = "**bold** <script>alert(1)</script>\n```\n# head\x1b[2J \u202e [x](javascript:alert(1))\n" + "y" * 300


def log_something(logger: Logger) -> None:
    for step in range(3):
        logger.scalars(step, {"alice/reward": step / 2, "time/step": 0.5})
        logger.histograms(step, {"alice/rewards": [0.0, 1.0, 1.5, 1.5], "bob/rewards": []})
        logger.text(step, "contest", HOSTILE)
    logger.flush()
    logger.close()


def run_in(folder: Path) -> LoggedRun:
    return LoggedRun(folder, {"steps": 3, "optim": {"learning_rate": 1e-4}})


def test_tensorboard_has_curves_histograms_and_texts(tmp_path: Path) -> None:
    log_something(LOGGERS["tensorboard"](run_in(tmp_path)))
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(event.step, event.value) for event in events.Scalars("alice/reward")] == [(0, 0.0), (1, 0.5), (2, 1.0)]
    assert events.Tags()["histograms"] == ["alice/rewards"]  # nothing is drawn of no numbers
    assert events.Histograms("alice/rewards")[0].histogram_value.num == 4
    shown = events.Tensors("contest/text_summary")[0].tensor_proto.string_val[0].decode()
    lines = shown.split("\n")
    assert lines.pop() == ""
    assert all(line.startswith("    ") for line in lines)  # a block of code: nothing in it is markup
    assert max(map(len, lines)) <= 124
    assert "\x1b" not in shown
    assert "\\x1b[2J \\u202e" in shown
    assert "".join(line[4:] for line in lines).endswith("y" * 300)


@pytest.mark.skipif(not importlib.util.find_spec("wandb"), reason='wandb is not installed: pip install "agon-env[wandb]"')
def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wandb

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    log_something(LOGGERS["wandb"](run_in(tmp_path / "My run: 1")))
    wandb.teardown()  # its process writes until it ends
    (kept,) = (tmp_path / "My run: 1" / "wandb").glob("offline-run-*/*.wandb")
    written = kept.read_bytes()
    for part in (b"alice/rewards", b"time/step", b"My_run__1", b"learning_rate"):
        assert part in written


@pytest.mark.skipif(not importlib.util.find_spec("trackio"), reason='trackio is not installed: pip install "agon-env[trackio]"')
def test_trackio_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlite3

    import trackio.sqlite_storage as storage
    import trackio.utils as utils

    for module in (storage, utils):
        monkeypatch.setattr(module, "TRACKIO_DIR", tmp_path / "trackio")
    log_something(LOGGERS["trackio"](run_in(tmp_path / "run")))
    (kept,) = (tmp_path / "trackio").glob("*.db")
    with sqlite3.connect(kept) as connection:
        rows = connection.execute("select step, metrics from metrics order by step").fetchall()
    assert {step for step, _ in rows} == {0, 1, 2}
    written = "".join(metrics if isinstance(metrics, str) else metrics.decode() for _, metrics in rows)
    assert '"alice/reward"' in written.replace(" ", "")


class Recorder:
    """Stands for wandb and trackio: it keeps what it is given."""

    def __init__(self) -> None:
        self.logged: list[tuple[int, dict[str, Any]]] = []
        self.begun: dict[str, Any] = {}
        self.finished = 0

    def init(self, **settings: Any) -> SimpleNamespace:
        self.begun = settings
        return SimpleNamespace(log=lambda values, step: self.logged.append((step, values)), finish=self.finish)

    def finish(self) -> None:
        self.finished += 1

    def Histogram(self, values: list[float]) -> tuple[str, list[float]]:
        return "histogram", values

    def Html(self, page: str, inject: bool) -> tuple[str, str]:
        return "html", page

    def Markdown(self, text: str) -> tuple[str, str]:
        return "markdown", text


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_services_get_numbers_and_escaped_texts(name, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Recorder()
    monkeypatch.setitem(sys.modules, name, service)
    log_something(LOGGERS[name](run_in(tmp_path / "run")))
    assert service.begun["config"] == {"steps": 3, "optim": {"learning_rate": 1e-4}}
    assert service.begun["resume"] == "allow"
    assert service.begun["project"] == "agon-env"
    assert next(values for step, values in service.logged if step == 1) == {"alice/reward": 0.5, "time/step": 0.5}
    assert (1, {"alice/rewards": ("histogram", [0.0, 1.0, 1.5, 1.5])}) in service.logged
    (kind, text) = next(values["contest"] for step, values in service.logged if "contest" in values)
    assert "\x1b" not in text
    if kind == "html":
        assert "<script>" not in text
        assert "&lt;script&gt;" in text
    else:
        assert all(line.startswith("    ") for line in text.split("\n") if line)
    assert service.finished == 1


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_what_is_missing_is_named_with_its_extra(name, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(DependencyNotInstalled, match=rf'pip install "agon-env\[{name}\]"'):
        LOGGERS[name](run_in(tmp_path))
