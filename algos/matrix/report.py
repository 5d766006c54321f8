"""What a matrix shows: `results.json`, a Markdown table with intervals, and a figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from algos.figures import as_they_are, pyplot
from algos.matrix.rows import COMPARISONS, ROWS
from algos.statistics import Estimate, bootstrap, paired_bootstrap
from algos.training.markdown import as_name
from algos.training.run_folder import write_json, write_text

if TYPE_CHECKING:
    from algos.matrix.matrix import MatrixConfig

Cells = Mapping[str, Sequence[Mapping[str, Any]]]
"""Row → what it came to, for each seed."""

FIGURES = (
    "draft_pass1",
    "fix_rate",
    "break_rate",
    "mean_tokens",
    "tokens_per_answer",
    "correct_per_1k_tokens",
    "hedges_per_100_tokens",
    "truncated",
)
"""What is averaged over the seeds."""


def write_report(folder: Path, cells: Cells, config: MatrixConfig, sessions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Write the files of the report into `folder`, and return what `results.json` holds.

    Args:
        folder: where to.
        cells: what the rows came to.
        config: what was asked for.
        sessions: facts about each process that worked on them; see `algos.training.provenance.session`.
    """
    results = {**summarise(cells, config), "sessions": list(sessions)}
    write_json(folder / "results.json", results)
    write_text(folder / "table.md", markdown(results))
    draw(results, folder / "table.png")
    return results


def summarise(cells: Cells, config: MatrixConfig) -> dict[str, Any]:
    """Return the rows with their intervals over seeds and problems, and the differences between them."""
    _check_problems(cells)
    scores = {name: _scores(runs) for name, runs in cells.items()}
    return {
        "env": config.train.env,
        "model": config.train.model,
        "seeds": config.seeds,
        "problems": len(next(iter(cells.values()))[0]["problems"]),
        "budget": config.budget,
        "rows": {
            name: {
                "title": ROWS[name].title,
                "deployment": ROWS[name].deployment,
                "pass1": asdict(bootstrap(scores[name])),
                "pass1_by_seed": [float(value) for value in np.nanmean(scores[name], axis=1)],
                "training_tokens": fmean(run["training"]["tokens"] for run in runs),
                "training_steps": fmean(run["training"]["steps"] for run in runs),
                **_means(runs),
            }
            for name, runs in cells.items()
        },
        "differences": [
            {"row": ours, "minus": theirs, **asdict(paired_bootstrap(scores[ours], scores[theirs]))}
            for ours, theirs in COMPARISONS
            if ours in scores and theirs in scores
        ],
    }


def markdown(results: Mapping[str, Any], *, brief: bool = False) -> str:
    """Return the table and the differences as Markdown.

    Args:
        results: what `results.json` holds.
        brief: leave out what does not fit into a terminal.
    """
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "row": lambda row: row["title"],
        "right, % [95 %]": lambda row: _interval(row["pass1"]),
        "tokens of an answer": lambda row: _number(row.get("tokens_per_answer")),
        "training tokens": lambda row: f"{row['training_tokens']:,.0f}",
    }
    if not brief:
        columns |= {
            "steps": lambda row: f"{row['training_steps']:.0f}",
            "deployed as": lambda row: row["deployment"].replace("_", " "),
            "drafts, %": lambda row: _percent(row.get("draft_pass1")),
            "fix, %": lambda row: _percent(row.get("fix_rate")),
            "break, %": lambda row: _percent(row.get("break_rate")),
            "tokens of a text": lambda row: _number(row.get("mean_tokens")),
            "right per 1,000 tokens": lambda row: _number(row.get("correct_per_1k_tokens")),
        }
    lines = [
        f"{as_name(results['env'])}, {as_name(results['model'])}: "
        f"{results['seeds']} seeds, {results['problems']} held-out problems.",
        "",
        f"| {' | '.join(columns)} |",
        "|" + "---|" * len(columns),
        *(f"| {' | '.join(show(row) for show in columns.values())} |" for row in results["rows"].values()),
    ]
    titles = {name: row["title"] for name, row in results["rows"].items()}
    lines += ["", "| difference, points [95 %] | | excludes 0 |", "|---|---|---|"]
    for difference in results["differences"]:
        estimate = Estimate(difference["value"], difference["low"], difference["high"])
        verdict = "yes" if estimate.excludes_zero else "no"
        names = f"{titles[difference['row']]} − {titles[difference['minus']]}"
        lines.append(f"| {names} | {_interval(difference, sign='+')} | {verdict} |")
    return "\n".join(lines) + "\n"


def draw(results: Mapping[str, Any], file: Path) -> None:
    """Draw the rows with their intervals, and what an answer costs.

    Raises:
        DependencyNotInstalled: matplotlib is missing.
    """
    with as_they_are(pyplot()) as plt:
        _draw(plt, results, file)


def _draw(plt: Any, results: Mapping[str, Any], file: Path) -> None:
    rows = list(results["rows"].values())[::-1]
    value = np.array([100 * row["pass1"]["value"] for row in rows])
    low = np.array([100 * row["pass1"]["low"] for row in rows])
    high = np.array([100 * row["pass1"]["high"] for row in rows])
    places = np.arange(len(rows))
    figure, (left, right) = plt.subplots(
        1, 2, sharey=True, figsize=(9, 1.2 + 0.36 * len(rows)), width_ratios=(3, 1), layout="constrained"
    )
    left.barh(places, value, color="#4878a8", height=0.62)
    left.errorbar(value, places, xerr=(value - low, high - value), fmt="none", ecolor="#222222", capsize=3, lw=1)
    for row, place in zip(rows, places, strict=True):
        by_seed = [100 * seed for seed in row["pass1_by_seed"]]
        left.plot(by_seed, [place] * len(by_seed), "o", color="#222222", ms=3, alpha=0.6)
    left.set_yticks(places, [row["title"] for row in rows])
    left.set_xlabel("held-out problems answered right, % (bar: 95 %; points: seeds)")
    right.barh(places, [row.get("tokens_per_answer") or 0.0 for row in rows], color="#b0b8c0", height=0.62)
    right.set_xlabel("tokens of an answer")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{results['env']}, {results['model']}, {results['seeds']} seeds", fontsize=11)
    figure.savefig(file, dpi=150)
    plt.close(figure)


def _check_problems(cells: Cells) -> None:
    asked = {tuple(run["problems"]) for runs in cells.values() for run in runs}
    if len(asked) != 1:
        raise ValueError("the rows were not judged on the same problems; delete the folder cells, and judge them again")


def _scores(runs: Sequence[Mapping[str, Any]]) -> np.ndarray:
    return np.array([[np.nan if score is None else score for score in run["scores"]] for run in runs], dtype=float)


def _means(runs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean over the seeds of each figure that all of them have."""
    return {
        name: fmean(run["figures"][name] for run in runs) for name in FIGURES if all(name in run["figures"] for run in runs)
    }


def _interval(estimate: Mapping[str, float], *, sign: str = "") -> str:
    value, low, high = (f"{100 * estimate[key]:{sign}.1f}" for key in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
