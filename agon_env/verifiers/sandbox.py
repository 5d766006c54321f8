"""`Sandbox`: run a program that nobody trusts.

A program in a sandbox has no network, sees no process and no file of the grader, writes in one folder that is
gone afterwards, and is bounded in processor time, memory, processes, output and files. Which of these hold
depends on the machine; `Sandbox.protections()` tries them out and says so. Without isolation nothing runs,
unless `allow_unisolated=True`.

What a program printed is kept in files of bounded size, so that no reader can be blocked or flooded; it is read
when all processes of the sandbox are gone.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from agon_env.errors import Error
from agon_env.verifiers import sandbox_isolation, sandbox_leftovers
from agon_env.verifiers.inside.guard import STARTED
from agon_env.verifiers.sandbox_cgroup import ControlGroup, clear_groups, control_group
from agon_env.verifiers.sandbox_filter import assembled, this_architecture
from agon_env.verifiers.sandbox_isolation import Way
from agon_env.verifiers.sandbox_layout import Layout, layout
from agon_env.verifiers.sandbox_memory import MemoryWatch

Stop = Literal["time", "memory", "output", "signal"]

GUARD = (Path(__file__).parent / "inside" / "guard.py").read_text(encoding="utf-8")
PROBE = (Path(__file__).parent / "inside" / "probe.py").read_text(encoding="utf-8")
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "LANG": "C.UTF-8",
    "PYTHONUTF8": "1",
    "PYTHONHASHSEED": "0",  # the same program has the same verdict
    "PYTHONDONTWRITEBYTECODE": "1",
    "MALLOC_ARENA_MAX": "4",  # each takes 64 MiB of the address space
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
MARK = "AGON_SANDBOX"
"""Environment variable that marks the processes of a sandbox, for finding strays where there is no namespace."""
STDERR_TAIL = 4096
MIB = 1 << 20
STACKS = 512 * MIB
"""What a process may address beyond its bound on memory, where only the former can be bounded."""


class SandboxUnavailable(Error):
    """This machine offers no isolation, and the caller did not allow to go without."""


class SandboxError(Error):
    """A sandbox could not be set up this time; this says nothing about the program."""


@dataclass(frozen=True)
class Limits:
    """Bounds on one program. Time is processor time, so that a busy machine changes no verdict."""

    cpu_seconds: float = 4.0
    """Processor time of each process."""
    wall_seconds: float = 24.0
    """Time on the clock, generous, for programs that sleep."""
    memory: int = 1024 * MIB
    """Bytes that all processes use together (without control groups: each one, about)."""
    address_space: int = 12288 * MIB
    """Bytes that one process may address; the stacks of threads need it, 64 MiB for each (bounded by `memory` where there
    are no control groups)."""
    processes: int = 128
    """Processes and threads at a time."""
    file_size: int = 64 * MIB
    """Bytes of one file, and of the output."""
    folder_size: int = 256 * MIB
    """Bytes of all files."""
    open_files: int = 256


@dataclass(frozen=True)
class Finished:
    """How a program ended."""

    exit_code: int
    """0 to 255 as a shell has it: 128 + n for a death by signal n."""
    stdout: bytes
    stderr: str
    """The end of what it wrote there."""
    seconds: float
    stop: Stop | None
    """Which bound stopped it, or a SIGKILL that it gave itself; None if it ended on its own."""


@dataclass
class Running:
    """A program that has been started."""

    _process: subprocess.Popen[bytes]
    _limits: Limits
    _group: ControlGroup
    _job: IO[bytes]
    _stdout: IO[bytes]
    _stderr: IO[bytes]
    _status: IO[bytes]
    _mark: str
    _watch: MemoryWatch | None
    _begin: float = field(default_factory=time.monotonic)
    _late: bool = False
    _killed: bool = False

    def wait(self, *, seconds: float | None = None) -> Finished:
        """Wait for the end, at most until the limit on the clock (or `seconds` from now), then kill whatever is left.

        Raises:
            SandboxError: the program was never reached.
        """
        left = self._limits.wall_seconds - (time.monotonic() - self._begin) if seconds is None else seconds
        self._late = not _ends_within(self._process, max(left, 0.0))
        elapsed = time.monotonic() - self._begin
        self.kill()
        stderr = _tail(self._stderr, STDERR_TAIL).decode("utf-8", "replace")
        if _read(self._job, len(STARTED)) != STARTED.encode():
            raise SandboxError(f"the sandbox could not be set up: {stderr.strip()[-1000:] or 'it was killed at its start'}")
        code = self._process.returncode
        code = 128 - code if code < 0 else code
        stdout = _read(self._stdout, self._limits.file_size)
        return Finished(code, stdout, stderr, elapsed, self._stop(code, elapsed, len(stdout), stderr))

    def kill(self) -> None:
        """Kill all processes of the sandbox."""
        if self._killed:
            return
        self._killed = True
        if self._watch:
            self._watch.stop()
        children = _children(self._process.pid) | _reported(_read(self._status, MIB))
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pid in children:
            _reap(pid)
        if self._mark:
            _kill_marked(self._mark)

    def _stop(self, code: int, elapsed: float, printed: int, stderr: str) -> Stop | None:
        if self._late or code == 128 + signal.SIGXCPU:
            return "time"
        watched = self._watch is not None and self._watch.exceeded
        if watched or self._group.ran_out_of_memory or (code and stderr.rstrip().rsplit("\n", 1)[-1].startswith("MemoryError")):
            return "memory"
        if printed >= self._limits.file_size:
            return "output"
        if code == 128 + signal.SIGKILL:  # a program that ignores SIGXCPU is killed by the kernel
            return "time" if elapsed >= self._limits.cpu_seconds else "signal"
        return None


class Sandbox:
    """Runs Python programs that nobody trusts; safe from any thread."""

    def __init__(self, *, python: str | None = None, site_packages: bool = False, allow_unisolated: bool = False) -> None:
        """Choose the best isolation that this machine offers.

        Args:
            python: interpreter of the programs; default: the one of this process, outside of any virtual environment.
            site_packages: let programs import what is installed for that interpreter, for example numpy.
            allow_unisolated: run programs even where the machine offers no isolation. They can then read files, use the
                network and disturb other processes; only the limits of the process hold.

        Raises:
            SandboxUnavailable: there is no isolation, and `allow_unisolated` is False.
        """
        self.isolation, self._way = _best_way(python, site_packages)
        self.isolated = self._way is not None
        if not self.isolated and not allow_unisolated:
            raise SandboxUnavailable(
                "this machine offers no way to shut programs off (bubblewrap and namespaces were tried: "
                f"{self.isolation}). Install bubblewrap (apt-get install bubblewrap) and allow user namespaces, or run as "
                "root. To run programs without protection all the same, pass allow_unisolated=True"
            )
        self._python = python
        self._site_packages = site_packages

    @property
    def python(self) -> str:
        """The interpreter, as a program sees it."""
        return self._layout.python

    @property
    def _layout(self) -> Layout:
        return layout(self._python, site_packages=self._site_packages)

    def protections(self) -> dict[str, bool]:
        """Return which protections hold here, found out by a program that tries to break each of them."""
        return dict(_protections(self._way, self._python, self._site_packages))

    def run(
        self,
        files: Mapping[str, str],
        arguments: Sequence[str] = ("main.py",),
        *,
        stdin: bytes = b"",
        limits: Limits = Limits(),
        pass_fds: Sequence[int] = (),
    ) -> Finished:
        """Run `python arguments…` in a folder with `files` (name → text), and wait for its end.

        Raises:
            SandboxError: the sandbox could not be set up.
        """
        with self.start(files, arguments, stdin=stdin, limits=limits, pass_fds=pass_fds) as running:
            return running.wait()

    @contextlib.contextmanager
    def start(
        self,
        files: Mapping[str, str],
        arguments: Sequence[str] = ("main.py",),
        *,
        stdin: bytes = b"",
        limits: Limits = Limits(),
        pass_fds: Sequence[int] = (),
    ) -> Iterator[Running]:
        """Start a program; at the end of the block everything of it is killed and removed.

        Args:
            files: name → text of the files in its folder.
            arguments: what follows the interpreter.
            stdin: all of its input.
            limits: bounds.
            pass_fds: file descriptors that it inherits, under the same numbers.
        """
        started = _start(self._way, self._layout, files, arguments, stdin=stdin, limits=limits, pass_fds=pass_fds)
        with started as running:
            yield running


@contextlib.contextmanager
def _start(
    way: Way | None,
    layout: Layout,
    files: Mapping[str, str],
    arguments: Sequence[str],
    *,
    stdin: bytes,
    limits: Limits,
    pass_fds: Sequence[int],
) -> Iterator[Running]:
    with contextlib.ExitStack() as stack:
        place = sandbox_leftovers.folder()
        stack.callback(sandbox_leftovers.remove, place)
        job, input_, stdout, stderr, status = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(5))
        group = stack.enter_context(control_group(memory=limits.memory, processes=limits.processes))
        bounds_memory = "memory" in group.controllers
        entry = (way or sandbox_isolation.nothing)(layout, limits.folder_size, place)
        mark = "" if way else os.path.basename(place)
        job.write(
            json.dumps(
                {
                    "root": entry.root,
                    "folder": entry.folder,
                    "uid": entry.uid,
                    "filter": assembled(this_architecture()).hex(),
                    "rlimits": _rlimits(
                        limits,
                        bound_processes=entry.uid is not None or way is not None,
                        bound_memory=not bounds_memory,
                    ),
                    "files": dict(files),
                    "argv": [layout.python, "-B", "-s", *arguments],
                    "env": ENVIRONMENT | {"TMPDIR": entry.folder} | ({MARK: mark} if mark else {}),
                }
            ).encode("ascii")
        )
        input_.write(stdin)
        for file in (job, input_):
            file.flush()
            file.seek(0)
        if entry.uid is not None:  # so that the program can open /dev/stdin
            for file in (input_, stdout, stderr):
                os.fchown(file.fileno(), entry.uid, entry.uid)
        report = [entry.status_option, str(status.fileno())] if entry.status_option else []
        command = [*_enter(group.entrances), *entry.command, *report, layout.python, "-I", "-S", "-c", GUARD, str(job.fileno())]
        process = subprocess.Popen(
            command,
            stdin=input_,
            stdout=stdout,
            stderr=stderr,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"} | ({MARK: mark} if mark else {}),
            cwd="/",
            pass_fds=[job.fileno(), *([status.fileno()] if report else []), *pass_fds],
            start_new_session=True,
        )
        watch = None if bounds_memory else MemoryWatch(process.pid, limits.memory)
        running = Running(process, limits, group, job, stdout, stderr, status, mark, watch)
        stack.callback(running.kill)
        yield running


def _enter(entrances: Sequence[str]) -> list[str]:
    """Return a command that enters control groups and then becomes the command that follows it."""
    if not entrances:
        return []
    return [
        "/bin/sh",
        "-c",
        'while [ "$1" != -- ]; do echo 0 > "$1" || exit 1; shift; done; shift; exec "$@"',
        "sh",
        *entrances,
        "--",
    ]


def _rlimits(limits: Limits, *, bound_processes: bool, bound_memory: bool) -> dict[str, int]:
    space = min(limits.address_space, limits.memory + STACKS) if bound_memory else limits.address_space
    values = {
        "RLIMIT_CPU": max(1, math.ceil(limits.cpu_seconds)),
        "RLIMIT_AS": space,
        "RLIMIT_FSIZE": limits.file_size,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_STACK": 64 * MIB,
        "RLIMIT_CORE": 0,
        "RLIMIT_MSGQUEUE": 0,
    }
    if bound_processes:  # otherwise the limit would count all processes of this user
        values["RLIMIT_NPROC"] = limits.processes
    return values


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for the end of a process, at most `seconds`; return whether it ended."""
    if hasattr(os, "pidfd_open"):  # Popen.wait(timeout) looks only every 50 ms
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(process.pid)
            try:
                poll = select.poll()
                poll.register(handle, select.POLLIN)
                return bool(poll.poll(seconds * 1000))
            finally:
                os.close(handle)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _read(file: IO[bytes], size: int) -> bytes:
    file.seek(0)
    return file.read(size)


def _tail(file: IO[bytes], size: int) -> bytes:
    file.seek(max(0, file.seek(0, os.SEEK_END) - size))
    return file.read(size)


def _children(pid: int) -> set[int]:
    """Return the children of a process, as far as the system tells them."""
    try:
        return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()))
    except OSError:
        return set()


def _reported(status: bytes) -> set[int]:
    """Return the child in what bubblewrap reports, one JSON object on each line."""
    with contextlib.suppress(ValueError, LookupError):
        return {int(json.loads(status.split(b"\n", 1)[0])["child-pid"])}
    return set()


def _reap(pid: int) -> None:
    """Take note of the end of an orphan, if this process inherits them (as the first of a container does)."""
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # raises if it is not ours
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _kill_marked(mark: str) -> None:
    """Kill the processes that left the process group, where there is no namespace that ends them all."""
    wanted = f"{MARK}={mark}".encode()
    found = True
    killed = set()
    deadline = time.monotonic() + 2.0
    while found and time.monotonic() < deadline:
        found = False
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    os.kill(int(folder.name), signal.SIGKILL)
                    killed.add(int(folder.name))
                    found = True
    for pid in killed:
        _reap(pid)


# --- what this machine can do -------------------------------------------------------------------------

_lock = threading.RLock()


def _best_way(python: str | None, site_packages: bool) -> tuple[str, Way | None]:
    """Return the name of the first way that isolates, and the way; or why none does, and None."""
    with _lock:
        return _find_way(python, site_packages)


@functools.cache
def _find_way(python: str | None, site_packages: bool) -> tuple[str, Way | None]:
    _clear_leftovers()
    if not sys.platform.startswith("linux"):
        return f"{sys.platform} has none of them", None
    reasons = []
    for name, way in sandbox_isolation.ways().items():
        try:
            holds = _protections(way, python, site_packages)
        except (SandboxError, OSError) as error:
            reasons.append(f"{name}: {str(error).strip()[-200:]}")
            continue
        missing = [what for what in ESSENTIAL if not holds[what]]
        if not missing:
            return name, way
        reasons.append(f"{name}: no protection of {', '.join(missing)}")
    return "; ".join(reasons) or "neither bwrap nor unshare is installed", None


@functools.cache
def _clear_leftovers() -> None:
    """Clear what graders that are gone have left behind, once for each process."""
    clear_groups()
    sandbox_leftovers.clear_folders(_kill_marked)


ESSENTIAL = ("network", "processes hidden", "files hidden", "files read-only", "privileges")
"""What a way must protect to count as isolation."""


@functools.cache
def _protections(way: Way | None, python: str | None, site_packages: bool) -> Mapping[str, bool]:
    """Let a program try everything; `way=None` stands for no isolation."""
    limits = Limits(
        memory=256 * MIB, address_space=512 * MIB, processes=16, file_size=MIB, folder_size=8 * MIB, wall_seconds=30
    )
    shown = layout(python, site_packages=site_packages)
    with tempfile.NamedTemporaryFile(prefix="agon-probe-") as secret:
        os.chmod(secret.name, 0o644)
        architecture = this_architecture()
        task = {
            "pid": os.getpid(),
            "files": [secret.name, __file__],
            "limits": [limits.processes, limits.memory],
            "calls": architecture.refused if architecture else [],
            "clone": architecture.clone if architecture else 0,
        }
        arguments = ["main.py", json.dumps(task)]
        with _start(way, shown, {"main.py": PROBE}, arguments, stdin=b"", limits=limits, pass_fds=()) as running:
            finished = running.wait()
            total = {"total memory": "memory" in running._group.controllers}
    try:
        found: dict[str, Any] = json.loads(finished.stdout.decode().strip().rsplit("\n", 1)[-1])
    except ValueError:
        raise SandboxError(f"the probe did not finish: {finished.stderr.strip()[-500:]}") from None
    return {name: bool(holds) for name, holds in found.items()} | total
