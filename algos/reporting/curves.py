"""The curves of a run over its steps: counted from contests where they were kept, else taken from the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from algos.reporting.charts import Chart, Series, Steps, chart_of_steps, curve_of_contests, curve_of_metric
from algos.reporting.contests import DUEL, ContestRow
from algos.reporting.data import RunData
from algos.reporting.estimates import share_of
from algos.reporting.plain import mapping
from algos.statistics import Estimate, wilson

SHARES = {
    "draft_pass1": "drafts right",
    "answer_pass1": "answers right",
    "fix_rate": "wrong drafts fixed",
    "break_rate": "right drafts broken",
}
"""Metric → what it is called, in a duel."""


def training_charts(run: RunData, steps: Steps) -> list[Chart]:
    """Return the charts of what happened in training, but for reward and time."""
    names = share_names(run)
    policies = run.policies
    pairs = [(one, other) for one in policies for other in policies]
    charts = [
        held_out_chart(run),
        chart_of_steps(
            "Right texts in training",
            "",
            "share",
            steps,
            [share_curve(run, steps, key, name) for key, name in names.items() if key.endswith("pass1")],
        ),
        chart_of_steps(
            "What reading a draft does",
            "",
            "share",
            steps,
            [share_curve(run, steps, key, name) for key, name in names.items() if key.endswith("rate")],
        ),
        chart_of_steps(
            "Tokens of a text", "", "number", steps, [_metric(run, steps, policy, f"{policy}/length") for policy in policies]
        ),
        chart_of_steps(
            "How far the policies moved",
            "KL divergence in nats per token.",
            "number",
            steps,
            chain(
                (_metric(run, steps, f"{policy} from the base", f"{policy}/kl_base") for policy in policies),
                (_metric(run, steps, f"{one} from {other}", f"pair/kl_{one}_{other}") for one, other in pairs),
            ),
        ),
        chart_of_steps(
            "Entropy",
            "In nats per token: it falls as a policy grows sure.",
            "number",
            steps,
            [_metric(run, steps, policy, f"{policy}/entropy") for policy in policies],
        ),
    ]
    return [chart for chart in charts if chart is not None]


def share_names(run: RunData) -> dict[str, str]:
    """Return metric → what it is called in this run's game: fixes and breaks mean something in duels alone."""
    roles = run.roles
    if roles in (DUEL, ()):
        return SHARES
    if len(roles) == 1:
        return {"answer_pass1": "answers right"}
    return {"draft_pass1": f"score of {roles[0]}", "answer_pass1": f"score of {roles[-1]}"}


def share_curve(run: RunData, steps: Steps, key: str, name: str) -> Series:
    """Return one of `SHARES` over the steps of training, called `name`."""
    if run.keeps_contests:
        return curve_of_contests(name, run.rows, steps, OBSERVE[key])
    return _metric(run, steps, name, f"pair/{key}")


def _fixed(row: ContestRow) -> float | None:
    return row.last if row.duel and row.first is not None and row.first < 1 else None


def _broken(row: ContestRow) -> float | None:
    return 1 - row.last if row.duel and row.first == 1 and row.last is not None else None


OBSERVE = {
    "draft_pass1": lambda row: row.first,
    "answer_pass1": lambda row: row.last,
    "fix_rate": _fixed,
    "break_rate": _broken,
}


def held_out(run: RunData, key: str) -> dict[int, Estimate]:
    """Return steps that were done → one of `SHARES` on held-out problems then, with its interval."""
    found: dict[int, Estimate | None] = {0: share_of(mapping(run.summary.get("before")), key)}
    for record in run.metrics:
        value, n = record.get(f"eval/{key}"), _trials(record, key)
        if value is not None and 0 <= value <= 1 and n >= 1:
            found[int(record["step"]) + 1] = Estimate(value, *wilson(value, n))
    found[run.steps_done] = share_of(mapping(run.summary.get("after")), key) or found.get(run.steps_done)
    return {step: estimate for step, estimate in sorted(found.items()) if estimate is not None}


def _trials(record: Mapping[str, float], key: str) -> int:
    """Return the contests that a figure of an evaluation is a share of: the metrics keep those of all figures."""
    drafts_right = record.get("eval/draft_pass1", 0.0)
    share = {"fix_rate": 1 - drafts_right, "break_rate": drafts_right}.get(key, 1.0)
    return round(record.get("eval/n", 0.0) * share)


def held_out_chart(run: RunData) -> Chart | None:
    """Return the evaluations before, during and after training; None where there are none."""
    return chart_of_evaluations("On held-out problems", {name: held_out(run, key) for key, name in share_names(run).items()})


def chart_of_evaluations(title: str, curves: Mapping[str, Mapping[int, Estimate]]) -> Chart | None:
    """Return a chart of estimates over the steps that were done; None where there are none."""
    places = sorted({step for curve in curves.values() for step in curve})
    if not places:
        return None
    series = [Series.of(name, [curve.get(step) for step in places]) for name, curve in curves.items() if curve]
    return Chart(title, "", "share", "steps done", [float(step) for step in places], series)


def _metric(run: RunData, steps: Steps, name: str, key: str) -> Series:
    return curve_of_metric(name, run.metrics, steps, key)
