"""The seam between tasks and whatever checks their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agon_env.types import Reward


@dataclass(frozen=True)
class Verdict:
    """What a verifier says of one completion."""

    score: Reward
    """In [0, 1]; None when it could not be computed (a time-out, a gold that can't be read)."""
    extracted: str | None
    """The final answer that was found in the text."""
    reason: str
    """One of a verifier's few words, for example "equal", "different", "no answer", "timeout"."""


class Verifier(Protocol):
    """Checks final answers against golds; safe against any text and from any thread."""

    def score(self, completion: str, gold: str) -> Verdict:
        """Judge one completion."""
        ...

    def extract(self, completion: str, gold: str) -> str | None:
        """Return the final answer that `score` would judge, cut where it is too long; None if there is none."""
        ...

    def score_many(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        """Judge many `(completion, gold)` pairs, in order."""
        ...
