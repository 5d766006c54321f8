"""No guard fires in the three examples that a newcomer runs first. Slow."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from algos.config import TrainConfig

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["train_competitive", "train_grpo", "train_cooperative"])
def test_no_guard_fires(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [f"{name}.py", "--eval-every", "20", "--eval-problems", "64"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert ended.value.code in (0, None)
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / "events.jsonl").read_text(encoding="utf-8") == ""
    steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").split("\n") if line]
    assert len(steps) == TrainConfig().steps
    assert not any(key.startswith("guards/") or key.endswith("skipped") for step in steps for key in step)
    assert not (run / "skipped").exists()
