"""The price of length: a component of the reward that a completion's number of tokens costs.

It is a part of the training, not of the game: the contest's outcome does not know of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from algos.types import Turn

COMPONENT = "length"
"""Name of the component, logged as `<policy>/reward_length`."""


@dataclass(frozen=True)
class LengthPenalty:
    """What the tokens of a completion cost."""

    kind: Literal["none", "overlong", "linear"] = "none"
    """"overlong": rises from 0 to `cost` over the last `buffer` tokens before `max_tokens` (DAPO's soft overlong
    punishment, arXiv 2503.14476). "linear": every token costs `cost`."""
    cost: float = 1.0
    """The price of a completion of `max_tokens` tokens ("overlong"), or of one token ("linear")."""
    buffer: int | None = None
    """Tokens over which "overlong" rises; None: a fifth of `max_tokens`."""

    def __post_init__(self) -> None:
        if self.kind not in ("none", "overlong", "linear"):
            raise ValueError(f'kind must be "none", "overlong" or "linear", not {self.kind!r}')
        if not self.cost >= 0:
            raise ValueError(f"cost must be a number ≥ 0, not {self.cost}")
        if self.buffer is not None and self.buffer < 1:
            raise ValueError(f"buffer must be at least 1 token, not {self.buffer}")

    def __call__(self, tokens: int, *, max_tokens: int) -> float:
        """Return what a completion of `tokens` tokens is paid for its length: 0 or less."""
        if self.kind == "linear":
            return -self.cost * tokens
        if self.kind == "overlong":
            buffer = self.buffer or max(1, max_tokens // 5)
            return -self.cost * min(1.0, max(0, tokens - (max_tokens - buffer)) / buffer)
        return 0.0


def penalise_length(turns: Sequence[Turn], penalty: LengthPenalty, *, max_tokens: int) -> list[Turn]:
    """Return the turns with the price of their own length as one more component of their reward.

    Turns without tokens, and rewards that could not be computed, stay as they are. So does everything where there is
    no penalty.
    """
    if penalty.kind == "none":
        return list(turns)
    return [_penalised(turn, penalty, max_tokens) for turn in turns]


def _penalised(turn: Turn, penalty: LengthPenalty, max_tokens: int) -> Turn:
    if turn.completion is None or turn.reward is None:
        return turn
    price = penalty(len(turn.completion.token_ids), max_tokens=max_tokens)
    return replace(turn, reward=turn.reward + price, components={**turn.components, COMPONENT: price})
