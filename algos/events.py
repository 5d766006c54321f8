"""`Event`: something that should not have happened in a run, which goes on; the run counts and logs it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal[
    "row_not_finite",
    "update_not_finite",
    "logprob_mismatch",
    "entropy_collapse",
    "length_collapse",
    "cut_off",
    "equal_answers",
    "one_winner",
    "held_out_falls",
    "disk_nearly_full",
    "out_of_memory",
    "agent_fault",
    "checkpoint_skipped",
]
"""What happened; docs/trust.md says what each means and what to try."""


@dataclass(frozen=True)
class Event:
    """One event, as a line of `events.jsonl` tells it."""

    step: int
    """Counted from 0, as everywhere in the files of a run."""
    kind: Kind
    message: str
    """What happened, and what to try."""
    policy: str | None = None
    """Whom it is about; None for the whole run."""
    rows: tuple[int, ...] = ()
    """Which rows of the policy's update, where single ones are to blame."""
    file: str | None = None
    """A file in the run's folder that holds more."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; the step comes first."""
        return asdict(self)
