"""Whose a folder or a control group is, so that what a killed grader left behind can be told and cleared."""

from __future__ import annotations

import functools
import glob
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

PREFIX = "agon-sandbox-"


def owner() -> str:
    """Return a name of this process that no other one has: its namespace, its number, and when it started."""
    return _name(os.getpid())


def owner_is_gone(name: str) -> bool:
    """Return whether the process that `owner` named has ended; False where that can't be known, as in other namespaces."""
    namespace, pid, start = name.split("-")
    if namespace != _namespace() or namespace == "0":
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return _start(int(pid)) not in (start, "0")


def folder() -> str:
    """Make an empty folder of this process."""
    return tempfile.mkdtemp(prefix=f"{PREFIX}{owner()}-")


def remove(place: str) -> None:
    """Remove a folder with all that is in it."""
    # `rm` neither recurses nor minds long paths; shutil.rmtree does both
    if shutil.which("rm"):
        subprocess.run(
            ["rm", "-rf", "--one-file-system", place], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        )
    else:
        shutil.rmtree(place, ignore_errors=True)


def abandoned(paths: str) -> list[str]:
    """Return the paths that match a pattern and end in `-{owner}-{anything}` of a process that is gone."""
    found = []
    for path in glob.iglob(paths):
        parts = os.path.basename(path).split("-")[-4:]
        if len(parts) == 4 and all(part.isdigit() for part in parts[:3]) and owner_is_gone("-".join(parts[:3])):
            found.append(path)
    return found


def clear_folders(kill: Callable[[str], None]) -> None:
    """Remove the folders of processes that are gone; `kill` ends what still runs with the mark, the name of the folder."""
    for path in abandoned(os.path.join(glob.escape(tempfile.gettempdir()), PREFIX + "*")):
        kill(os.path.basename(path))
        remove(path)


@functools.lru_cache(maxsize=1)
def _name(pid: int) -> str:
    return f"{_namespace()}-{pid}-{_start(pid)}"


def _namespace() -> str:
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return "0"


def _start(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    except (OSError, LookupError):
        return "0"
