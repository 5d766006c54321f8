"""docs/runs.md names every file, metric and figure that a run writes."""

import json
import re
from dataclasses import replace
from pathlib import Path

from algos.config import TINY
from algos.trainer import train

PAGE = (Path(__file__).parents[2] / "docs" / "runs.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`([^`\n]+)`", PAGE))


def is_named(metric: str) -> bool:
    general = metric.replace("bob/", "alice/")
    forms = {general, re.sub(r"_(drafter|challenger)$", "_<role>", general), re.sub(r"/reward_\w+$", "/reward_<part>", general)}
    return metric.startswith("eval/") or bool(forms & NAMED)


def test_everything_that_a_run_writes_is_explained(tmp_path: Path) -> None:
    config = replace(TINY, steps=2, problems=2, group_size=4, eval_problems=4, eval_every=1, output_dir=str(tmp_path))
    run = train(replace(config, loss=replace(config.loss, kl_coef=0.01, dual_clip=3.0, sampler_correction="token")))
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    metrics = {key for line in lines for key in json.loads(line)} - {"step"}
    assert [metric for metric in sorted(metrics) if not is_named(metric)] == []
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    assert set(summary) == {"before", "after"}
    assert (set(summary["after"]) | {key.removeprefix("eval/") for key in metrics if key.startswith("eval/")}) <= NAMED
    files = {re.sub(r"tfevents\..*", "tfevents.*", path.name) for path in run.iterdir()}
    assert files - {"alice", "bob", "checkpoint"} <= NAMED
    assert {"alice/", "bob/", "checkpoint/step-N/"} <= NAMED


def test_what_is_not_explained_is_noticed() -> None:
    assert not is_named("alice/no_such_metric")
    assert not is_named("pair/no_such_metric")
