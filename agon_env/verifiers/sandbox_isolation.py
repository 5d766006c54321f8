"""The ways in which a program can be shut off from the machine, best first.

Each is a function of the layout and the limits that returns the command which leads into the sandbox (the
guard's interpreter follows it), and what the guard has left to do. Whether a way works here is not deduced: the
sandbox starts a program that tries to get out.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agon_env.verifiers.sandbox_layout import DEVICES, FOLDER, STREAMS, Layout

NOBODY = 65534
STATUS = "--json-status-fd"
FOLDER_OPTIONS = "mode=1777,size={size},nr_inodes=65536"


@dataclass(frozen=True)
class Entry:
    """How one program enters its sandbox."""

    command: tuple[str, ...]
    """What the guard's command line is appended to."""
    folder: str
    """Where the program runs, as it sees it."""
    uid: int | None = None
    """The user that the guard becomes; None keeps the one that it is."""
    root: dict[str, Any] | None = None
    """The file system that the guard builds, if the command does not."""
    status_option: str | None = None
    """The option of the command that takes a file descriptor, to which it writes {"child-pid": …}."""


Way = Callable[[Layout, int, str], Entry]
"""`(layout, bytes of the program's folder, an empty folder of the machine) -> Entry`."""


def bubblewrap_as_root(layout: Layout, size: int, place: str) -> Entry:
    """Bubblewrap with real privileges, which the guard gives up by becoming a user that nobody else is."""
    powers = ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    return Entry((*_bubblewrap(layout, size), *powers), FOLDER, uid=spare_uid(), status_option=STATUS)


def bubblewrap(layout: Layout, size: int, place: str) -> Entry:
    """Bubblewrap in a user namespace: without privileges, where the kernel allows that."""
    user = ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY), "--cap-drop", "ALL"]
    return Entry((*_bubblewrap(layout, size), *user), FOLDER, status_option=STATUS)


def namespaces_as_root(layout: Layout, size: int, place: str) -> Entry:
    """Namespaces made by `unshare` of util-linux; the guard builds the file system, then becomes another user."""
    return Entry(_unshare(), FOLDER, uid=spare_uid(), root=_plan(layout, size, place))


def namespaces(layout: Layout, size: int, place: str) -> Entry:
    """The same in a user namespace."""
    return Entry((*_unshare(), "--user", "--map-root-user"), FOLDER, root=_plan(layout, size, place))


def nothing(layout: Layout, size: int, place: str) -> Entry:
    """No isolation: a folder, limits of the process, and another user where this process may choose one."""
    reachable = all(folder.stat().st_mode & 0o001 for folder in Path(layout.python).parents)
    uid = spare_uid() if is_root() and reachable else None
    if uid is not None:
        os.chown(place, uid, uid)
    return Entry((), place, uid=uid)


def ways() -> dict[str, Way]:
    """Return name → way, for those whose tools are installed, best first."""
    found: dict[str, Way] = {}
    if shutil.which("bwrap"):
        if is_root():
            found["bubblewrap, another user"] = bubblewrap_as_root
        found["bubblewrap, user namespace"] = bubblewrap
    if shutil.which("unshare"):
        if is_root():
            found["namespaces, another user"] = namespaces_as_root
        found["namespaces, user namespace"] = namespaces
    return found


def is_root() -> bool:
    """Whether this process runs as root."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def spare_uid() -> int | None:
    """Return a user id that nothing on this machine uses, another one each time; None if there is none to be had."""
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            last = max(int(first) + int(count) for first, _, count in (line.split() for line in file))
    except (OSError, ValueError):
        last = 60000
    low, high = (1 << 29, 1 << 30) if last > 1 << 30 else (30000, 60000)
    return low + secrets.randbelow(high - low) if last >= high else None


def _bubblewrap(layout: Layout, size: int) -> list[str]:
    # every namespace by name: --unshare-all would make a user namespace, in which root stays root
    command = [shutil.which("bwrap") or "bwrap", "--die-with-parent", "--new-session"]
    # bubblewrap's own first process would hold files, and be open to a program of the same user; the guard's is not
    command += ["--as-pid-1"]
    command += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    # bubblewrap would make the folders above a bound one private to root
    for parent in sorted({str(parent) for path in layout.bind for parent in Path(path).parents} - {"/"}):
        command += ["--perms", "0755", "--dir", parent]
    for path in layout.bind:
        command += ["--ro-bind", path, path]
    for link, target in layout.symlink:
        command += ["--symlink", target, link]
    for path in layout.hide:
        command += ["--tmpfs", path, "--remount-ro", path]
    command += ["--proc", "/proc", "--perms", "0755", "--dir", "/dev"]
    for device in DEVICES:
        command += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    for link, target in STREAMS.items():
        command += ["--symlink", target, link]
    return [*command, "--perms", "1777", "--size", str(size), "--tmpfs", FOLDER, "--remount-ro", "/", "--chdir", FOLDER]


def _unshare() -> tuple[str, ...]:
    unshare = shutil.which("unshare") or "unshare"
    setpriv = shutil.which("setpriv")
    with_parent = (setpriv, "--pdeathsig", "KILL") if setpriv else ()  # if the grader is killed, so is unshare
    return (*with_parent, unshare, "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child")


def _plan(layout: Layout, size: int, place: str) -> dict[str, Any]:
    return {
        "at": place,
        "bind": layout.bind,
        "symlink": dict(layout.symlink) | STREAMS,
        "devices": DEVICES,
        "hide": layout.hide,
        "folder": FOLDER,
        "folder_options": FOLDER_OPTIONS.format(size=size),
    }
