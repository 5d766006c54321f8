"""Ratings as a figure: over the steps of a run, or one line for each player."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from agents.adapters import BASE
from agon_env.printable import printable
from algos.arena.standings import Standing, Standings
from algos.figures import as_they_are, pyplot

MOST_CHARACTERS = 60
"""Of a name in the figure."""
_COLOURS = ("#1f6f8b", "#c05746", "#5b7d2e", "#7a4f9a", "#b8860b", "#444444")


def draw(standings: Standings, file: Path) -> None:
    """Draw the ratings with their 95 % intervals.

    Args:
        standings: of a tournament. States of a run's policies become lines over its steps, which begin at the base.
        file: where to; the ending says in which format.

    Raises:
        DependencyNotInstalled: matplotlib is missing.
    """
    with as_they_are(pyplot()) as plt:
        _draw(plt, standings, file)


def _draw(plt: Any, standings: Standings, file: Path) -> None:
    over_steps = any(one.step for one in standings.players)
    size = (8.0, 4.5) if over_steps else (8.0, 1.2 + 0.3 * len(standings.players))
    figure, axes = plt.subplots(figsize=size, layout="constrained")
    (_over_steps if over_steps else _side_by_side)(axes, standings)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(f"{_shown(standings.env)}: Bradley–Terry ratings, {standings.contests} contests", fontsize=11)
    figure.savefig(file, dpi=150)
    plt.close(figure)


def _over_steps(axes: Any, standings: Standings) -> None:
    lines: defaultdict[str, list[Standing]] = defaultdict(list)
    for one in standings.players:
        if one.policy is not None and one.policy != BASE and one.step:
            lines[one.policy].append(one)
    others = [one for one in standings.players if not (one.policy is not None and one.policy != BASE and one.step)]
    bases = [one for one in others if one.policy == BASE]
    span = max(one.step or 0 for states in lines.values() for one in states)
    for number, (policy, states) in enumerate(sorted(lines.items())):
        # Every policy began as its base; where there are several bases, which one is not told apart here.
        states = sorted([*(bases if len(bases) == 1 else ()), *states], key=lambda one: one.step or 0)
        aside = 0.008 * span * (number - (len(lines) - 1) / 2)  # so that intervals do not hide each other
        steps, ratings = [(one.step or 0) + aside for one in states], [one.rating.value for one in states]
        look = {"color": _COLOURS[number % len(_COLOURS)], "marker": "o", "ms": 4, "capsize": 3, "lw": 1.2}
        axes.errorbar(steps, ratings, yerr=_errors(states), label=_shown(policy), **look)
    axes.xaxis.get_major_locator().set_params(integer=True)
    for one in others:
        axes.axhline(one.rating.value, color="#888888", lw=0.8, ls="--", zorder=0)
        axes.annotate(
            _shown(one.label), (1.0, one.rating.value), xycoords=("axes fraction", "data"), xytext=(4, 0),
            textcoords="offset points", va="center", fontsize=8, color="#555555",
        )  # fmt: skip
    low, high = min(one.rating.low for one in standings.players), max(one.rating.high for one in standings.players)
    axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    axes.set_xlabel("training steps")
    axes.set_ylabel("rating (bars: 95 %)")
    axes.legend(frameon=False)


def _side_by_side(axes: Any, standings: Standings) -> None:
    players = standings.players[::-1]
    axes.errorbar(
        [one.rating.value for one in players], range(len(players)), xerr=_errors(players), fmt="o", color=_COLOURS[0], capsize=3
    )
    axes.set_yticks(range(len(players)), [_shown(one.label) for one in players])
    axes.set_ylim(-0.6, len(players) - 0.4)
    axes.set_xlabel("rating (bars: 95 %)")


def _shown(name: str) -> str:
    return printable(name, limit=MOST_CHARACTERS).replace("\n", " ")


def _errors(states: Any) -> list[list[float]]:
    return [
        [one.rating.value - one.rating.low for one in states],
        [one.rating.high - one.rating.value for one in states],
    ]
