"""A bound on the memory of a tree of processes, where no control group bounds it: look again and again, and kill."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path

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
    """Return the bytes that a process has beside files; pages of a fork, and shared ones, count for each that has them."""
    return _bytes(pid, "status", ("RssAnon:", "RssShmem:")) or 0


def share_of_memory(pid: int) -> int:
    """Return the same with every page divided among those who have it, where the system tells it."""
    share = _bytes(pid, "smaps_rollup", ("Pss_Anon:", "Pss_Shmem:"))
    return own_memory(pid) if share is None else share


def _bytes(pid: int, file: str, names: tuple[str, ...]) -> int | None:
    """Return the sum of some lines of a file about a process, which tells kilobytes; None if there is none of them."""
    with contextlib.suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/{file}").read_text(encoding="utf-8", errors="replace").split("\n")
        found = [int(line.split()[1]) * 1024 for line in lines if line.startswith(names)]
        return sum(found) if found else None
    return None
