"""`OwnRandomness`: library code that draws from the global generators, kept to generators of its own."""

from __future__ import annotations

import contextlib
import io
import random
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

_one_at_a_time = threading.RLock()


class OwnRandomness:
    """The states of Python's and NumPy's global generators as one contest sees them; a plain value, easy to copy.

    Example:
        ```python
        own = OwnRandomness(seed=3)
        with own.swapped_in():
            random.random()  # the first draw of seed 3; the next block goes on from there
        ```
    """

    def __init__(self, seed: int) -> None:
        """Start the generators at `seed`, a non-negative integer."""
        self.python = random.Random(seed).getstate()
        self.numpy: Any = np.random.RandomState(np.random.MT19937(seed)).get_state(legacy=False)

    @contextlib.contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Put these states into the global generators for a block, and leave the generators as they were found.

        One block runs at a time in a process. What is printed in it is dropped.
        """
        with _one_at_a_time, _untouched_generators():
            random.setstate(self.python)
            np.random.set_state(self.numpy)  # noqa: NPY002 - the global generator is what the code in the block draws from
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    yield
            finally:
                self.python, self.numpy = random.getstate(), np.random.get_state(legacy=False)  # noqa: NPY002

    def copy(self) -> OwnRandomness:
        """Return generators that go on as these do."""
        twin = object.__new__(OwnRandomness)
        twin.python, twin.numpy = self.python, self.numpy  # states are replaced, never changed
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> OwnRandomness:
        return self.copy()


@contextlib.contextmanager
def _untouched_generators() -> Iterator[None]:
    python, numpy = random.getstate(), np.random.get_state(legacy=False)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
