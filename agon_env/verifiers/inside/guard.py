"""What runs first inside a sandbox: it gives up every power that it has, and becomes the program.

Its text is passed to the interpreter by `python -c`, so it imports the standard library alone and nothing of
this package. `argv[1]` is a file descriptor that holds the job as JSON; once the guard has done its part it
writes STARTED over it. A sandbox that could not be set up is thereby told from a program that failed, by a
mark that the program can't make or remove.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import struct
import sys

STARTED = "started"
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 24, 38
SECCOMP_MODE_FILTER, CAPABILITY_VERSION = 2, 0x2008_0522
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2


def main() -> None:
    """Do the job in the file descriptor `argv[1]`."""
    job_fd = int(sys.argv[1])
    with open(job_fd, encoding="utf-8", closefd=False) as described:
        job = json.load(described)
    system_calls = bytes.fromhex(job["filter"])
    if job["root"] is not None:
        enter_root(job["root"])
    if os.getpid() == 1:
        become_init(system_calls)
    os.chdir(job["folder"])
    os.umask(0o077)
    for name, value in job["rlimits"].items():
        limit_resource(getattr(resource, name, None), value)
    if job["uid"] is not None:
        os.setgroups([])
        os.setresgid(job["uid"], job["uid"], job["uid"])
        os.setresuid(job["uid"], job["uid"], job["uid"])
    drop_privileges(system_calls)
    for name, text in job["files"].items():
        with open(name, "wb") as file:
            file.write(text.encode("utf-8", "surrogatepass"))
    os.pwrite(job_fd, STARTED.encode(), 0)
    os.close(job_fd)
    os.execve(job["argv"][0], job["argv"], job["env"])


def become_init(system_calls: bytes) -> None:
    """Go on in a child; this process, the first of its namespace, ends with it and so ends all the others.

    The program may be of the same user, so this process holds no file and no capability, and its memory can't be opened.
    It stays the user that it is: the process above may have no power over another one, and has to end it.
    """
    child = os.fork()
    if child == 0:
        return
    drop_privileges(system_calls)
    libc = ctypes.CDLL(None)
    libc.capset(struct.pack("=Ii", CAPABILITY_VERSION, 0), bytes(24))
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    os.closerange(0, 1 << 16)
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def limit_resource(kind: int | None, value: int) -> None:
    """Set a limit that can't be raised again; where the hard limit is lower already, that one holds.

    The one on the stack is only where it starts: programs raise it, and memory is bounded otherwise.
    """
    if kind is None:
        return
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    highest = value
    if kind == resource.RLIMIT_STACK:
        highest = hard
    elif kind == resource.RLIMIT_CPU and hard == resource.RLIM_INFINITY:
        highest = value + 1  # a program that ignores SIGXCPU is killed one second later
    resource.setrlimit(kind, (value, highest))


class Filter(ctypes.Structure):
    """`struct sock_fprog` of linux/filter.h."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def drop_privileges(system_calls: bytes) -> None:
    """Make sure that nothing that is executed from here on gains a privilege, or outlives the process above.

    Args:
        system_calls: the filter of system calls, empty where there is none. A kernel may do without filters; what holds is
            found out by the probe.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # a crash, Ctrl-C: however the process above ends, this one ends with it
    libc.prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0)
    if system_calls:
        code = Filter(len(system_calls) // 8, system_calls)
        libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(code), 0, 0)


def enter_root(plan: dict) -> None:
    """Build a file system from `plan` in new namespaces and make it the root; what is not in it can't be reached."""
    libc = ctypes.CDLL(None, use_errno=True)

    def mount(source: str | None, target: str, kind: str | None = None, flags: int = 0, data: str | None = None) -> None:
        encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
        if libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]):
            number = ctypes.get_errno()
            raise OSError(number, f"mount {source} on {target}: {os.strerror(number)}")

    def bind(source: str, target: str) -> None:
        mount(source, target, flags=MS_BIND | MS_REC)
        mount(None, target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID)

    root = plan["at"]
    mount(None, "/", flags=MS_REC | MS_PRIVATE)
    mount("tmpfs", root, "tmpfs", MS_NOSUID, "mode=0755,size=1m")
    for source in plan["bind"]:
        target = root + source
        if os.path.isdir(source):
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            open(target, "wb").close()
        bind(source, target)
    for hidden in plan["hide"]:
        mount("tmpfs", root + hidden, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV, "mode=0555,size=4k")
    os.mkdir(root + "/dev")
    for device in plan["devices"]:
        open(f"{root}/dev/{device}", "wb").close()
        mount(f"/dev/{device}", f"{root}/dev/{device}", flags=MS_BIND)
    for link, target in plan["symlink"].items():
        os.symlink(target, root + link)
    os.mkdir(root + "/proc")
    mount("proc", root + "/proc", "proc", MS_NOSUID | MS_NODEV)
    os.makedirs(root + plan["folder"])
    mount("tmpfs", root + plan["folder"], "tmpfs", MS_NOSUID | MS_NODEV, plan["folder_options"])
    mount(None, root, flags=MS_REMOUNT | MS_RDONLY | MS_NOSUID, kind="tmpfs")
    os.chdir(root)
    if libc.pivot_root(b".", b"."):
        raise OSError(ctypes.get_errno(), "pivot_root")
    if libc.umount2(b".", MNT_DETACH):
        raise OSError(ctypes.get_errno(), "umount of the old root")
    os.chdir("/")


if __name__ == "__main__":
    main()
