"""The sandbox: what programs can't do in it, in every kind of isolation that this machine offers."""

import os
import resource
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from agon_env.verifiers import sandbox as sandboxes
from agon_env.verifiers import sandbox_isolation
from agon_env.verifiers.sandbox import ESSENTIAL, Limits, Sandbox, SandboxError, SandboxUnavailable

MIB = 1 << 20
LIMITS = Limits(cpu_seconds=1, wall_seconds=8, memory=256 * MIB, file_size=8 * MIB, folder_size=16 * MIB, processes=24)


def usable_ways():
    usable = []
    for name, way in sandbox_isolation.ways().items():
        try:
            holds = sandboxes._protections(way, None, False)
        except (SandboxError, OSError):
            continue
        if all(holds[what] for what in ESSENTIAL):
            usable.append(name)
    return usable


WAYS = usable_ways()


@pytest.fixture(params=WAYS or [pytest.param("", marks=pytest.mark.skip(reason="this machine offers no isolation"))])
def sandbox(request):
    made = Sandbox()
    made._way = sandbox_isolation.ways()[request.param]
    made.isolation = request.param
    return made


@pytest.fixture
def any_sandbox():
    return Sandbox(allow_unisolated=True)


def run(sandbox, program, limits=LIMITS, **options):
    return sandbox.run({"main.py": program}, limits=limits, **options)


def output(sandbox, program, **options):
    finished = run(sandbox, program, **options)
    assert finished.exit_code == 0, finished
    return finished.stdout.decode()


def processes():
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", encoding="utf-8", errors="replace") as file:
                    found.append(file.read())
            except OSError:
                continue
    return found


def gone(mark, seconds=5.0):
    deadline = time.monotonic() + seconds
    while any(mark in line for line in processes()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_all_protections_are_tried_and_hold(sandbox):
    holds = sandbox.protections()
    assert set(ESSENTIAL) < set(holds)
    assert all(held for what, held in holds.items() if what != "total memory"), holds


@pytest.mark.parametrize("name", sandbox_isolation.ways())
def test_a_way_that_can_be_set_up_protects(name):
    """Else it would be passed over for a lesser one, and for these tests too."""
    try:
        holds = sandboxes._protections(sandbox_isolation.ways()[name], None, False)
    except (SandboxError, OSError) as error:
        pytest.skip(f"does not work here: {error}")
    assert {what: held for what, held in holds.items() if what in ESSENTIAL} == dict.fromkeys(ESSENTIAL, True)


def test_a_program_of_root_is_another_user_where_its_sandbox_says_so(sandbox):
    if "another user" not in sandbox.isolation:
        pytest.skip("this one keeps the user, in a namespace of its own")
    *ids, groups = output(sandbox, "import os\nprint(*os.getresuid(), *os.getresgid(), len(os.getgroups()))").split()
    assert len({*ids}) == 1
    assert int(ids[0]) >= 30_000
    assert groups == "0"


def test_input_output_errors_and_exit_code(any_sandbox):
    finished = run(any_sandbox, "import sys\nprint(input()[::-1])\nprint('oh', file=sys.stderr)\nsys.exit(3)", stdin=b"abc\n")
    assert (finished.exit_code, finished.stdout, finished.stderr, finished.stop) == (3, b"cba\n", "oh\n", None)
    assert run(any_sandbox, "import os\nos.kill(os.getpid(), 11)").exit_code == 128 + 11


@pytest.mark.parametrize(
    "program",
    [
        "import sys\nprint(sys.stdin.buffer.read().decode(), end='')",
        "print(open(0).read(), end='')",
        "print(open('/dev/stdin').read(), end='')",
        "import os\nprint(os.read(0, 100).decode(), end='')",
        "import sys\nfor line in sys.stdin: print(line, end='')",
        "import fileinput\nfor line in fileinput.input(): print(line, end='')",
        "print(input())\nprint(input())\ntry: input()\nexcept EOFError: pass",
        "import subprocess\nprint(subprocess.run(['cat'], capture_output=True, text=True).stdout, end='')",
    ],
)
def test_every_idiom_of_reading_works(sandbox, program):
    assert output(sandbox, program, stdin=b"one\ntwo\n") == "one\ntwo\n"


def test_there_is_no_network(sandbox):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        program = (
            f"import socket\nfor address in ('127.0.0.1', '10.0.0.1', '8.8.8.8'):\n    try:\n"
            f"        socket.create_connection((address, {port}), timeout=1)\n        print('connected')\n"
            f"    except OSError: pass\n"
            "try: socket.getaddrinfo('example.com', 80); print('resolved')\nexcept OSError: pass"
        )
        assert output(sandbox, program) == ""


def test_files_of_the_machine_are_hidden(sandbox, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret", encoding="utf-8")
    secret.chmod(0o644)
    program = (
        f"import os\nfor path in ({str(secret)!r}, {__file__!r}, '/etc/passwd', '/etc/shadow', '/var', '/home',"
        f" '/proc/{os.getpid()}', '/sys', '/run'):\n"
        "    try: print(path, open(path).read(9) if not os.path.isdir(path) else os.listdir(path))\n    except OSError: pass\n"
        "try: import agon_env; print('agon_env')\nexcept ImportError: pass"
    )
    assert output(sandbox, program) == ""


def test_writing_works_in_its_folder_alone_and_leaves_nothing(sandbox):
    program = (
        "import os, tempfile, pathlib\nopen('here.txt', 'w').write('x')\nprint(open('here.txt').read(), os.listdir('..'))\n"
        "tempfile.TemporaryFile().write(b'x')\n"
        "places = ['/', '/tmp', '/usr/bin', '/usr/lib', '/dev', '/dev/shm', '/proc', '/var/tmp', '..', '/bin']\n"
        "places.append(os.path.expanduser('~'))\n"
        "for place in places + [os.path.dirname(os.__file__)]:\n"
        "    for action in (lambda p: open(p + '/agon-x', 'w').close(), lambda p: os.mkdir(p + '/agon-d'),"
        " lambda p: os.symlink('/etc', p + '/agon-l')):\n"
        "        try: action(place); print('wrote', place)\n        except OSError: pass\n"
        "os.symlink('/proc/self/root/etc', 'link')\n"
        "try: open('link/agon', 'w'); print('through a link')\nexcept OSError: pass"
    )
    assert output(sandbox, program) == "x ['run']\n"
    assert output(sandbox, "import os\nprint(os.listdir('.'))") == "['main.py']\n"


def test_the_environment_is_its_own(sandbox, monkeypatch):
    monkeypatch.setenv("MY_SECRET_TOKEN", "hush")
    program = (
        "import os, glob\nprint('MY_SECRET_TOKEN' in os.environ)\nfor path in glob.glob('/proc/*/environ'):\n"
        "    try: print('hush' in open(path, errors='ignore').read())\n    except OSError: print(False)"
    )
    assert set(output(sandbox, program).split()) == {"False"}


def test_limits_and_privileges_cannot_be_raised(sandbox):
    program = (
        "import os, resource as r, ctypes\nlibc = ctypes.CDLL(None)\n"
        "for kind in (r.RLIMIT_CPU, r.RLIMIT_AS, r.RLIMIT_NPROC, r.RLIMIT_FSIZE, r.RLIMIT_NOFILE):\n"
        "    try: r.setrlimit(kind, (r.RLIM_INFINITY, r.RLIM_INFINITY)); print('raised', kind)\n"
        "    except (ValueError, OSError): pass\n"
        "for change in (lambda: os.setgroups([0]), lambda: os.chroot('/'), lambda: os.mknod('sda', 0o60600, 0x800)):\n"
        "    try: change(); print('could')\n    except OSError: pass\n"
        "if os.getuid():\n    try: os.setuid(0); print('root')\n    except OSError: pass\n"
        "if libc.mount(b'tmpfs', b'/usr', b'tmpfs', 0, None) == 0: print('mounted')\n"
        "try: os.sethostname('x'); print('renamed')\nexcept (OSError, AttributeError): pass"
    )
    assert output(sandbox, program) == ""


def test_inherited_descriptors_are_the_three_streams(sandbox):
    program = "import os\nfds = os.listdir('/proc/self/fd')\nprint(len(fds) - 1, sorted(map(int, fds))[:3])"
    assert output(sandbox, program) == "3 [0, 1, 2]\n"


STOPPED = {
    "endless loop": ("while True: pass", "time"),
    "ignores signals": (
        "import signal\nfor s in range(1, 32):\n    try: signal.signal(s, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\n"
        "while True: pass",
        "time",
    ),
    "big number": ("x = 7 ** (7 ** 9)", "time"),
    "backtracking": ("import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')", "time"),
    "too much memory": ("x = [bytearray(b'x') * (16 << 20) for _ in range(64)]", "memory"),
    "one big block": ("x = b'x' * (1 << 40)", "memory"),
    "output flood": ("while True: print('x' * 10000)", "output"),
    "output without line ends": ("import os\nwhile True: os.write(1, b'x' * 1000000)", "output"),
    "error flood": ("import sys\nwhile True: print('x' * 10000, file=sys.stderr)", None),
    "big file": ("with open('big', 'wb') as f:\n    for _ in range(64): f.write(b'0' * (1 << 20)); f.flush()", None),
    "many files": ("for i in range(10**4):\n    open(str(i), 'wb').write(b'0' * 10000)", None),
    "many processes": ("import os, time\nfor _ in range(400):\n    if os.fork() == 0: time.sleep(60)", None),
    "many threads": (
        "import threading, time\nfor _ in range(400): threading.Thread(target=time.sleep, args=(2,)).start()",
        None,
    ),
    "kills its group": ("import os\nos.kill(0, 9)", "signal"),
    "deep recursion": (
        "import sys\nsys.setrecursionlimit(10**9)\n"
        "class R:\n    def __getattr__(self, k): return getattr(self, k + 'x')\nR().a",
        None,
    ),
}


@pytest.mark.parametrize("name", ["endless loop", "too much memory", "many processes", "kills its group"])
def test_every_isolation_tells_why_a_program_was_stopped(sandbox, name):
    program, stop = STOPPED[name]
    assert run(sandbox, program).stop == stop


@pytest.mark.parametrize(("program", "stop"), STOPPED.values(), ids=STOPPED.keys())
def test_greed_is_stopped(any_sandbox, program, stop):
    start = time.monotonic()
    finished = run(any_sandbox, program)
    assert finished.exit_code != 0 or finished.stop == "time"
    assert stop is None or finished.stop == stop
    assert len(finished.stdout) <= LIMITS.file_size
    assert time.monotonic() - start < LIMITS.wall_seconds + 20


@pytest.mark.parametrize(
    "program",
    ["import time\ntime.sleep(10**6)", "import os\nos.kill(os.getpid(), 19)", "import threading\nthreading.Event().wait()"],
    ids=["sleeps", "stops itself", "waits for ever"],
)
def test_doing_nothing_ends_at_the_limit_on_the_clock(any_sandbox, program):
    start = time.monotonic()
    assert run(any_sandbox, program, Limits(wall_seconds=1.5)).stop == "time"
    assert 1.4 < time.monotonic() - start < 15


ORPHANS = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(s, signal.SIG_IGN)
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, '-c', 'import time; time.sleep(300)', '{mark}'])
    os._exit(0)
os.wait()
time.sleep({wait})
print('done', flush=True)
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks into /proc")
@pytest.mark.parametrize("wait", [0.1, 300])
def test_daemons_end_with_the_program(any_sandbox, wait):
    mark = f"agon-orphan-{os.getpid()}-{wait}"
    finished = run(any_sandbox, ORPHANS.format(mark=mark, wait=wait), Limits(wall_seconds=2))
    assert finished.stop == (None if wait < 1 else "time")
    assert gone(mark)


def test_a_deep_tree_of_folders_is_removed(any_sandbox):
    program = "import os\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\nprint(1)"
    before = set(os.listdir(sandboxes.tempfile.gettempdir()))
    assert output(any_sandbox, program) == "1\n"
    left = set(os.listdir(sandboxes.tempfile.gettempdir())) - before
    assert not [
        name
        for name in left
        if name.startswith("agon-sandbox-") and os.listdir(os.path.join(sandboxes.tempfile.gettempdir(), name))
    ]


def test_a_large_stack_and_deep_recursion_are_legal(any_sandbox):
    program = (
        "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(256 << 20)\n"
        "def depth(n): return 0 if n == 0 else 1 + depth(n - 1)\n"
        "t = threading.Thread(target=lambda: print(depth(100000)))\nt.start()\nt.join()"
    )
    assert run(any_sandbox, program, Limits()).stdout == b"100000\n"


@pytest.mark.parametrize("wanted", ["(-1, -1)", "(resource.RLIM_INFINITY, resource.RLIM_INFINITY)", "(1 << 28, -1)"])
@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_STACK)[1] != -1, reason="the stack is bounded on this machine")
def test_idioms_that_ask_for_a_larger_stack_work(sandbox, wanted):
    program = f"import resource\nresource.setrlimit(resource.RLIMIT_STACK, {wanted})\nprint(1)"
    assert output(sandbox, program, limits=Limits()) == "1\n"


def test_many_threads_are_legal(any_sandbox):
    program = (
        "import threading\nbarrier = threading.Barrier(101)\n"
        "for _ in range(100): threading.Thread(target=barrier.wait).start()\nbarrier.wait()\nprint(1)"
    )
    with any_sandbox.start({"main.py": program}, limits=Limits()) as running:
        if "memory" not in running._group.controllers:
            pytest.skip("memory can't be bounded but by address space")
        finished = running.wait()
    assert (finished.stdout, finished.exit_code) == (b"1\n", 0), finished.stderr


def test_many_at_a_time_keep_apart(any_sandbox):
    with ThreadPoolExecutor(8) as threads:
        programs = [f"import time\ntime.sleep(0.05)\nprint(input(), {i})" for i in range(24)]
        results = list(threads.map(lambda i: run(any_sandbox, programs[i], Limits(), stdin=f"in {i}\n".encode()), range(24)))
    assert [result.stdout.decode() for result in results] == [f"in {i} {i}\n" for i in range(24)]


REAPER = """
import ctypes, os, sys
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
from agon_env.verifiers import sandbox_isolation
from agon_env.verifiers.sandbox import Limits, Sandbox
sandbox = Sandbox()
sandbox._way = sandbox_isolation.ways()[sys.argv[1]]
for program in ("print(1)", "import time; time.sleep(60)", "import os; os.kill(os.getpid(), 9)"):
    sandbox.run({"main.py": program}, limits=Limits(wall_seconds=1))
with sandbox.start({"main.py": "import time; time.sleep(60)"}):
    pass
try:
    print("left", os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("none left")
"""


def test_no_zombie_is_left_to_a_grader_that_inherits_orphans(sandbox):
    command = [sys.executable, "-c", REAPER, sandbox.isolation]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "none left\n"


def test_leaving_the_block_kills(any_sandbox):
    mark = f"agon-left-{os.getpid()}"
    with any_sandbox.start({"main.py": "import time\ntime.sleep(300)"}, ["main.py", mark]):
        time.sleep(0.3)
    assert gone(mark)
    assert threading.active_count() < 20


def test_without_isolation_nothing_runs_unless_told(monkeypatch):
    monkeypatch.setattr(sandbox_isolation, "ways", dict)
    sandboxes._find_way.cache_clear()
    try:
        with pytest.raises(SandboxUnavailable, match=r"Install bubblewrap.*allow_unisolated"):
            Sandbox()
        told = Sandbox(allow_unisolated=True)
        assert not told.isolated
        assert output(told, "print(1)", limits=Limits()) == "1\n"
        assert not told.protections()["network"]
    finally:
        sandboxes._find_way.cache_clear()


def test_a_way_that_fails_is_passed_over(monkeypatch):
    real = sandbox_isolation.ways()
    broken = {"broken": lambda layout, size, place: sandbox_isolation.Entry(("/bin/false",), "/")}
    open_ = {"open": sandbox_isolation.nothing}
    monkeypatch.setattr(sandbox_isolation, "ways", lambda: broken | open_ | real)
    sandboxes._find_way.cache_clear()
    try:
        if WAYS:
            assert Sandbox().isolation == WAYS[0]
        else:
            with pytest.raises(SandboxUnavailable, match="broken"):
                Sandbox()
    finally:
        sandboxes._find_way.cache_clear()


def test_a_sandbox_that_cannot_be_set_up_says_nothing_about_the_program(any_sandbox):
    any_sandbox._way = lambda layout, size, place: sandbox_isolation.Entry(("/bin/false",), "/")
    with pytest.raises(SandboxError, match="could not be set up"):
        run(any_sandbox, "print(1)")
