"""The processes of a data-parallel run, and the few things that they tell each other."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from algos.errors import ConfigError

T = TypeVar("T")


def portable(error: BaseException) -> BaseException:
    """Return an error that survives the way to another process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # its class can't be made from its arguments
        return RuntimeError("".join(traceback.format_exception(error)))
    return error


class Ranks:
    """This process among those that learn side by side; by default the only one.

    Every rank does the same at the same time: each method is called by all of them, or by none.
    """

    def __init__(self, number: int = 0, size: int = 1) -> None:
        """Be the rank `number`, counted from 0, of `size`."""
        self.number, self.size = number, size

    @classmethod
    def current(cls) -> Ranks:
        """Return the ranks of the process group that this process is in, if it is in one."""
        return cls(dist.get_rank(), dist.get_world_size()) if _in_a_group() else cls()

    @classmethod
    def join(cls) -> Ranks:
        """Join the process group that a launcher (torchrun, `algos.parallel.launch`) has prepared in the environment.

        Returns:
            The ranks; alone, where there is no launcher.

        Raises:
            ConfigError: the other ranks can't be reached.
        """
        if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ or dist.is_initialized():
            return cls.current()
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        try:
            # Objects go by gloo, also where gradients go by NCCL.
            dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
        except (ValueError, RuntimeError) as error:
            raise ConfigError(f"rank {os.environ['RANK']} can't join the others: {error}") from error
        return cls.current()

    @classmethod
    @contextmanager
    def joined(cls) -> Iterator[Ranks]:
        """Join for the block. Who was in a group before stays in it, and so does who gets into one on the way, as by vLLM."""
        before = _in_a_group()
        ranks = cls.join()
        joined = _in_a_group() and not before
        try:
            yield ranks
        finally:
            if joined:
                cls.leave()

    @staticmethod
    def leave() -> None:
        """Leave the process group, if this process is in one."""
        if _in_a_group():
            dist.destroy_process_group()

    @property
    def first(self) -> bool:
        """Whether this is the rank that writes files and speaks to the user."""
        return self.number == 0

    def gather(self, value: T) -> list[T]:
        """Return the values of all ranks, in their order. They are pickled."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value)
        return found

    def any(self, flag: bool) -> bool:
        """Return whether the flag is set on any rank."""
        return any(self.gather(flag))

    def of_first(self, value: T) -> T:
        """Return the value that the first rank has."""
        return self.gather(value if self.first else None)[0]  # type: ignore[return-value]

    def add_up(self, tensor: Tensor) -> None:
        """Make a tensor the sum of those of all ranks, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)


def _in_a_group() -> bool:
    return dist.is_available() and dist.is_initialized()
