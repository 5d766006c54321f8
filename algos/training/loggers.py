"""Where the metrics of a run go beside its own `metrics.jsonl`: TensorBoard, Weights & Biases, trackio.

A `Logger` is four methods and `close`. Each shows texts as texts: whatever a model writes can't become markup.
"""

from __future__ import annotations

import html
import importlib
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Protocol, TypeAlias

from agents.errors import DependencyNotInstalled
from agon_env.printable import printable

LoggerName: TypeAlias = Literal["tensorboard", "wandb", "trackio"]

PROJECT = "agon-env"
"""What runs are filed under where a service has projects; WANDB_PROJECT and TRACKIO_PROJECT overrule it."""
LONGEST = 50_000
"""Characters of a text that are shown."""
WIDTH = 120
"""Columns of a text where it is shown without wrapping."""


OVERVIEW: Mapping[str, Sequence[str]] = {
    "right, in training": ["pair/draft_pass1", "pair/answer_pass1"],
    "right, on held-out problems": ["eval/draft_pass1", "eval/answer_pass1"],
    "fixes and breaks": ["pair/fix_rate", "pair/break_rate"],
    "reward": [".*/reward$"],
    "length (tokens)": [".*/length$"],
    "entropy (nats per token)": [".*/entropy$"],
    "distance from the base (nats per token)": [".*/kl_base$"],
    "seconds of a step": ["time/(sample|verify|logprob|update)"],
}
"""Charts of TensorBoard's tab Custom Scalars: title → the metrics that are drawn together."""


@dataclass(frozen=True)
class LoggedRun:
    """What a logger is told of the run that it logs."""

    folder: Path
    config: Mapping[str, Any]
    """The config as plain JSON values."""
    first_step: int = 0
    """What was logged for this step and later ones is logged again."""


class Logger(Protocol):
    """Takes what a run has to show. Steps never go back, unless a run is resumed."""

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Take numbers; what stands before a "/" in a name is its group."""
        ...

    def histograms(self, step: int, samples: Mapping[str, Sequence[float]]) -> None:
        """Take the numbers of many turns under each name."""
        ...

    def text(self, step: int, name: str, text: str) -> None:
        """Take a text, which is shown as it is."""
        ...

    def flush(self) -> None:
        """Make sure that what was taken is written."""
        ...

    def close(self) -> None:
        """Finish writing."""
        ...


class TensorBoard:
    """Event files in the run folder, which `tensorboard --logdir` reads."""

    def __init__(self, run: LoggedRun) -> None:
        """Open the event file of this part of the run."""
        from torch.utils.tensorboard import SummaryWriter

        self._events = SummaryWriter(str(run.folder), purge_step=run.first_step if run.first_step else None)
        charts = {title: ["Multiline", list(metrics)] for title, metrics in OVERVIEW.items()}
        self._events.add_custom_scalars({"overview": charts})

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Draw each as a curve."""
        for name, value in values.items():
            self._events.add_scalar(name, value, step)

    def histograms(self, step: int, samples: Mapping[str, Sequence[float]]) -> None:
        """Draw each as a distribution over the steps."""
        import numpy as np

        for name, values in samples.items():
            if values:
                self._events.add_histogram(name, np.asarray(values, dtype=float), step, bins="auto")

    def text(self, step: int, name: str, text: str) -> None:
        """Show a text in the tab Text."""
        # Four spaces make a code block of every line: Markdown or HTML in it stays text. A code block does not wrap.
        lines = [part for line in _shown(text).split("\n") for part in _wrapped(line)]
        self._events.add_text(name, "".join(f"    {line}\n" for line in lines), step)

    def flush(self) -> None:
        """Write what is buffered."""
        self._events.flush()

    def close(self) -> None:
        """Close the event file."""
        self._events.close()


class Wandb:
    """A run of Weights & Biases; WANDB_PROJECT, WANDB_ENTITY, WANDB_MODE and the like are heeded."""

    def __init__(self, run: LoggedRun) -> None:
        """Begin the run, or go on with it: its id is the name of the folder.

        Raises:
            DependencyNotInstalled: wandb is missing.
        """
        import os

        self._wandb = _imported("wandb")
        self._run = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=_identifier(run.folder.name),
            name=run.folder.name,
            config=dict(run.config),
            dir=str(run.folder),
            resume="allow",
        )

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Log them at `step`."""
        self._run.log(dict(values), step=step)

    def histograms(self, step: int, samples: Mapping[str, Sequence[float]]) -> None:
        """Log them at `step`."""
        self._run.log({name: self._wandb.Histogram(list(values)) for name, values in samples.items() if values}, step=step)

    def text(self, step: int, name: str, text: str) -> None:
        """Log it as a page without markup."""
        page = f'<pre style="white-space: pre-wrap">{html.escape(_shown(text))}</pre>'
        self._run.log({name: self._wandb.Html(page, inject=False)}, step=step)

    def flush(self) -> None:
        """Do nothing: a process of wandb writes."""

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


class Trackio:
    """A run of trackio, kept on this machine unless its TRACKIO_… variables say otherwise."""

    def __init__(self, run: LoggedRun) -> None:
        """Begin the run, or go on with it: it has the name of the folder.

        Raises:
            DependencyNotInstalled: trackio is missing.
        """
        import os

        self._trackio = _imported("trackio")
        project = os.environ.get("TRACKIO_PROJECT", PROJECT)
        self._run = self._trackio.init(project=project, name=run.folder.name, config=dict(run.config), resume="allow")

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Log them at `step`."""
        self._run.log(dict(values), step=step)

    def histograms(self, step: int, samples: Mapping[str, Sequence[float]]) -> None:
        """Log them at `step`."""
        self._run.log({name: self._trackio.Histogram(list(values)) for name, values in samples.items() if values}, step=step)

    def text(self, step: int, name: str, text: str) -> None:
        """Log it as a code block."""
        block = "".join(f"    {line}\n" for line in _shown(text).split("\n"))
        self._run.log({name: self._trackio.Markdown(block)}, step=step)

    def flush(self) -> None:
        """Do nothing: a thread of trackio writes."""

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


LOGGERS: Mapping[LoggerName, Callable[[LoggedRun], Logger]] = {"tensorboard": TensorBoard, "wandb": Wandb, "trackio": Trackio}


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise DependencyNotInstalled(f'--log {name} needs the package {name}: pip install "agon-env[{name}]"') from error


def _identifier(name: str) -> str:
    """Return a name as wandb takes it for an id: at most 128 characters, without those that a path or an address reads."""
    return "".join(character if character.isalnum() or character in "-_." else "_" for character in name)[:128]


def _shown(text: str) -> str:
    return printable(text, limit=LONGEST)


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, WIDTH, replace_whitespace=False, drop_whitespace=False, expand_tabs=False) or [""]
