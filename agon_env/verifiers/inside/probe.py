"""Runs inside a sandbox and tries to get out; prints which protections hold, as JSON."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable


def fails(action: Callable[[], object]) -> bool:
    """Return whether `action` is refused."""
    try:
        action()
    except (OSError, MemoryError):
        return True
    return False


def no_network() -> bool:
    """Only the loopback device is there, if any."""
    names = [name for _, name in socket.if_nameindex()]
    return set(names) <= {"lo"}


def sees_no_process(pid: int) -> bool:
    """Neither the grader nor any other process outside is listed."""
    if not os.path.isdir("/proc/self"):
        return True
    listed = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return len(listed) <= 8 and (os.getpid() < 100 or pid not in listed)


def cant_write(path: str) -> bool:
    """No file can be made there."""
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write("x")
    except OSError:
        return True
    os.unlink(path)
    return False


def has_no_power() -> bool:
    """The user is not root, or is root without a single capability; and nothing gives more."""
    with open("/proc/self/status", encoding="ascii") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    powerless = int(status["CapEff"], 16) == 0 and (os.getuid() != 0 or int(status["CapBnd"], 16) == 0)
    return powerless and status.get("NoNewPrivs") == "1"


def limits_processes(most: int) -> bool:
    """No more than `most` processes can be made."""
    read, write = os.pipe()
    children = []
    try:
        for _ in range(most + 8):
            pid = os.fork()
            if pid == 0:
                os.close(write)
                os.read(read, 1)
                os._exit(0)
            children.append(pid)
    except OSError:
        return True
    finally:
        os.close(write)
        for pid in children:
            os.waitpid(pid, 0)
    return False


def fill_folder() -> None:
    """Write many files of the greatest size."""
    for i in range(64):
        with open(f"f{i}", "wb") as file:
            file.write(b"0" * (1 << 20))


def limits_memory(most: int) -> bool:
    """A process can't have much more than it is allowed."""
    pid = os.fork()
    if pid == 0:
        try:
            block = b"x" * (3 * most)
            os._exit(len(block) > 0 and 7)
        except MemoryError:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 7


def big_file() -> None:
    """Write a file beyond the greatest size."""
    with open("big", "wb") as file:
        file.write(b"0" * (1 << 21))


task = json.loads(sys.argv[1])
most_processes, most_memory = task["limits"]
found = {
    "network": no_network(),
    "processes hidden": sees_no_process(task["pid"]),
    "files hidden": not any(map(os.path.exists, task["files"])),
    "files read-only": all(map(cant_write, ("/agon", "/tmp/agon", "/dev/shm/agon", "/var/tmp/agon", "../agon"))),
    "privileges": has_no_power(),
    "process count": limits_processes(most_processes),
    "memory": limits_memory(most_memory),
    "file size": fails(big_file),
    "folder size": fails(fill_folder),
}
print(json.dumps(found))
