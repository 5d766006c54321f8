"""`TextSpace`: the space of Unicode texts, for the views that need Gymnasium spaces."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Space

_SAMPLED = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 \n.,+-*/=()[]{}<>|\\_é日🙂"
_SAMPLED_LENGTH = 40


class TextSpace(Space[str]):
    """Any Unicode text, from the empty one up to `max_length` characters.

    `gymnasium.spaces.Text` holds a character set, by default without space and line feed, and neither the
    empty text; with all of Unicode it takes seconds to build. Samples are short and seeded.
    """

    def __init__(self, max_length: int, *, seed: int | np.random.Generator | None = None) -> None:
        """Make the space of texts of up to `max_length` characters."""
        if max_length < 0:
            raise ValueError(f"max_length must not be negative, it is {max_length}")
        self.max_length = max_length
        super().__init__(shape=None, dtype=str, seed=seed)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Return a short text; `mask` and `probability` have no meaning here."""
        if mask is not None or probability is not None:
            raise ValueError("a TextSpace takes neither a mask nor a probability")
        length = int(self.np_random.integers(min(self.max_length, _SAMPLED_LENGTH) + 1))
        return "".join(_SAMPLED[i] for i in self.np_random.integers(len(_SAMPLED), size=length))

    def contains(self, x: Any) -> bool:
        """Return whether `x` is a text that is short enough."""
        return isinstance(x, str) and len(x) <= self.max_length

    @property
    def is_np_flattenable(self) -> bool:
        """False: a text has no fixed shape."""
        return False

    def __repr__(self) -> str:
        return f"TextSpace({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextSpace) and self.max_length == other.max_length
