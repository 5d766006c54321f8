"""Signs that a run is going wrong although every number is fine: it is said once, with what to try.

The windows are compared with the first one of the run. Thresholds lie far outside of what healthy runs do: the entropy of
the embedded model falls to 40 % of its start when it learns to be right, and not to 10 %.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from algos.events import Event, Kind
from algos.types import Stats

ENTROPY_LEFT = 0.1
"""Share of the first window's entropy below which a policy counts as collapsed."""
LENGTH_LEFT = 0.25
"""The same of its length."""
CUT_OFF = 0.5
"""Share of completions that are cut off from which on little can be learned."""
WINS_ALL = 0.95
"""Share of contests that one seat, or one policy, wins when there is no contest any more."""
SIGMA = 3.0
"""Standard errors by which held-out figures must have fallen."""


class CollapseWatch:
    """Keeps means over windows of steps, and tells each sign once."""

    def __init__(self, window: int, *, eval_problems: int) -> None:
        """Begin.

        Args:
            window: steps; 0 looks for nothing.
            eval_problems: how many problems a held-out figure is of; 0 where it measures no progress, and isn't watched.
        """
        self.window, self.eval_problems = window, eval_problems
        self._recent: dict[str, deque[float]] = {}
        self._first: dict[str, float] = {}
        self._told: set[str] = set()
        self._best: tuple[float, float] | None = None
        """The best held-out figure so far, and the mean reward of the window before it."""

    def observe(self, step: int, stats: Stats) -> list[Event]:
        """Take in the metrics of a step; return what should be told now."""
        if not self.window:
            return []
        for key, value in stats.items():
            if _watched(key) and math.isfinite(value):
                self._recent.setdefault(key, deque(maxlen=self.window)).append(value)
        if "groups/total" in stats:
            equal = float(stats["groups/total"] == stats["groups/dropped"] > 0)
            self._recent.setdefault("equal", deque(maxlen=self.window)).append(equal)
        means = {key: fmean(values) for key, values in self._recent.items() if len(values) == self.window}
        for key, mean in means.items():
            self._first.setdefault(key, mean)
        events = []
        for kind, subject, message in (*self._signs(means), *self._held_out(stats, means)):
            if (sign := f"{kind}:{subject}") not in self._told:
                self._told.add(sign)
                events.append(Event(step, kind, message, policy=subject))
        return events

    def state(self) -> dict[str, Any]:
        """Return what is kept, as plain JSON values."""
        return {
            "recent": {key: list(values) for key, values in self._recent.items()},
            "first": dict(self._first),
            "told": sorted(self._told),
            "best": self._best,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._recent = {key: deque(values, maxlen=self.window or None) for key, values in state["recent"].items()}
        self._first, self._told = dict(state["first"]), set(state["told"])
        self._best = None if state["best"] is None else tuple(state["best"])

    def _signs(self, means: Mapping[str, float]) -> Iterator[tuple[Kind, str | None, str]]:
        over = f"over {self.window} steps"
        for key, mean in means.items():
            subject, _, what = key.partition("/")
            first = self._first[key]
            if what == "entropy" and mean < ENTROPY_LEFT * first:
                yield (
                    "entropy_collapse",
                    subject,
                    f"the entropy of {subject} is {mean:.2g} nats per token {over}, {mean / first:.0%} of its start: it says "
                    "the same again and again. If its answers are not all right, lower the learning rate, raise loss.kl_coef "
                    "or the temperature, or take more problems in a step",
                )
            elif what == "length" and mean < LENGTH_LEFT * first:
                yield (
                    "length_collapse",
                    subject,
                    f"the texts of {subject} have {mean:.0f} tokens {over}, where they had {first:.0f}: it no longer reasons. "
                    "Look at what it is paid for (contests.jsonl); a length penalty that is too strong does this, and an "
                    "answer format that can be guessed",
                )
            elif what == "truncated" and mean >= CUT_OFF > first:
                yield (
                    "cut_off",
                    subject,
                    f"{mean:.0%} of the texts of {subject} are cut off {over}: raise max_tokens, or set a length penalty",
                )
            elif subject == "pair" and what.startswith("wins_") and mean >= WINS_ALL:
                yield "one_winner", what.removeprefix("wins_"), _one_winner(f"the {what.removeprefix('wins_')}", mean, over)
            elif what == "wins" and mean >= WINS_ALL:
                yield "one_winner", subject, _one_winner(subject, mean, over)
        if means.get("equal") == 1:
            yield (
                "equal_answers",
                None,
                f"for {self.window} steps all turns of every group were paid alike, so nothing was learned: the problems are "
                "too easy or too hard for the model, all its answers are the same, or they are all cut off. Change the "
                "difficulty, raise group_size or the temperature, or look at the texts",
            )

    def _held_out(self, stats: Stats, means: Mapping[str, float]) -> Iterator[tuple[Kind, None, str]]:
        """Compare the reward of training with what it is worth on held-out problems."""
        figure = stats.get("eval/answer_pass1")
        rewards = [mean for key, mean in means.items() if key.endswith("/reward")]
        if figure is None or not rewards or not self.eval_problems:
            return
        reward = fmean(rewards)
        if self._best is None or figure >= self._best[0]:
            self._best = (figure, reward)
            return
        best, reward_then = self._best
        error = math.sqrt((best * (1 - best) + figure * (1 - figure)) / self.eval_problems)
        if figure < best - SIGMA * error and reward > reward_then:
            yield (
                "held_out_falls",
                None,
                f"right answers on held-out problems have fallen from {best:.1%} to {figure:.1%}, while the reward of "
                f"training rose from {reward_then:.3f} to {reward:.3f}: the policies learn to be paid, not to be right. The "
                "best checkpoint is kept; lower the learning rate, raise loss.kl_coef, play against opponents that stand "
                "still (--opponent pool:uniform), or stop here",
            )


def _watched(key: str) -> bool:
    subject, _, what = key.partition("/")
    return what in ("entropy", "length", "truncated", "reward", "wins") or (subject == "pair" and what.startswith("wins_"))


def _one_winner(who: str, share: float, over: str) -> str:
    return (
        f"{who} won {share:.0%} of the contests {over}: whoever always wins or always loses learns nothing. Rotate the seats "
        "(swap_roles), mix in other opponents (--opponent pool:win_rate), or take the outcome rule instead of a zero sum"
    )
