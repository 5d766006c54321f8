"""What is shown of a run while it trains: figures that move on a terminal, one line per step elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Protocol

from rich import box
from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from agon_env.printable import printable
from algos.types import Stats

WIDE = 110
"""Columns of a terminal from which on more figures are shown."""
PHASES = ("sample", "verify", "logprob", "update")


class StepDisplay(Protocol):
    """Follows the steps of a run."""

    def sampling(self, ended: int, rows: int) -> None:
        """Say how far the sampling of a batch is."""
        ...

    def step(self, done: int, stats: Stats) -> None:
        """Say that so many steps are done, and what the last one's metrics are."""
        ...


class Clock:
    """Tells how long a run will still take, from the steps that it has seen."""

    def __init__(self, total: int, *, done: int) -> None:
        """Start; `done` of `total` steps were made before."""
        self._total, self._before, self._begun = total, done, time.monotonic()

    def left(self, done: int) -> str:
        """Return the time left after `done` steps, in words; nothing when all are done."""
        if done >= self._total or done <= self._before:
            return ""
        seconds = (time.monotonic() - self._begun) / (done - self._before) * (self._total - done)
        return f"{timedelta(seconds=round(seconds))} left"


class PlainSteps:
    """One line per step, for logs."""

    def __init__(self, say: Callable[[str], None], total: int, *, done: int, roles: Sequence[str]) -> None:
        """Print lines with `say`; `done` of `total` steps are done already."""
        self._say, self._total, self._roles = say, total, roles
        self._clock = Clock(total, done=done)

    def sampling(self, ended: int, rows: int) -> None:
        """Do nothing: a log has a line per step."""

    def step(self, done: int, stats: Stats) -> None:
        """Print the line of a step."""
        figures = pair_figures(stats, self._roles)
        for name, key, form in (("length", "length", ".0f"), ("KL to base", "kl_base", ".3f")):
            found = [value for metric, value in stats.items() if metric.endswith(f"/{key}")]
            figures |= {name: format(sum(found) / len(found), form)} if found else {}
        parts = [f"{name} {value}" for name, value in figures.items()]
        parts += filter(None, [_speed(stats), f"{stats['time/step']:.2f} s/step", self._clock.left(done)])
        self._say(f"step {done}/{self._total}  " + "  ".join(parts))


class LiveSteps:
    """Figures that move: how far the run and its sampling are, and what the last step's metrics are."""

    def __init__(self, console: Console, total: int, *, done: int, policies: Sequence[str], roles: Sequence[str]) -> None:
        """Draw on `console`; `done` of `total` steps are done already."""
        self._console, self._policies, self._roles = console, policies, roles
        self._clock = Clock(total, done=done)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=40 if console.width >= WIDE else 20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
        )
        self._steps = self._progress.add_task("step", total=total, completed=done, note="")
        self._sampled = self._progress.add_task("sampled", total=None, note="")
        self._stats: Stats = {}

    def __rich__(self) -> RenderableType:
        parts: list[RenderableType] = [self._progress.get_renderable()]
        if self._stats:
            parts += [self._table(), self._pair()]
        return Group(*parts)

    def sampling(self, ended: int, rows: int) -> None:
        """Move the bar of the batch that is sampled."""
        self._progress.update(self._sampled, completed=ended, total=rows)

    def step(self, done: int, stats: Stats) -> None:
        """Move on to the next step."""
        self._stats = self._stats | stats  # what only some steps have, such as an evaluation, stays to be seen
        phases = ", ".join(f"{name} {stats[key]:.2f}" for name in PHASES if (key := f"time/{name}") in stats)
        wide = self._console.width >= WIDE
        note = f"{stats['time/step']:.2f} s/step" + (f": {phases}" if wide and phases else "")
        self._progress.update(self._steps, completed=done, note="  ".join(filter(None, [self._clock.left(done), note])))
        self._progress.update(self._sampled, note=_speed(stats))

    def _table(self) -> Table:
        rows = {policy: policy_figures(self._stats, policy, wide=self._console.width >= WIDE) for policy in self._policies}
        columns = dict.fromkeys(name for figures in rows.values() for name in figures)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("")
        for name in columns:
            table.add_column(Text(printable(name)), justify="right", no_wrap=True)
        for policy, figures in rows.items():
            table.add_row(Text(printable(policy), style="bold"), *(figures.get(name, "–") for name in columns))
        return table

    def _pair(self) -> Text:
        line = Text()
        for name, value in pair_figures(self._stats, self._roles).items():
            line.append(f"{printable(name)} ").append(value, style="bold").append("   ")
        return line


def pair_figures(stats: Stats, roles: Sequence[str]) -> dict[str, str]:
    """Return what happened between the players, in words: name → value; what a step does not have is left out."""
    duel = is_duel(roles)
    shares = {"draft" if duel else roles[0]: "pair/draft_pass1", "answer" if duel else roles[-1]: "pair/answer_pass1"}
    shares |= {"fix": "pair/fix_rate", "break": "pair/break_rate"} if duel else {}
    shares |= {"held-out": "eval/answer_pass1"}
    return {name: f"{100 * stats[key]:.0f} %" for name, key in shares.items() if key in stats}


def policy_figures(stats: Stats, policy: str, *, wide: bool = True) -> dict[str, str]:
    """Return the figures of one policy: name → value; what a step does not have is left out.

    Args:
        stats: metrics of a step.
        policy: its name.
        wide: whether there is room for the less important ones.
    """
    own = {name.removeprefix(f"{policy}/"): value for name, value in stats.items() if name.startswith(f"{policy}/")}
    figures = {"reward": "{:.2f}", **dict.fromkeys(_parts(own), "{:.2f}")}
    figures |= {"length": "{:.0f}", "truncated": "{:.0%}", "kl_base": "{:.3f}", "entropy": "{:.2f}"}
    if wide:
        figures |= {"wins": "{:.0%}", "grad_norm": "{:.2f}", "learning_rate": "{:.1e}", "rows": "{:.0f}"}
    names = {"truncated": "cut off", "kl_base": "KL to base", "grad_norm": "gradient", "learning_rate": "learning rate"}
    return {
        names.get(key, key.removeprefix("reward_")): form.format(own[key]).replace("%", " %")
        for key, form in figures.items()
        if key in own
    }


def _parts(own: Stats) -> list[str]:
    """Return the names of what the reward is made of; the outcome comes first, as rules have it."""
    return sorted((name for name in own if name.startswith("reward_")), key=lambda name: (name != "reward_outcome", name))


def is_duel(roles: Sequence[str]) -> bool:
    """Return whether one drafts and the other answers, so that one can speak of fixes and breaks."""
    return tuple(roles) == ("drafter", "challenger")


def _speed(stats: Stats) -> str:
    return f"{stats['time/tokens_per_second']:,.0f} tokens/s" if "time/tokens_per_second" in stats else ""
