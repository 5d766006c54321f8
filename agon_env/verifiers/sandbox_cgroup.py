"""A control group per program, where the machine lets us make one: bounds on a whole tree of processes."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from agon_env.verifiers.sandbox_leftovers import abandoned, owner

ROOT = Path("/sys/fs/cgroup")
V1 = {"memory": "memory.limit_in_bytes", "pids": "pids.max"}
V2 = {"memory": "memory.max", "pids": "pids.max"}
REMOVE_SECONDS = 2.0
PREFIX = "agon-"


class ControlGroup:
    """Folders of the cgroup file system, one for each controller that could be had."""

    def __init__(self, folders: dict[str, Path]) -> None:
        """Take folders that exist; see `control_group`."""
        self._folders = folders

    @property
    def controllers(self) -> frozenset[str]:
        """What is bounded: "memory", "pids", both or nothing."""
        return frozenset(self._folders)

    @property
    def entrances(self) -> list[str]:
        """Files into which a process writes 0 to enter."""
        return sorted({str(folder / "cgroup.procs") for folder in self._folders.values()})

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether the kernel killed a process in here because of the bound on memory."""
        if "memory" in self._folders:
            for name in ("memory.oom_control", "memory.events"):
                with contextlib.suppress(OSError):
                    words = (self._folders["memory"] / name).read_text(encoding="ascii").split()
                    return int(dict(zip(words[::2], words[1::2], strict=False)).get("oom_kill", 0)) > 0
        return False

    def remove(self) -> None:
        """Kill whatever is left inside, and remove the folders."""
        for folder in set(self._folders.values()):
            deadline = time.monotonic() + REMOVE_SECONDS
            while time.monotonic() < deadline:
                with contextlib.suppress(OSError, ValueError):
                    for pid in (folder / "cgroup.procs").read_text(encoding="ascii").split():
                        os.kill(int(pid), 9)
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    break
                except OSError as error:
                    if error.errno != errno.EBUSY:
                        break
                    time.sleep(0.002)  # a process that was killed is still on its way out
                else:
                    break


@contextlib.contextmanager
def control_group(*, memory: int, processes: int) -> Iterator[ControlGroup]:
    """Yield a new group with bounds in bytes and processes; it may bound less than asked, or nothing."""
    name = f"{PREFIX}{owner()}-{uuid.uuid4().hex[:12]}"
    values = {"memory": memory, "pids": processes}
    group = ControlGroup({})
    try:
        for controller, (parent, setting) in _parents().items():
            folder = parent / name
            try:
                folder.mkdir(exist_ok=True)
                group._folders[controller] = folder
                (folder / setting).write_text(str(values[controller]), encoding="ascii")
            except OSError:
                if group._folders.pop(controller, None) and folder not in group._folders.values():
                    with contextlib.suppress(OSError):
                        folder.rmdir()
                continue
            if controller == "memory":
                with contextlib.suppress(OSError):
                    (folder / "memory.swap.max").write_text("0", encoding="ascii")
        yield group
    finally:
        group.remove()


def clear_groups() -> None:
    """Remove the groups beside the ones of this process whose makers are gone, and kill what still runs in them."""
    for controller, (parent, _) in _parents().items():
        for path in abandoned(os.path.join(glob.escape(str(parent)), PREFIX + "*")):
            ControlGroup({controller: Path(path)}).remove()


def _parents() -> dict[str, tuple[Path, str]]:
    """Return controller → the folder in which this process can make groups, and the name of the setting."""
    parents: dict[str, tuple[Path, str]] = {}
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return parents
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers:
            for controller in set(controllers.split(",")) & set(V1):
                folder = ROOT / controllers / path.strip("/")
                folder = folder if folder.is_dir() else ROOT / controller / path.strip("/")
                if folder.is_dir():
                    parents[controller] = (folder, V1[controller])
        else:
            for folder in (ROOT / path.strip("/"), ROOT):
                with contextlib.suppress(OSError):
                    usable = (folder / "cgroup.subtree_control").read_text(encoding="ascii").split()
                    for controller in set(usable) & set(V2):
                        parents.setdefault(controller, (folder, V2[controller]))
    return parents
