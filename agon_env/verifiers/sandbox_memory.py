"""A bound on the memory of a tree of processes, where no control group bounds it: look again and again, and kill."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
SECONDS = 0.05
"""How often it is looked; between two looks a program may have more."""


class MemoryWatch:
    """Looks after one process and all that descend from it, until `stop`."""

    def __init__(self, pid: int, most: int) -> None:
        """Begin, for the group of processes `pid` and a number of bytes."""
        self._pid = pid
        self._most = most
        self._end = threading.Event()
        self.exceeded = False
        """Whether the processes were killed."""
        self._thread = threading.Thread(target=self._watch, name="agon-memory", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no longer; call it before the process is waited for, as its number may then be another's."""
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(SECONDS):
            if self._used() > self._most:
                self.exceeded = True
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._pid, signal.SIGKILL)
                return

    def _used(self) -> int:
        pids = descendants(self._pid)
        if sum(map(own_memory, pids)) <= self._most:
            return 0
        return sum(map(share_of_memory, pids))  # it takes longer, and counts what forks have in common once


def descendants(pid: int) -> list[int]:
    """Return a process and all that descend from it, as far as the system tells them."""
    found = [pid]
    for each in found:
        for tasks in Path(f"/proc/{each}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, tasks.read_text(encoding="ascii").split())
    return found


def own_memory(pid: int) -> int:
    """Return the bytes that a process has beside files and shared memory; pages of a fork count for both."""
    with contextlib.suppress(OSError, ValueError):
        _, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split())
        return (resident - shared) * PAGE
    return 0


def share_of_memory(pid: int) -> int:
    """Return the same with every page divided among those who have it, where the system tells it."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").split("\n"):
            if line.startswith("Pss_Anon:"):
                return int(line.split()[1]) * 1024
    return own_memory(pid)
