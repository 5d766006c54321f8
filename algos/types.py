"""What travels through an algorithm, in the order in which it appears.

`Turn`   one move of one policy in one contest: what it read, what it said, what it was paid.
`Row`    one training sequence: a turn with its advantage, as the learner takes it; `ValueRow`, as a critic does.
`Stats`  flat metrics of an update.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from agents.sampling import Completion
from agon_env.types import Reward

Stats: TypeAlias = dict[str, float]


@dataclass(frozen=True)
class Turn:
    """One move of one policy."""

    player: str
    policy: str | None
    """Name of the policy that moved; None for a player that is no policy."""
    role: str
    problem: Hashable
    """Names the starting position: contests with the same value began alike."""
    parent: Hashable
    """Names the position that the move was made in, for example one problem with one draft."""
    prompt_ids: tuple[int, ...]
    """What the policy read; empty for a player that has no tokens."""
    completion: Completion | None
    """What the policy sampled; None for a player that has no tokens."""
    text: str
    reward: Reward
    components: Mapping[str, Reward]
    score: Reward
    later: float = 0.0
    """Turns that the player had afterwards in the contest; the mean over contests that branched off from here."""
    values: tuple[float, ...] = ()
    """With a critic: what it expects of the contest before each token, and after the last one unless the contest is
    over then."""
    contests: tuple[int, ...] = ()
    """With a critic: numbers of the contests of this step that passed through the move."""
    unfinished: frozenset[int] = frozenset()
    """With a critic: those of `contests` that `max_turns` cut short."""


@dataclass(frozen=True)
class Row:
    """One sequence to learn from."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    old_logprobs: tuple[float, ...]
    """Log-probabilities of the completion under the policy that sampled it: the denominator of the ratio."""
    advantage: float
    ref_logprobs: tuple[float, ...] | None = None
    """Log-probabilities under the frozen base; needed only with a KL term."""
    weights: tuple[float, ...] | None = None
    """A constant factor of each token's loss, the KL term excepted; see `algos.importance`. None: 1."""
    advantages: tuple[float, ...] | None = None
    """One advantage per token; they take the place of `advantage`. None: every token has that one."""

    @property
    def has_signal(self) -> bool:
        """Whether any token has an advantage other than 0."""
        return any(self.advantages) if self.advantages is not None else self.advantage != 0


@dataclass(frozen=True)
class ValueRow:
    """One turn for a critic to learn from."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    values: tuple[float, ...]
    """What it said of the states."""
    returns: tuple[float, ...]
    """What it should have said."""


@dataclass(frozen=True)
class Batch:
    """Rows of one policy for one optimiser step. The loss is their mean: leave out what is not to be counted."""

    rows: tuple[Row, ...]
    temperature: float = 1.0
    """The temperature that the rows were sampled at; log-probabilities are taken at it."""
    normalizer: float | None = None
    """What the sum of the losses is divided by; see `algos.losses.count_normalizer`. None: counted from the rows.
    Of a batch in several parts, each part carries the count of the whole."""

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"the temperature must be above 0, not {self.temperature}; what was sampled at 0 is scored at 1")
        if self.normalizer is not None and not self.normalizer > 0:
            raise ValueError(f"normalizer must be above 0, or None to count the rows, not {self.normalizer}")
