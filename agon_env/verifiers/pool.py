"""A small pool of worker processes that can be killed: a comparison that hangs costs one verdict, not the run.

The pool belongs to the process, not to a verifier: verifiers stay plain data that can be copied and pickled.
Workers start on the first comparison that needs one, and end with the process. They are started by `Popen`,
neither forked from a process that holds threads nor dependent on an importable `__main__`.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

START_SECONDS = 60.0
"""What a worker may take to start (it imports sympy), before it counts as broken."""
LOOK_SECONDS = 0.5
"""How often whoever waits for a reply looks whether the worker still lives."""


class WorkerTimeout(Exception):
    """The comparison did not end by its deadline; its worker was killed."""


class WorkerFailed(Exception):
    """The comparison ended with an error, or took its worker down."""


class Worker:
    """One process; `ask` is called by one thread at a time."""

    def __init__(self, module: str) -> None:
        """Start the process.

        Args:
            module: what it runs; its `main` calls `agon_env.verifiers.worker.serve`.
        """
        self.module = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            start_new_session=True,  # Ctrl-C is for the main process, which may want to finish its work
            text=True,
            encoding="utf-8",
        )
        self._replies: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, name="agon-verifier", daemon=True).start()
        self._ready = False

    def wait_until_ready(self) -> None:
        """Wait for the imports of a new process.

        Raises:
            RuntimeError: it did not start.
        """
        if not self._ready:
            try:
                self._reply(START_SECONDS)
            except (WorkerTimeout, WorkerFailed) as error:
                raise RuntimeError(
                    f"the process that checks answers did not start ({error}); to see why, run: "
                    f"{sys.executable} -m {self.module} </dev/null"
                ) from error
            self._ready = True

    def ask(self, request: dict[str, Any], deadline: float) -> Any:
        """Return the reply to one request.

        Raises:
            WorkerTimeout: none came within `deadline` seconds.
            WorkerFailed: the process reported an error or died.
        """
        try:
            assert self._process.stdin
            self._process.stdin.write(json.dumps(request | {"deadline": deadline}) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise WorkerFailed("the worker is gone") from error
        reply = self._reply(deadline)
        if "error" in reply:
            raise WorkerFailed(reply["error"])
        return reply["result"]

    @property
    def alive(self) -> bool:
        """True while the process runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _reply(self, seconds: float) -> Any:
        end = time.monotonic() + seconds
        while True:
            dead = not self.alive  # asked first: what it said before it died is in the queue soon
            try:
                line = self._replies.get(timeout=max(0.0, min(LOOK_SECONDS, end - time.monotonic())))
                break
            except queue.Empty:
                if dead:  # and some other process has inherited its pipe, which therefore does not end
                    raise WorkerFailed("the worker died") from None
                if time.monotonic() >= end:
                    raise WorkerTimeout(f"no reply within {seconds:.1f} s") from None
        if line is None:
            raise WorkerFailed("the worker died")
        return json.loads(line)

    def _read(self) -> None:
        # a thread, because a pipe can't be waited for with a time limit on every platform
        with contextlib.suppress(OSError, ValueError):
            for line in self._process.stdout or ():
                self._replies.put(line)
        self._replies.put(None)


class WorkerPool:
    """At most `size` workers, started as they are needed and used again."""

    def __init__(self, size: int, module: str = "agon_env.verifiers.worker") -> None:
        """Make a pool; no process starts before it is needed.

        Args:
            size: how many processes there may be.
            module: what they run.
        """
        self.size = size
        self.module = module
        self._slots = threading.BoundedSemaphore(size)
        self._idle: list[Worker] = []
        self._lock = threading.Lock()
        self._all: set[Worker] = set()
        self._proved = False
        """Whether a worker of this pool has ever started."""

    def compare(self, relation: str, gold: Any, answer: Any, *, deadline: float) -> tuple[bool, float]:
        """Return whether `relation` ("equal", "proportional", "positive") holds between two expressions.

        Returns:
            The result, and the seconds it took; waiting for a free worker, or for a new one to start, does not count.

        Raises:
            WorkerTimeout: not decided within `deadline` seconds.
            WorkerFailed: the comparison failed.
        """
        equal, seconds = self.ask({"relation": relation, "gold": gold, "answer": answer}, deadline=deadline)
        return bool(equal), seconds

    def ask(self, request: dict[str, Any], *, deadline: float) -> tuple[Any, float]:
        """Have a worker handle a request.

        Returns:
            The result, and the seconds it took; see `compare`, also for the errors.
        """
        with self._worker() as worker:
            start = time.monotonic()
            return worker.ask(request, deadline), time.monotonic() - start

    @property
    def started(self) -> int:
        """Number of workers that run."""
        with self._lock:
            return len(self._all)

    def close(self) -> None:
        """Kill all workers; the pool can be used again."""
        with self._lock:
            workers, self._all, self._idle = self._all, set(), []
        for worker in workers:
            worker.kill()

    @contextlib.contextmanager
    def _worker(self) -> Iterator[Worker]:
        with self._slots:
            with self._lock:
                worker = self._idle.pop() if self._idle else None
            if worker is None or not worker.alive:
                self._drop(worker)
                worker = self._start()
            healthy = False
            try:
                try:
                    worker.wait_until_ready()
                except RuntimeError:  # killed while it started, perhaps: one more may do
                    self._drop(worker)
                    worker = self._start()
                    try:
                        worker.wait_until_ready()
                    except RuntimeError as error:
                        if not self._proved:
                            raise
                        # others have started: what kills them costs a verdict, not the run
                        raise WorkerFailed(str(error)) from error
                self._proved = True
                yield worker
                healthy = True
            except WorkerFailed:
                healthy = worker.alive
                raise
            finally:
                if healthy:
                    with self._lock:
                        self._idle.append(worker)
                else:  # a time-out, or an interrupt in the middle of a reply
                    self._drop(worker)

    def _start(self) -> Worker:
        worker = Worker(self.module)
        with self._lock:
            self._all.add(worker)
        return worker

    def _drop(self, worker: Worker | None) -> None:
        if worker is not None:
            with self._lock:
                self._all.discard(worker)
            worker.kill()


def _environment() -> dict[str, str]:
    """The worker imports what this process imports, in the same order, and computes with one thread."""
    root = str(Path(__file__).resolve().parents[2])
    paths = [os.path.abspath(path) for path in sys.path if path]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(paths if root in paths else [*paths, root]),
        "PYTHONSAFEPATH": "1",
        "PYTHONIOENCODING": "utf-8",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",  # generators of problems that run through sets do so in the same order
    }


def shared_pool() -> WorkerPool:
    """Return the pool of this process that compares formulas."""
    return pool_of(_MATH)


def resize(workers: int) -> None:
    """Have the pool of this process use up to `workers` processes."""
    shared_pool().close()
    _pools[_MATH] = WorkerPool(workers)


def pool_of(module: str) -> WorkerPool:
    """Return the pool of this process whose workers run `module`."""
    if module not in _pools:
        _pools[module] = WorkerPool(max(1, min(4, (os.cpu_count() or 2) // 2)), module)
    return _pools[module]


_MATH = "agon_env.verifiers.worker"
_pools: dict[str, WorkerPool] = {}


def _close_all() -> None:
    for pool in _pools.values():
        pool.close()


def _after_fork() -> None:
    _pools.clear()  # the workers of the parent answer the parent


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
