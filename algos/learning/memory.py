"""Memory: the peak between two moments, of the GPU where the model is on one, else of this process; and running out of it."""

from __future__ import annotations

import contextlib
import gc
import resource
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import torch

from algos.errors import OutOfMemory
from algos.types import Row

T = TypeVar("T")
GIB = 2**30
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class PeakMemory:
    """The most memory since the last `reset`, in GiB."""

    def __init__(self, device: torch.device) -> None:
        """Watch the memory that counts on `device`: what torch has allocated on a GPU, else what this process occupies."""
        self.device = device

    def reset(self) -> None:
        """Begin anew. Where the system can't forget a process's peak (outside Linux), the peak is since its start."""
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            return
        with contextlib.suppress(OSError):
            _CLEAR.write_text("5", encoding="ascii")

    def peak(self) -> float:
        """Return the most memory since the last reset."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device) / GIB
        resident = _resident("VmHWM")
        if resident is not None:
            return resident
        largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return largest * (1 if sys.platform == "darwin" else 1024) / GIB

    def now(self) -> float:
        """Return the memory in use."""
        if self.device.type == "cuda":
            return torch.cuda.memory_allocated(self.device) / GIB
        resident = _resident("VmRSS")
        return self.peak() if resident is None else resident


def _resident(field: str) -> float | None:
    try:
        lines = _STATUS.read_text(encoding="utf-8").split("\n")
    except OSError:
        return None
    values = [line.split()[1] for line in lines if line.startswith(f"{field}:")]
    return int(values[0]) * 1024 / GIB if values else None


class TokenBudget:
    """Most tokens of a micro-batch: half as many from the moment on at which there was no memory for them."""

    def __init__(self, tokens: int) -> None:
        """Begin with so many."""
        self.tokens = tokens

    def fit(
        self,
        compute: Callable[[], T],
        *,
        what: str,
        rows: Sequence[Row],
        undo: Callable[[], None] = lambda: None,
        once_more: bool = True,
    ) -> T:
        """Compute something; where there is no memory for it, once more, with micro-batches of half the size.

        Args:
            compute: goes through `rows` in micro-batches of at most `tokens`; their size changes nothing in the result.
            what: its name in an error, for example "an update of 'alice'".
            rows: what it goes through, for the sizes in an error.
            undo: called after every error, so that nothing half done is left.
            once_more: whether it can be begun again.

        Raises:
            OutOfMemory: there is no memory for the smaller ones either.
        """
        while True:
            try:
                return compute()
            except BaseException as error:
                undo()
                if not is_out_of_memory(error):
                    raise
                if not once_more:
                    longest = max((len(row.prompt_ids) + len(row.completion_ids) for row in rows), default=0)
                    raise OutOfMemory(
                        f"{what} does not fit into the memory, in micro-batches of {self.tokens} tokens: {len(rows)} rows, the "
                        f"longest of {longest} tokens ({error}). Set optim.recompute, a smaller optim.token_budget or "
                        "optim.logit_chunk, or a smaller max_tokens"
                    ) from error
            # out of the handler, whose traceback holds what there is no memory for
            free_memory()
            self.tokens = max(1, self.tokens // 2)
            once_more = False


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that there was no memory for what was asked, on a GPU or on a CPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "not enough memory" in str(error)  # torch's allocator on a CPU


def free_memory() -> None:
    """Give back what is not used any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
