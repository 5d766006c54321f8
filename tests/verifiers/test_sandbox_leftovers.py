"""What a killed grader leaves behind, and what holds where there is no control group."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from agon_env.verifiers import sandbox as sandboxes
from agon_env.verifiers import sandbox_cgroup, sandbox_isolation, sandbox_leftovers, sandbox_memory
from agon_env.verifiers.sandbox import Limits, Sandbox, SandboxError

MIB = 1 << 20
CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children")
pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/ns/pid"), reason="owners are told apart by /proc")


@pytest.fixture(params=[*sandbox_isolation.ways(), "none"])
def way(request):
    try:
        sandboxes._protections(sandbox_isolation.ways().get(request.param), None, False)
    except (SandboxError, OSError) as error:
        pytest.skip(f"does not work here: {error}")
    return request.param


GRADER = """
import sys
from agon_env.verifiers import sandbox_isolation
from agon_env.verifiers.sandbox import Limits, Sandbox
sandbox = Sandbox(allow_unisolated=True)
sandbox._way = sandbox_isolation.ways().get(sys.argv[1])
with sandbox.start({"main.py": open(sys.argv[2]).read()}, ["main.py", sys.argv[3]], limits=Limits()) as running:
    print(running._mark or "isolated", flush=True)
    running.wait()
"""
DAEMON = "import os, time\nif os.fork() == 0:\n    os.setsid()\ntime.sleep(300)"


def paths_of(owner):
    groups = [path for parent, _ in sandbox_cgroup._parents().values() for path in parent.glob(f"agon-{owner}-*")]
    return groups + list(Path(tempfile.gettempdir()).glob(f"{sandbox_leftovers.PREFIX}{owner}-*"))


def running_with(mark):
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def wait_until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


def clear():
    sandboxes._clear_leftovers.cache_clear()
    sandboxes._clear_leftovers()


def test_what_a_killed_grader_left_is_cleared_by_the_next_start(way, tmp_path):
    (tmp_path / "program.py").write_text(DAEMON, encoding="utf-8")
    mark = f"agon-left-{os.getpid()}-{way.replace(' ', '-')}"
    command = [sys.executable, "-c", GRADER, way, str(tmp_path / "program.py"), mark]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as grader:
        try:
            assert grader.stdout.readline().strip()
            owner = sandbox_leftovers._name.__wrapped__(grader.pid)
            wait_until(lambda: len(set(running_with(mark)) - {grader.pid}) >= 2)
            assert paths_of(owner)
            clear()
            assert paths_of(owner)  # it is alive, so nothing of it is touched
            assert len(set(running_with(mark)) - {grader.pid}) >= 2
        finally:
            grader.send_signal(signal.SIGKILL)
            grader.wait()
    if way != "none":
        wait_until(lambda: not running_with(mark))
    clear()
    assert not paths_of(owner)
    wait_until(lambda: not running_with(mark))


def test_only_an_owner_that_is_known_to_be_gone_is_gone():
    namespace, pid, start = sandbox_leftovers.owner().split("-")
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
        assert sandbox_leftovers.owner_is_gone(f"{namespace}-{ended.pid}-{start}")
        assert not sandbox_leftovers.owner_is_gone(f"{int(namespace) + 1}-{ended.pid}-{start}")
    assert not sandbox_leftovers.owner_is_gone(f"{namespace}-{pid}-{start}")
    assert sandbox_leftovers.owner_is_gone(f"{namespace}-{pid}-{int(start) + 1}")  # the number is another's now


def test_other_folders_are_not_taken_for_leftovers(tmp_path, monkeypatch):
    namespace = sandbox_leftovers.owner().split("-")[0]
    gone = f"{namespace}-999999999-1"
    names = [f"agon-sandbox-{gone}-x", "agon-sandbox-x", "agon-sandbox-1-2-x-y", f"agon-sandbox-{gone}", f"other-{gone}-x"]
    for name in names:
        (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed = []
    sandbox_leftovers.clear_folders(killed.append)
    assert killed == names[:1]
    assert sorted(os.listdir(tmp_path)) == sorted(names[1:])


TOGETHER = """
import os, time
for _ in range(6):
    if os.fork() == 0:
        block = b'x' * (64 << 20)
        time.sleep(30)
time.sleep(30)
"""
TOGETHER_BUT_SHARED = TOGETHER.replace(
    "block = b'x' * (64 << 20)", "block = mmap.mmap(-1, 64 << 20)\n        for _ in range(64): block.write(b'x' * (1 << 20))"
).replace("import os, time", "import mmap, os, time")
SHARED = """
import os, time
block = b'x' * (64 << 20)
children = [os.fork() for _ in range(3)]
if 0 in children:
    time.sleep(0.5)
    os._exit(0)
for child in children: os.waitpid(child, 0)
print(len(block) >> 20)
"""


@pytest.fixture
def without_groups(monkeypatch):
    monkeypatch.setattr(sandbox_cgroup, "_parents", dict)


@pytest.mark.skipif(not CHILDREN.exists(), reason="the kernel does not tell the children of a process")
def test_memory_of_all_processes_is_bounded_without_a_control_group(way, without_groups):
    sandbox = Sandbox(allow_unisolated=True)
    sandbox._way = sandbox_isolation.ways().get(way)
    limits = Limits(memory=256 * MIB, wall_seconds=20)
    for program in (TOGETHER, TOGETHER_BUT_SHARED):
        finished = sandbox.run({"main.py": program}, limits=limits)
        assert (finished.stop, finished.seconds < 15) == ("memory", True), finished
    assert sandbox.run({"main.py": SHARED}, limits=limits).stdout == b"64\n"  # what forks have in common counts once


def test_one_process_is_bounded_without_a_control_group(without_groups):
    sandbox = Sandbox(allow_unisolated=True)
    program = "import time\nblocks = [b'x' * (1 << 24) for _ in range(100)]\ntime.sleep(30)"
    assert sandbox.run({"main.py": program}, limits=Limits(memory=256 * MIB)).stop == "memory"


def test_processor_time_is_counted_for_each_process_with_all_its_threads():
    sandbox = Sandbox(allow_unisolated=True)
    limits = Limits(cpu_seconds=1, wall_seconds=20)
    burn = "import os, threading, time\ndef burn():\n    while time.process_time() < {}: pass\n"
    children = burn.format(0.7) + "pids = [os.fork()]\nburn()\nif 0 not in pids:\n"
    children += "    for pid in pids: os.waitpid(pid, 0)\n    print('done')"
    assert sandbox.run({"main.py": children}, limits=limits).stdout == b"done\n"
    threads = burn.format(1.6) + "ts = [threading.Thread(target=burn) for _ in range(4)]\n[t.start() for t in ts]"
    assert sandbox.run({"main.py": threads}, limits=limits).stop == "time"


def test_shares_add_up():
    assert sandbox_memory.own_memory(os.getpid()) > MIB
    assert sandbox_memory.share_of_memory(os.getpid()) > MIB
    assert sandbox_memory.own_memory(999999999) == 0
