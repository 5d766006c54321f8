"""What runs have in common, and where they differ: the parts of the page that compares them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from algos.reporting.charts import Chart, Steps, chart_of_steps, curve_of_metric
from algos.reporting.curves import chart_of_evaluations, held_out, share_curve, share_names
from algos.reporting.data import RunData
from algos.reporting.estimates import difference, share_of
from algos.reporting.plain import mapping, number
from algos.reporting.tables import OTHER_FIGURES, SHARES_WITHOUT_INTERVAL
from algos.statistics import Estimate

Runs = Mapping[str, RunData]
"""Name → run. The first one is what the others are compared with."""

MOST_SETTINGS = 200
"""Columns of the table of settings: a browser lays out as many in a moment."""
NO_SETTINGS = ("output_dir", "name")
"""Fields of a config that say where a run lies, and not what it is."""


def run_line(name: str, run: RunData) -> dict[str, Any]:
    """Return what a run took."""
    return {
        "name": name,
        "steps": run.steps_done,
        "tokens": sum(record.get("progress/tokens", 0.0) for record in run.metrics),
        "seconds": sum(record.get("time/step", 0.0) for record in run.metrics),
    }


def differing_settings(runs: Iterable[RunData]) -> dict[str, list[str]]:
    """Return setting → its value in each run, of the settings that are not the same in all."""
    flat = [_flat(run.config) for run in runs]
    names = list(dict.fromkeys(name for settings in flat for name in settings))
    values = {name: [settings.get(name, "–") for settings in flat] for name in names if name not in NO_SETTINGS}
    return {name: found for name, found in values.items() if len(set(found)) > 1}


def _flat(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of a config; those of its parts, such as the optimiser, by names with a dot."""
    parts = {name: value if isinstance(value, Mapping) else {"": value} for name, value in config.items()}
    return {
        f"{part}.{name}".removesuffix("."): value if isinstance(value, str) else json.dumps(value)
        for part, settings in parts.items()
        for name, value in settings.items()
    }


@dataclass(frozen=True)
class EvaluationRow:
    """One run in a table of `EvaluationTable`."""

    run: str
    before: Estimate | None
    after: Estimate | None
    change: Estimate | None
    against_first: Estimate | None
    """Its `after` less that of the first run."""


@dataclass(frozen=True)
class EvaluationTable:
    """One share on held-out problems, of every run."""

    name: str
    other_problems: bool
    """Whether the runs were judged on other problems than one another."""
    rows: list[EvaluationRow]


def evaluation_tables(runs: Runs) -> list[EvaluationTable]:
    """Return a table for each share that some run has."""
    judged_on = {json.dumps([run.config.get(key) for key in ("env", "env_options", "eval_problems")]) for run in runs.values()}
    tables = []
    for key, name in _share_names(runs).items():
        found = {
            run_name: (share_of(mapping(run.summary.get("before")), key), share_of(mapping(run.summary.get("after")), key))
            for run_name, run in runs.items()
        }
        if not any(before or after for before, after in found.values()):
            continue
        (_, reference), *_ = found.values()
        rows = [
            EvaluationRow(
                run=run_name,
                before=before,
                after=after,
                change=difference(before, after) if before and after else None,
                against_first=difference(reference, after) if place and reference and after else None,
            )
            for place, (run_name, (before, after)) in enumerate(found.items())
        ]
        tables.append(EvaluationTable(name, len(judged_on) > 1, rows))
    return tables


@dataclass(frozen=True)
class OtherFigure:
    """A figure without an interval, of every run."""

    name: str
    share: bool
    values: list[tuple[float | None, float | None]]
    """Before and after, run by run."""


def other_figures(runs: Iterable[RunData]) -> list[OtherFigure]:
    """Return the figures on held-out problems that have no interval, such as lengths, as far as some run has them."""
    summaries = [(mapping(run.summary.get("before")), mapping(run.summary.get("after"))) for run in runs]
    figures = [
        OtherFigure(
            name=name,
            share=key in SHARES_WITHOUT_INTERVAL,
            values=[(number(before.get(key)), number(after.get(key))) for before, after in summaries],
        )
        for key, name in OTHER_FIGURES.items()
    ]
    return [figure for figure in figures if any(value is not None for pair in figure.values for value in pair)]


def _share_names(runs: Runs) -> dict[str, str]:
    """Return metric → what it is called, of those that some run has; the first run decides how one is called."""
    names: dict[str, str] = {}
    for run in runs.values():
        names = share_names(run) | names
    return names


def comparison_charts(runs: Runs, steps: Steps) -> list[Chart]:
    """Return a chart for each quantity, with a curve for each run."""
    names = _share_names(runs)
    charts: list[Chart | None] = [
        chart_of_evaluations(f"Held out: {name}", {run_name: held_out(run, key) for run_name, run in runs.items()})
        for key, name in names.items()
    ]
    charts += [
        chart_of_steps(
            f"In training: {name}",
            "",
            "share",
            steps,
            [share_curve(run, steps, key, run_name) for run_name, run in runs.items()],
        )
        for key, name in names.items()
    ]
    of_policies = {
        "length": "Tokens of a text",
        "kl_base": "KL from the base, nats per token",
        "entropy": "Entropy, nats per token",
    }
    charts += [
        chart_of_steps(
            title,
            "Mean of the policies.",
            "number",
            steps,
            [
                curve_of_metric(run_name, run.metrics, steps, *(f"{policy}/{key}" for policy in run.policies))
                for run_name, run in runs.items()
            ],
        )
        for key, title in of_policies.items()
    ]
    charts.append(
        chart_of_steps(
            "Time of a step",
            "",
            "seconds",
            steps,
            [curve_of_metric(run_name, run.metrics, steps, "time/step") for run_name, run in runs.items()],
        )
    )
    return [chart for chart in charts if chart is not None]
