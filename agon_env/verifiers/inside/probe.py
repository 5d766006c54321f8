"""Runs inside a sandbox and tries to get out; prints which protections hold, as JSON."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial

libc = ctypes.CDLL(None, use_errno=True)
SOCKETS = ("AF_PACKET", "AF_ALG", "AF_TIPC", "AF_CAN", "AF_BLUETOOTH")
"""Kinds of sockets that reach parts of the kernel which no program needs."""
NAMESPACES = (0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000)
"""The flags of `unshare` and `clone` for mounts, control groups, names, IPC, users, processes and the network."""


def fails(action: Callable[[], object]) -> bool:
    """Return whether `action` is refused."""
    try:
        action()
    except (OSError, MemoryError):
        return True
    return False


def no_network() -> bool:
    """Only the loopback device is there, if any; and no socket to the host of a virtual machine, which needs no device."""
    names = [name for _, name in socket.if_nameindex()]
    return set(names) <= {"lo"} and no_socket("AF_VSOCK")


def no_socket(family: str) -> bool:
    """No socket of this family can be had."""
    kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET)
    number = getattr(socket, family, None)
    return number is None or all(fails(partial(socket.socket, number, kind)) for kind in kinds)


def is_refused(number: int) -> bool:
    """The system call with this number is not there, before it looks at its arguments, which are nonsense."""
    libc.syscall(*map(ctypes.c_long, (number, -1, -1, -1, -1, -1, -1)))
    return ctypes.get_errno() in (errno.EPERM, errno.ENOSYS)


def makes_namespace(flag: int, clone: int) -> bool:
    """A new namespace can be made, in one of two ways."""
    pid = os.fork()
    if pid == 0:
        os._exit(libc.unshare(flag) == 0)
    made = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0
    child = libc.syscall(*map(ctypes.c_long, (clone, flag | signal.SIGCHLD, 0, 0, 0, 0)))
    if child == 0:
        os._exit(0)
    if child > 0:
        os.waitpid(child, 0)
    return made or child > 0


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
calls = task["calls"]
found = {
    "network": no_network(),
    "processes hidden": sees_no_process(task["pid"]),
    "files hidden": not any(map(os.path.exists, task["files"])),
    "files read-only": all(map(cant_write, ("/agon", "/tmp/agon", "/dev/shm/agon", "/var/tmp/agon", "../agon"))),
    "privileges": has_no_power(),
    "namespaces": bool(calls) and not any(makes_namespace(flag, task["clone"]) for flag in NAMESPACES),
    "system calls": bool(calls) and all(map(is_refused, calls)) and all(map(no_socket, SOCKETS)),
    "process count": limits_processes(most_processes),
    "memory": limits_memory(most_memory),
    "file size": fails(big_file),
    "folder size": fails(fill_folder),
}
print(json.dumps(found))
