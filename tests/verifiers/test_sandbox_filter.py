"""The filter of system calls: what it lets through, on both architectures, and in every kind of isolation."""

import errno
import functools
import struct

import pytest

from agon_env.verifiers import sandbox as sandboxes
from agon_env.verifiers import sandbox_filter, sandbox_isolation
from agon_env.verifiers.sandbox import Limits, Sandbox, SandboxError
from agon_env.verifiers.sandbox_filter import ALLOW, ARCHITECTURES, CLONE, ERRNO, IOCTL, KILL, MISSING, REFUSED, SOCKETS

WAYS = [*sandbox_isolation.ways(), "none"]


@functools.cache
def protections(name):
    try:
        return sandboxes._protections(sandbox_isolation.ways().get(name), None, False)
    except (SandboxError, OSError) as error:
        if "did not finish" in str(error):  # the probe was reached, and is broken
            raise
        pytest.skip(f"does not work here: {error}")


@pytest.fixture(params=WAYS)
def sandbox(request):
    if sandbox_filter.this_architecture() is None:
        pytest.skip("the system calls of this machine are not known")
    protections(request.param)
    made = Sandbox(allow_unisolated=True)
    made._way = sandbox_isolation.ways().get(request.param)
    return made


def verdict(name, number, *arguments, audit=None):
    """Interpret the filter as the kernel does."""
    architecture = ARCHITECTURES[name]
    low_words = [word for value in (*arguments, 0, 0)[:2] for word in (value & 0xFFFFFFFF, value >> 32)]
    audit = architecture.audit if audit is None else audit
    data = struct.pack("<4I", number, audit, 0, 0) + struct.pack(f"<{len(low_words)}I", *low_words)
    code = sandbox_filter.assembled(architecture)
    place, value = 0, None
    while True:
        operation, yes, no, constant = struct.unpack_from("=HBBI", code, 8 * place)
        place += 1
        if operation == sandbox_filter.RETURN:
            return constant
        if operation == sandbox_filter.LOAD:
            (value,) = struct.unpack_from("<I", data, constant)
        else:
            holds = {
                sandbox_filter.IF_EQUAL: value == constant,
                sandbox_filter.IF_GREATER_EQUAL: value >= constant,
                sandbox_filter.IF_ANY_BIT: bool(value & constant),
            }[operation]
            place += yes if holds else no


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_each_call_has_its_verdict(name):
    column = ARCHITECTURES[name].column
    not_permitted, not_there = ERRNO | errno.EPERM, ERRNO | errno.ENOSYS
    assert {verdict(name, numbers[column]) for numbers in REFUSED.values()} == {not_permitted}
    assert {verdict(name, numbers[column]) for numbers in MISSING.values()} == {not_there}
    for numbers in SOCKETS.values():
        allowed = [family for family in range(50) if verdict(name, numbers[column], family) == ALLOW]
        assert allowed == [1, 2, 10, 16]  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK
        assert verdict(name, numbers[column], 40) == not_permitted
        assert verdict(name, numbers[column], 40 | 1 << 32) == not_permitted  # the kernel reads the lower half
    clone = CLONE[column]
    assert verdict(name, clone, 0x3D0F00) == verdict(name, clone, 17) == ALLOW  # a thread of glibc, a fork
    flags = [1 << bit for bit in range(32) if verdict(name, clone, 1 << bit | 17) == not_permitted]
    assert flags == [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]
    assert {verdict(name, IOCTL[column], 1, command) for command in sandbox_filter.RESERVING} == {not_permitted}
    assert verdict(name, IOCTL[column], 0x4030_5828, 0x5401) == ALLOW  # what a terminal is asked, of a file with an odd number
    special = {*ARCHITECTURES[name].refused, clone, *(numbers[column] for numbers in SOCKETS.values())}
    assert {verdict(name, number) for number in range(480) if number not in special} == {ALLOW}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_other_numberings_are_no_way_around(name):
    assert verdict(name, 11, audit=0x40000003) == KILL  # i386
    assert verdict(name, 41 | 0x40000000, 40) == ERRNO | errno.ENOSYS  # x32


def test_the_protections_name_a_filter_that_did_not_take(sandbox, monkeypatch):
    def tried():
        return sandboxes._protections.__wrapped__(sandbox._way, None, False)

    assert tried()["system calls"]
    assert tried()["namespaces"]
    monkeypatch.setattr(sandboxes, "assembled", lambda architecture: b"")
    assert not tried()["system calls"]


ATTEMPTS = {
    "a socket to the host": "import socket\nsocket.socket(40, socket.SOCK_STREAM)",
    "a pair of sockets of another family": "import socket\nsocket.socketpair(40)",
    "cryptography of the kernel": "import socket\nsocket.socket(38, socket.SOCK_SEQPACKET)",
    "a user namespace": "call(libc.unshare, 0x10000000)",
    "a file system beyond the limit of the folder": "call(libc.unshare, 0x10020000)\n"
    "call(libc.mount, b'tmpfs', b'.', b'tmpfs', 0, None)",
    "memory that belongs to no process": "import os\nos.memfd_create('x')",
    "shared memory": "call(libc.shmget, 0, 1 << 20, 0o1600)",
    "messages that belong to no process": "call(libc.msgget, 0, 0o1600)",
    "semaphores that belong to no process": "call(libc.semget, 0, 100, 0o1600)",
    "space on the disk of the grader": "call(libc.fallocate, 1, 1, ctypes.c_long(0), ctypes.c_long(1 << 20))",
    "the same in another way": "import fcntl, struct\n"
    "fcntl.ioctl(1, 0x4030582A, struct.pack('hhqqiI16x', 0, 0, 0, 1 << 20, 0, 0))",
    "attributes of a file of the grader": "os.setxattr(1, 'user.agon', b'x' * 1000)",
    "a key": "call(libc.syscall, 250, 0, -3, 1) if os.uname().machine == 'x86_64' else call(libc.syscall, 219, 0, -3, 1)",
    "tracing": "import time\npid = os.fork() or time.sleep(20)\n"
    "try: call(libc.ptrace, 16, pid, 0, 0)\nfinally: os.kill(pid, 9)",
    "the memory of the first process": "open('/proc/1/mem', 'r+b')",
    "the files of the first process": "open(f'/proc/1/fd/{next(iter(os.listdir(\"/proc/1/fd\")))}', 'r+b')",
}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_attempts_fail(sandbox, name):
    if "first process" in name and sandbox._way is None:
        pytest.skip("there is no first process of its own")
    program = (
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "def call(function, *arguments):\n    if function(*arguments) < 0: raise OSError(ctypes.get_errno(), 'no')\n"
    )
    attempt = "\n".join("    " + line for line in ATTEMPTS[name].split("\n"))
    program += f"try:\n{attempt}\nexcept (OSError, StopIteration): print('refused')\nelse: print('could')"
    finished = sandbox.run({"main.py": program})
    assert finished.stdout == b"refused\n", finished


HONEST = {
    "threads": "import threading\nts = [threading.Thread(target=lambda: None) for _ in range(8)]\n"
    "[t.start() for t in ts]\n[t.join() for t in ts]\nprint(8)",
    "processes": "import multiprocessing as m\ndef f(pipe): pipe.send(3 + pipe.recv())\nif __name__ == '__main__':\n"
    "    ours, theirs = m.Pipe()\n    child = m.Process(target=f, args=(theirs,))\n    child.start()\n    ours.send(5)\n"
    "    print(ours.recv())\n    child.join()",
    "an executor": "from concurrent.futures import ThreadPoolExecutor\n"
    "with ThreadPoolExecutor(2) as pool: print(sum(pool.map(abs, [-3, -5])))",
    "a command": "import subprocess\nprint(subprocess.run('echo 8', shell=True, capture_output=True).stdout.decode().strip())",
    "a program that starts itself": "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'print(8)'], check=True)",
    "asyncio": "import asyncio\nasync def f(): await asyncio.sleep(0.01); return 8\nprint(asyncio.run(f()))",
    "a server of its own": "import asyncio, os\nasync def answer(reader, writer):\n    writer.write(b'8'); writer.close()\n"
    "async def main():\n    server = await asyncio.start_unix_server(answer, 's')\n"
    "    reader, _ = await asyncio.open_unix_connection('s')\n    print((await reader.read()).decode())\nasyncio.run(main())",
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_programs_work(sandbox, name):
    finished = sandbox.run({"main.py": HONEST[name]}, limits=Limits())
    assert (finished.stdout, finished.exit_code) == (b"8\n", 0), finished


def test_numpy_works(sandbox):
    pytest.importorskip("numpy")
    with_packages = Sandbox(site_packages=True, allow_unisolated=True)
    with_packages._way = sandbox._way
    program = "import numpy\nprint(int((numpy.eye(8) @ numpy.ones(8)).sum()), numpy.linalg.solve(numpy.eye(2), [1, 2])[1])"
    finished = with_packages.run({"main.py": program}, limits=Limits())
    if "No module named 'numpy'" in finished.stderr:
        pytest.skip("numpy is not installed for the interpreter of the programs")
    assert finished.stdout == b"8 2.0\n", finished
