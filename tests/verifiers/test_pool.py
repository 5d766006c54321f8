"""The worker pool: lazy, process-wide, and gone when the process is."""

import json
import os
import subprocess
import sys
import time

import pytest
from slow_worker import HANG

from agon_env.verifiers import pool as pools
from agon_env.verifiers.expression import parse


def run(program, **options):
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, **options).stdout


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] != "Z"


def test_simple_answers_start_no_worker_and_import_no_sympy():
    program = r"""
import sys
from agon_env.verifiers import MathVerifier
from agon_env.verifiers.pool import shared_pool
pairs = [(r"\boxed{7}", "7"), (r"\boxed{\frac{14}{4}}", "3.5"), (r"\boxed{yes}", "Yes"), (r"\boxed{(1,2)}", "(1,2)")]
print([v.score for v in MathVerifier().score_many(pairs)], shared_pool().started, {"sympy", "math_verify"} & set(sys.modules))
"""
    assert run(program).strip() == "[1.0, 1.0, 1.0, 1.0] 0 set()"


PIDS = r"""
import json
from agon_env.verifiers import MathVerifier
from agon_env.verifiers.pool import shared_pool
assert MathVerifier().score(r"\boxed{\sqrt{8}}", r"2\sqrt{2}").score == 1.0
print(json.dumps([worker._process.pid for worker in shared_pool()._all]), flush=True)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize("end", ["", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"])
def test_workers_end_with_the_process_however_it_ends(end):
    done = subprocess.run([sys.executable, "-c", PIDS + end], capture_output=True, text=True, timeout=60, check=False)
    pids = json.loads(done.stdout)
    assert pids
    deadline = time.monotonic() + 10
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, pids))


def test_a_script_without_a_main_guard_is_no_trap(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(PIDS, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=True, env=environment()
    )
    assert len(json.loads(done.stdout)) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_starts_its_own_workers():
    program = PIDS + (
        "import os\n"
        "if os.fork() == 0:\n"
        "    assert shared_pool().started == 0\n"
        "    assert MathVerifier().score(r'\\boxed{\\sqrt{12}}', r'2\\sqrt{3}').score == 1.0\n"
        "    shared_pool().close(); os._exit(0)\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]), MathVerifier().score(r'\\boxed{\\sqrt{18}}', r'3\\sqrt{2}').score)\n"
    )
    assert run(program).split("\n")[1] == "0 1.0"


def test_a_pool_reuses_a_worker_and_replaces_a_dead_one():
    pool = pools.WorkerPool(size=1, module="slow_worker")
    root, same = parse(r"\sqrt{8}"), parse(r"2\sqrt{2}")
    try:
        assert pool.compare("equal", root, same, deadline=5)[0]
        [first] = pool._all
        assert not pool.compare("equal", root, parse(r"\sqrt{7}"), deadline=5)[0]
        assert pool._all == {first}
        first.kill()
        assert pool.compare("equal", root, same, deadline=5)[0]
        assert pool.started == 1
        assert first not in pool._all
        with pytest.raises(pools.WorkerTimeout):
            pool.compare("equal", parse(HANG), root, deadline=0.3)
        assert pool.started == 0
        with pytest.raises(pools.WorkerFailed, match="KeyError"):
            pool.compare("equal", ("fn", "no such function", root), same, deadline=5)
        assert pool.started == 1
    finally:
        pool.close()
    assert pool.started == 0


def test_a_worker_that_cannot_start_is_no_verdict(monkeypatch, tmp_path):
    (tmp_path / "sympy.py").write_text("raise ImportError('broken')", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    pool = pools.WorkerPool(size=1)
    with pytest.raises(RuntimeError, match=r"did not start.*agon_env\.verifiers\.worker"):
        pool.compare("equal", parse("x"), parse("x"), deadline=5)
    assert pool.started == 0


def test_workers_killed_at_every_start_cost_a_verdict_once_others_have_worked(monkeypatch):
    x, y = parse("x"), parse("y")
    pool = pools.WorkerPool(size=1)
    try:
        assert pool.compare("equal", x, x, deadline=5)[0]
        pool.close()
        start = pools.Worker.__init__

        def doomed(self, module):
            start(self, module)
            self._process.kill()

        monkeypatch.setattr(pools.Worker, "__init__", doomed)
        with pytest.raises(pools.WorkerFailed, match="did not start"):
            pool.compare("equal", x, y, deadline=5)
        monkeypatch.setattr(pools.Worker, "__init__", start)
        assert not pool.compare("equal", x, y, deadline=5)[0]
    finally:
        pool.close()


def test_a_death_is_noticed_although_another_process_holds_its_pipe_open(monkeypatch):
    monkeypatch.setattr(pools.Worker, "_read", lambda self: None)  # the end of the pipe is never seen
    worker = pools.Worker("agon_env.verifiers.worker")
    worker._process.kill()
    with pytest.raises(pools.WorkerFailed, match="died"):  # and not WorkerTimeout
        worker._reply(30)
    worker.kill()


def test_a_worker_killed_while_it_starts_is_replaced(monkeypatch):
    started = []

    class Victim(pools.Worker):
        def __init__(self, module):
            super().__init__(module)
            started.append(self)
            if len(started) == 1:
                self._process.kill()

    monkeypatch.setattr(pools, "Worker", Victim)
    pool = pools.WorkerPool(size=1)
    try:
        assert pool.compare("equal", parse(r"\sqrt{8}"), parse(r"2\sqrt{2}"), deadline=5)[0]
        assert pool._all == {started[1]}
    finally:
        pool.close()


def environment():
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
