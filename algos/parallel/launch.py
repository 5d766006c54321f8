"""Starts the ranks of a run on this machine: what torchrun does, without another command and with the errors as they were."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import torch
import torch.multiprocessing as multiprocessing
from torch.multiprocessing import ProcessExitedException

from algos.errors import ConfigError, RankLost
from algos.parallel.ranks import Ranks, portable

T = TypeVar("T")

GRACE = 10.0
"""Seconds that the other ranks get to end when one has failed; they may wait for it in vain."""


def launched() -> bool:
    """Return whether a launcher has started this process as one of several ranks."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def launch(work: Callable[..., T], *args: Any, ranks: int) -> T:
    """Call `work(*args)` in `ranks` new processes that have joined each other; returns what the first rank returned.

    SIGINT and SIGTERM are passed on to every rank, once each.

    Args:
        work: a function at the top of a module.
        args: can be pickled.
        ranks: how many.

    Raises:
        ConfigError: there are fewer GPUs than ranks.
        Exception: what the rank raised that failed first.
        RankLost: a rank has died without a word.
    """
    if 0 < torch.cuda.device_count() < ranks:
        raise ConfigError(f"ranks={ranks} needs as many GPUs; here are {torch.cuda.device_count()}")
    outcomes = multiprocessing.get_context("spawn").SimpleQueue()
    context = multiprocessing.start_processes(
        _rank, (ranks, _free_port(), outcomes, work, args), nprocs=ranks, join=False, start_method="spawn"
    )
    assert context is not None
    found: dict[int, tuple[Any, BaseException | None]] = {}
    with _signals_passed_on(context.pids()):
        while not _joined(context) or not outcomes.empty():
            while not outcomes.empty():
                number, returned, failed = outcomes.get()
                found[number] = returned, failed
                if failed is not None:
                    # Where one has died, the others complain that they can't reach it.
                    dead = [rank for rank, process in enumerate(context.processes) if process.exitcode]
                    lost = _lost(context, dead[0]) if dead else None
                    _end(context)
                    raise lost or failed
    result: T = found[0][0]
    return result


def _rank(number: int, size: int, port: int, outcomes: Any, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    os.setpgid(0, 0)  # a terminal's Ctrl-C reaches the launcher alone, which passes it on
    os.environ |= {
        **{"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": str(size)},
        **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
    }
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, torch.get_num_threads() // size))  # the ranks share the cores of this machine
    returned = failed = None
    try:
        Ranks.join()
        returned = work(*args)
    except (Exception, KeyboardInterrupt) as error:  # told to the launcher, who raises it
        failed = portable(error)
    outcomes.put((number, returned, failed))
    if failed is None:
        Ranks.leave()


def _joined(context: Any) -> bool:
    """Wait a moment; return whether all ranks have ended."""
    try:
        return bool(context.join(timeout=0.1, grace_period=GRACE))
    except ProcessExitedException as error:
        raise _lost(context, error.error_index) from None


def _lost(context: Any, rank: int) -> RankLost:
    code = context.processes[rank].exitcode
    how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    why = " (the system does that when memory runs out)" if code == -signal.SIGKILL else ""
    return RankLost(
        f"rank {rank} of {len(context.processes)} was {how}{why}, so the others were stopped. Go on from the last checkpoint: "
        "--resume FOLDER"
    )


def _end(context: Any) -> None:
    """Wait a little for all ranks, then kill those that are left."""
    for process in context.processes:
        process.join(GRACE)
        if process.is_alive():
            process.kill()
            process.join()


@contextmanager
def _signals_passed_on(pids: list[int]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return

    def pass_on(number: int, frame: object) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
