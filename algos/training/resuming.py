"""What may differ when a run goes on, and what it means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from algos.config import TrainConfig
from algos.errors import ConfigError

MAY_CHANGE = {
    "steps": "the run ends after another number of steps; a learning rate that decays reaches 0 there",
    "sample_budget": "the run ends after another number of sampled tokens",
    "eval_every": "evaluations while training come at other steps",
    "checkpoint_every": "checkpoints come at other steps",
    "keep_checkpoints": "another number of checkpoints is kept",
    "keep_transcripts": "contests.jsonl holds other steps from here on",
    "guards": "warnings come at other bounds, and updates are left out at others",
    "log": "metrics go to other services from here on",
    "output_dir": "nothing: the run stays in its folder",
    "name": "nothing: the run stays in its folder",
    "max_rows": "other rows are sampled side by side; their texts are the same up to rounding",
    "threads": "sums are made in another order: the run is the same up to rounding, not to the last bit",
    "ranks": "sums are made in another order: the run is the same up to rounding, not to the last bit",
    "staleness": "contests are played with policies of another age",
    "ray": "contests are played elsewhere, in other batches: their texts are the same up to rounding",
    "device": "the numbers are those of another machine: the run is the same up to rounding, not to the last bit",
}
"""Settings that may differ when a run goes on, and what that means. They change no step that was done."""


def check_same_run(config: TrainConfig, before: TrainConfig) -> list[str]:
    """Compare the config that a run goes on with to the one that it was begun with.

    Returns:
        A sentence for each setting that differs: what it was, what it is, what that means.

    Raises:
        ConfigError: one differs that can't; the message names all of them.
    """
    changed = dict(_differences(before, config))
    fixed = {name: values for name, values in changed.items() if _section(name) not in MAY_CHANGE}
    if fixed:
        told = "; ".join(f"{name} was {then!r} and can't become {now!r}" for name, (then, now) in fixed.items())
        raise ConfigError(
            f"{told} in the middle of a run, whose steps so far were made that way: begin a new one. When a run goes on, only "
            f"these may change: {', '.join(MAY_CHANGE)}"
        )
    return [f"{name} was {then!r} and is {now!r} now: {MAY_CHANGE[_section(name)]}" for name, (then, now) in changed.items()]


def _differences(before: Any, now: Any, *, within: str = "") -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Yield the settings in which two configs differ, for example `optim.learning_rate`, and their values."""
    for field in fields(before):
        then, since = getattr(before, field.name), getattr(now, field.name)
        if is_dataclass(then) and type(then) is type(since):
            yield from _differences(then, since, within=f"{within}{field.name}.")
        elif then != since:
            yield f"{within}{field.name}", (then, since)


def _section(name: str) -> str:
    return name.partition(".")[0]
