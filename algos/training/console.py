"""What a person sees in the terminal while a run goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from agon_env.printable import printable
from algos.training.live import LiveSteps, PlainSteps, StepDisplay, is_duel


def labels(roles: Sequence[str]) -> dict[str, str]:
    """Return metric → how it is called in the table of a contest with these roles."""
    if is_duel(roles):
        return {
            "draft_pass1": "drafts right (pass@1)",
            "answer_pass1": "answers right (pass@1)",
            "fix_rate": "fix rate: wrong draft → right",
            "break_rate": "break rate: right draft → wrong",
        }
    if len(roles) == 1:
        return {"answer_pass1": "answers right (pass@1)"}
    return {"draft_pass1": f"mean score of the {roles[0]}", "answer_pass1": f"mean score of the {roles[-1]}"}


class RunConsole:
    """Banner, live progress and the table at the end.

    On a terminal the progress is drawn anew in its place; elsewhere, and where the variable CI is set, it is a plain line
    per step.
    """

    def __init__(self, console: Console | None = None) -> None:
        """Print to `console`; default: standard output."""
        self.console = console or Console(highlight=False)
        self.live = self.console.is_interactive and not os.environ.get("CI")

    def say(self, text: str) -> None:
        """Print a line; characters of it that would act on the terminal are shown as what they are."""
        self.console.print(_text(text), soft_wrap=True)  # a path that is broken over lines can't be copied

    def banner(self, title: str, facts: Mapping[str, str]) -> None:
        """Print what is about to happen."""
        table = Table(
            title=_text(title), title_justify="left", show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0)
        )
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, fact in facts.items():
            table.add_row(_text(name), _text(fact))
        self.console.print(table)
        self.console.print()

    @contextmanager
    def progress(self, what: str, total: int, *, done: int = 0) -> Iterator[Ticker]:
        """Show a live line while `total` units of work are done; the ticker moves it on."""
        if not self.live:
            yield Ticker(None, self, what, total)
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[note]}", markup=False),
        )
        with Progress(*columns, console=self.console) as bar:
            task = bar.add_task(what, total=total, completed=done, note="")
            yield Ticker((bar, task), self, what, total)

    @contextmanager
    def training(self, total: int, *, done: int = 0, policies: Sequence[str], roles: Sequence[str]) -> Iterator[StepDisplay]:
        """Show the steps of a run while they are made.

        Args:
            total: how many steps there will be.
            done: how many of them are done already.
            policies: who is trained.
            roles: of the contest.
        """
        if not self.live:
            yield PlainSteps(self.say, total, done=done, roles=roles)
            return
        steps = LiveSteps(self.console, total, done=done, policies=policies, roles=roles)
        with Live(steps, console=self.console, refresh_per_second=4):
            yield steps

    def before_after(self, before: Mapping[str, Any], after: Mapping[str, Any], *, roles: Sequence[str], title: str) -> None:
        """Print the figures before and after, with their 95 % intervals."""
        table = Table(title=_text(title), title_justify="left")
        table.add_column("held-out problems")
        for name in ("before", "after", "change"):
            table.add_column(name, justify="right")
        for key, label in labels(roles).items():
            if key in before or key in after:
                table.add_row(_text(label), _share(before, key), _share(after, key), _change(before, after, key))
        if "mean_tokens" in before and "mean_tokens" in after:
            old, new = before["mean_tokens"], after["mean_tokens"]
            table.add_row("tokens per completion", f"{old:.1f}", f"{new:.1f}", f"{new - old:+.1f}")
        for key, label in {"forfeits": "contests that ended by a forfeit", "truncated": "texts that were cut off"}.items():
            if max(before.get(key, 0), after.get(key, 0)) > 0:
                table.add_row(label, *(f"{100 * evaluation.get(key, 0):.1f} %" for evaluation in (before, after)), "")
        table.add_row("contests", str(before["n"]), str(after["n"]), "")
        self.console.print(table)


class Ticker:
    """Moves a progress line on."""

    def __init__(self, bar: tuple[Progress, Any] | None, console: RunConsole, what: str, total: int) -> None:
        """Tick `bar`, or print plain lines if there is none."""
        self._bar, self._console, self._what, self._total = bar, console, what, total

    def __call__(self, done: int, note: str = "") -> None:
        """Say that `done` units are done."""
        if self._bar is not None:
            bar, task = self._bar
            bar.update(task, completed=done, note=note)
        else:
            self._console.say(f"{self._what} {done}/{self._total}  {note}".rstrip())

    def sampling(self, ended: int, rows: int) -> None:
        """Say how far the sampling of a batch is; shown on the live line alone."""
        if self._bar is not None:
            bar, task = self._bar
            bar.update(task, note=f"sampled {ended}/{rows}")


def _text(text: str) -> Text:
    """Return a text that may quote a file or a game: square brackets in it are not markup, and no character acts."""
    return Text(printable(text))


def _share(evaluation: Mapping[str, Any], key: str) -> str:
    if key not in evaluation:
        return "–"
    low, high = evaluation["ci95"][key]
    return f"{100 * evaluation[key]:5.1f} % [{100 * low:.0f}–{100 * high:.0f}]"


def _change(before: Mapping[str, Any], after: Mapping[str, Any], key: str) -> str:
    return f"{100 * (after[key] - before[key]):+.1f}" if key in before and key in after else ""
