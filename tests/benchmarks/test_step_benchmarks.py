"""The benchmarks of whole steps run and say what they promise, in a tiny mode."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ONE_STEP = ["--steps", "1", "--warmup", "1", "--threads", "1"]


def run(name: str, *args: str) -> dict[str, Any]:
    result = subprocess.run(
        [sys.executable, str(BENCHMARKS / name), *args],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.slow
def test_a_step_against_trl(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    sizes = ["--problems", "2", "--group", "4", "--new-tokens", "8", "--rank", "4"]
    report = run("step_vs_trl.py", *sizes, *ONE_STEP, "--output", str(tmp_path / "report.json"))
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8")) == report
    figures = report["1_threads"]
    assert {figures[side]["tokens_per_step"] for side in ("agon", "trl", "trl_defaults")} == {2 * 4 * 8}
    assert figures["share_of_the_peak_memory_of"]["trl"] < 1
    speed = figures["trl"]["seconds_per_step"]["median"] / figures["agon"]["seconds_per_step"]["median"]
    assert figures["times_as_fast_as"]["trl"] == pytest.approx(speed, abs=0.01)


@pytest.mark.slow
def test_a_step_against_comlrl() -> None:
    pytest.importorskip("comlrl")
    sizes = [*("--small", "2", "2", "8"), *("--real", "1", "2", "4"), "--models", "embedded", "tiny"]
    report = run("step_vs_comlrl.py", *sizes, "--steps", "1", "1", "--threads", "1")
    for name, tokens in (("embedded", 2 * 2 * 2 * 8), ("tiny", 2 * 1 * 2 * 4)):
        assert {report[name][side]["tokens_per_step"] for side in ("agon", "comlrl", "comlrl_lora")} == {tokens}
        assert report[name]["share_of_the_peak_memory_of"]["comlrl"] > 0
