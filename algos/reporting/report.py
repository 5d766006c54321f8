"""`report_run` and `report_runs`: the page of a run, and the page that compares runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from algos.errors import ConfigError
from algos.reporting.browser import browser_data
from algos.reporting.charts import MOST_NAMES, Chart, Series, pool_steps
from algos.reporting.comparison import (
    MOST_SETTINGS,
    comparison_charts,
    differing_settings,
    evaluation_tables,
    other_figures,
    run_line,
)
from algos.reporting.contests import choose, read_whole
from algos.reporting.curves import training_charts
from algos.reporting.data import RunData, read_run
from algos.reporting.page import render
from algos.reporting.tables import before_after, facts, length_chart, phases, reward_charts, reward_sources, time_chart

MOST_CONTESTS = 5000
MOST_BYTES = 32 * 2**20
"""Bytes of contests that a page holds at most: a browser opens that from disk in good time, also on a phone."""
MOST_METRICS = 2000
"""Metrics among which one can be chosen."""

KEYS = (
    (("j", "k"), "next, previous contest"),
    (("g", "G"), "first, last contest"),
    (("/",), "search; Esc goes back to the list"),
    (("f",), "fixes only, and back"),
    (("b",), "breaks only"),
    (("r",), "both right only"),
    (("w",), "both wrong only"),
    (("u",), "unscored only"),
    (("a",), "all: clear the filters"),
    (("d",), "show what changed, or not"),
    (("?",), "these keys"),
)


def report_run(path: Path, *, contests: int = MOST_CONTESTS) -> str:
    """Return the page of one run as HTML.

    Args:
        path: its folder.
        contests: how many of its training contests the page holds at most, evenly from the whole run; figures and curves
            are counted from all of them.

    Raises:
        ConfigError: `path` is not the folder of a run, or one of its files is broken.
    """
    run = read_run(path)
    steps = pool_steps(_steps_of([run]), rounds=max(1, len(run.roles)))
    chosen = choose(run.rows, most=contests, most_bytes=MOST_BYTES)
    browser = browser_data(chosen, read_whole(run.file_of_contests, chosen)) if chosen else None
    curves = _named("curve", training_charts(run, steps))
    rewards = _named("reward", reward_charts(run, steps))
    lengths = _named("length", [length_chart(run.rows)])
    times = _named("time", [time_chart(run, steps)])
    spent = phases(run)
    metrics, any_metric, left = _any_metric(run)
    sources = reward_sources(run.rows)
    sections = {
        "before-after": "Before and after" if run.summary else None,
        "curves": "Curves" if curves else None,
        "reward": "Reward" if sources or rewards else None,
        "length": "Length" if lengths else None,
        "time": "Time" if spent else None,
        "metrics": "Any metric" if metrics else None,
        "contests": "Contests",
    }
    return render(
        "run.html",
        title=run.name,
        sections=sections,
        facts=facts(run),
        before_after=before_after(run),
        curves=curves,
        sources=sources,
        most_names=MOST_NAMES,
        most_reward=max((abs(part.value) for source in sources for part in source.parts.values() if part), default=0.0),
        rewards=rewards,
        lengths=lengths,
        phases=spent,
        times=times,
        metric_names=list(metrics),
        metrics_left=left,
        contests=_contests(run, browser) if browser else None,
        data={
            "charts": {name: asdict(chart) for name, chart in (curves | rewards | lengths | times | any_metric).items()},
            "metrics": list(metrics.values()),
            "browser": browser,
        },
    )


def report_runs(paths: Sequence[Path]) -> str:
    """Return the page that compares runs as HTML.

    Args:
        paths: their folders, two or more; the first one is what the others are compared with.

    Raises:
        ConfigError: one of them is not the folder of a run, or there are not two.
    """
    if len(paths) < 2:
        raise ConfigError("a comparison takes two runs or more")
    runs = _by_name([read_run(path) for path in paths])
    steps = pool_steps(_steps_of(runs.values()), rounds=max(1, *(len(run.roles) for run in runs.values())))
    curves = _named("curve", comparison_charts(runs, steps))
    evaluations, others = evaluation_tables(runs), other_figures(runs.values())
    settings = differing_settings(runs.values())
    sections = {
        "runs": "Runs",
        "evaluations": "On held-out problems" if evaluations or others else None,
        "curves": "Curves" if curves else None,
    }
    return render(
        "runs.html",
        title=f"{len(runs)} runs compared",
        sections=sections,
        runs=[run_line(name, run) for name, run in runs.items()],
        settings=dict(islice(settings.items(), MOST_SETTINGS)),
        settings_left=max(0, len(settings) - MOST_SETTINGS),
        evaluations=evaluations,
        other_figures=others,
        curves=curves,
        data={"charts": {name: asdict(chart) for name, chart in curves.items()}, "browser": None},
    )


def _named(prefix: str, charts: Iterable[Chart | None]) -> dict[str, Chart]:
    return {f"{prefix}-{number}": chart for number, chart in enumerate(chart for chart in charts if chart is not None)}


def _steps_of(runs: Iterable[RunData]) -> list[int]:
    return [
        step for run in runs for step in (*(int(record["step"]) for record in run.metrics), *(row.step for row in run.rows))
    ]


def _any_metric(run: RunData) -> tuple[dict[str, list[float | None]], dict[str, Chart], int]:
    """Return metric → its value at each step, the chart that shows the first one, and how many metrics are left out."""
    found = sorted({name for record in run.metrics for name in record if name != "step"})
    names = found[:MOST_METRICS]
    metrics = {name: [record.get(name) for record in run.metrics] for name in names}
    if not metrics:
        return {}, {}, 0
    steps = [int(record["step"]) + 1 for record in run.metrics]
    first = Series(names[0], metrics[names[0]])
    chart = Chart(
        "Any metric", "", "number", "step", [float(step) for step in steps], [first], [(step, step) for step in steps]
    )
    return metrics, {"any-metric": chart}, len(found) - len(names)


def _contests(run: RunData, browser: dict[str, Any]) -> dict[str, Any]:
    shown, total = len(browser["contests"]), len(run.rows)
    count = Counter(contest["kind"] for contest in browser["contests"])
    steps = [contest["step"] for contest in browser["contests"]]
    return {
        "note": f"All {total:,} training contests." if shown == total else f"{shown:,} of {total:,} training contests, evenly.",
        "kinds": [(kind, name, count[kind]) for kind, name in browser["kinds"]],
        "first": min(steps),
        "last": max(steps),
        "seats": browser["seats"],
        "letters": KEYS,
    }


def _by_name(runs: Sequence[RunData]) -> dict[str, RunData]:
    """Return the runs by the names of their folders; of those that share one, by as many folders above it as it takes."""
    paths = [run.path.resolve() for run in runs]
    for depth in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return dict(zip(names, runs, strict=True))
    raise ConfigError("a run can't be compared with itself: name each folder once")
