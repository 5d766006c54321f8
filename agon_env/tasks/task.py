"""`Problem` and `Task`: where the questions of a contest come from.

A task is a read-only sequence of problems with random access, finite (a data set) or endless (a generator:
`problem = f(seed, index)`), together with the verifier that judges answers to it.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from agon_env.verifiers.verdict import Verifier

Split = Literal["train", "test"]

TEST_SHARE = 10
"""One question in ten is held out."""


@dataclass(frozen=True)
class Problem:
    """One question with its answer."""

    id: str
    """Names the problem within its task; stable between runs."""
    question: str
    answer: str
    """The gold, in the form that the task's verifier takes."""
    difficulty: float | None = None
    topic: str | None = None
    instruction: str | None = None
    """What follows this question in a prompt, where it is not the task's instruction."""
    meta: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Task(Protocol):
    """A source of problems."""

    name: str
    source: str
    """Where the problems come from, for people: a data set's id, a file, "embedded sample of …"."""
    instruction: str
    """What follows the question in a prompt, for example how to mark the final answer."""
    verifier: Verifier

    @property
    def size(self) -> int | None:
        """Number of problems; None for an endless task."""
        ...

    def __getitem__(self, index: int) -> Problem:
        """Return a problem. Any index ≥ 0 is allowed: a finite task begins again after its last one."""
        ...

    def solution(self, problem: Problem) -> str:
        """Return a full, correct answer text."""
        ...


def normalise_question(question: str) -> str:
    """Return the question without differences of case, spacing, width and punctuation that do not change it."""
    text = unicodedata.normalize("NFKC", question).casefold()
    return re.sub(r"\s+", " ", text).strip(" .?!")


def split_of(question: str) -> Split:
    """Return the split that a question belongs to, by a stable hash of its normalised text.

    The same question is in the same split in every data set, process and version, so that training and
    held-out problems never share one.
    """
    digest = hashlib.sha256(normalise_question(question).encode("utf-8", "surrogatepass")).digest()
    return "test" if int.from_bytes(digest[:8], "big") % TEST_SHARE == 0 else "train"
