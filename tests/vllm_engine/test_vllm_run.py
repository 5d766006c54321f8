"""Whole runs of `agon train` with vLLM as the sampler, beside the learner and as a server: what is sampled is what learns."""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from vllm_process import serving

from agents import embedded
from agents.engines.vllm import installed_version

pytestmark = pytest.mark.skipif(
    installed_version() is None, reason="vLLM is not installed; .ci/vllm makes an environment with it"
)

STEPS = 3


def train(folder: Path, engine: str, *flags: str) -> list[dict[str, float]]:
    """Train the embedded model and return the metrics of the steps."""
    command = [str(Path(sys.executable).with_name("agon")), "train", "--engine", engine, "--steps", str(STEPS)]
    command += ["--group-size", "6", "--max-tokens", "24", "--eval-problems", "4", "--output-dir", str(folder), "--name", "run"]
    # Both adapters have moved before the first step, and move in every step in which anything is learned.
    command += ["--imitation.steps", "6", "--imitation.player", "oracle", "--optim.learning-rate", "3e-3", *flags]
    cache = {"VLLM_CPU_KVCACHE_SPACE": "1"}
    done = subprocess.run(command, env={**os.environ, **cache}, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    return [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]


def check_sampler(metrics: list[dict[str, float]]) -> int:
    """Check that the policies that sampled are those that learned; return how many updates there were."""
    assert len(metrics) == STEPS
    learned = 0
    for step in metrics:
        for name in ("alice", "bob"):
            if step[f"{name}/rows"]:
                # `kl_base` is what the mismatch would be if the adapter had not arrived.
                assert step[f"{name}/sampler_mismatch"] < 0.01 * step[f"{name}/kl_base"]
                assert step[f"{name}/sampler_capped"] == 0
                learned += 1
    assert learned >= 2
    return learned


def test_vllm_beside_the_learner_samples_what_learns(tmp_path: Path) -> None:
    check_sampler(train(tmp_path, "vllm"))


def test_a_server_samples_what_learns_and_forgets_it_at_the_end(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with serving(str(embedded.path()), adapters=4, log=log) as url:
        updates = check_sampler(train(tmp_path, f"vllm:{url}/v1"))
        with urllib.request.urlopen(f"{url}/v1/models") as response:
            assert len(json.load(response)["data"]) == 1
    said = log.read_text(encoding="utf-8", errors="replace")
    pushed, forgotten = (said.count(f'POST /v1/{what}_lora_adapter HTTP/1.1" 200') for what in ("load", "unload"))
    assert pushed == forgotten == 2 + updates  # both policies at first, and each one when it has moved


@pytest.mark.slow
def test_every_rank_has_vllm_beside_it(tmp_path: Path) -> None:
    check_sampler(train(tmp_path, "vllm", "--ranks", "2"))
