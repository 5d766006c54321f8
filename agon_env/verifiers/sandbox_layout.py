"""What a program in a sandbox sees of the file system: the interpreter, the system's libraries, and its own folder."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = "/box/run"
"""Where a program runs; the only place where it can write. Nothing else is in the folder above."""
DEVICES = ("null", "zero", "full", "random", "urandom")
"""What is in /dev, beside the links to the standard streams. Reading none of them blocks."""
STREAMS = {
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
}
SYSTEM = ("/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store")
PROGRAMS = ("bin", "lib", "lib32", "lib64", "libexec")
"""What is shown of /usr and /usr/local, below which people keep other things too."""
SHARED = ("/usr", "/usr/local")
FILES = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/usr/share/zoneinfo")
_ASK = (
    "import json, os, site, sys; print(json.dumps([os.path.realpath(sys.executable), sys.base_prefix, sys.prefix,"
    " site.getsitepackages()]))"
)


@dataclass(frozen=True)
class Layout:
    """The parts of the machine that are visible, all of them read-only."""

    python: str
    """The interpreter."""
    bind: tuple[str, ...]
    """Paths that appear in the sandbox at the same place."""
    symlink: tuple[tuple[str, str], ...]
    """Links and where they lead, for systems on which /lib is a link to /usr/lib."""
    hide: tuple[str, ...]
    """Folders inside of visible ones that are empty in the sandbox: installed packages, this package."""


@functools.cache
def layout(python: str | None = None, *, site_packages: bool = False) -> Layout:
    """Return the layout for an interpreter.

    Args:
        python: path of the interpreter; default: the one that this process runs on, outside of any virtual environment.
        site_packages: show the packages that are installed for it.
    """
    command = python or getattr(sys, "_base_executable", None) or sys.executable
    done = subprocess.run([command, "-I", "-c", _ASK], capture_output=True, text=True, check=True, timeout=60)
    executable, base, prefix, packages = json.loads(done.stdout)
    links = [path for path in SYSTEM if os.path.islink(path)]
    wanted = [path for path in SYSTEM if os.path.isdir(path) and path not in links]
    wanted += [os.path.join(prefix, name) for prefix in SHARED for name in PROGRAMS]
    wanted += [path for path in (base, os.path.dirname(executable)) if path not in SHARED]
    wanted += [prefix] if site_packages and prefix not in SHARED else []
    bind = _without_nested(wanted) + [path for path in FILES if os.path.exists(path)]
    hide = [] if site_packages else packages
    hide = [*hide, str(Path(__file__).resolve().parents[1])]
    return Layout(
        # a virtual environment is recognised by the path of its interpreter, which is a link
        python=os.path.abspath(command) if site_packages and prefix != base else executable,
        bind=tuple(bind),
        symlink=tuple((path, os.readlink(path)) for path in links),
        hide=tuple(_without_nested([path for path in hide if os.path.isdir(path) and _inside(path, bind)])),
    )


def _inside(path: str, folders: list[str]) -> bool:
    return any(os.path.commonpath([path, folder]) == folder for folder in folders)


def _without_nested(paths: list[str]) -> list[str]:
    """Return `paths` as real paths without the ones that lie in another."""
    real = sorted({os.path.realpath(path) for path in paths if os.path.isdir(path)})
    return [path for path in real if not _inside(path, [other for other in real if other != path])]
