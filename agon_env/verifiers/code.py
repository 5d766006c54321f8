"""`CodeVerifier`: does a program do what its tests ask?"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from agon_env.verifiers.code_extraction import extract_program, strip_fence
from agon_env.verifiers.code_output import same_output
from agon_env.verifiers.code_tests import BadTests, CodeTests
from agon_env.verifiers.rescoring import ForeignRow, Judgement
from agon_env.verifiers.sandbox import Finished, Limits, Sandbox, SandboxError
from agon_env.verifiers.verdict import Verdict

Result = Literal["pass", "fail", "timeout", "killed", "error"]

FOLDER = Path(__file__).parent / "inside"
HOST, HARNESS = (
    {name: (FOLDER / name).read_text(encoding="utf-8") for name in names}
    for names in (("host.py", "wire.py"), ("harness.py", "names.py", "proxies.py", "session.py", "wire.py"))
)
"""The files of the process with the program, and of the one with the tests; each starts with the first."""
UNISOLATED = "AGON_ALLOW_UNISOLATED"
"""Environment variable that, set to 1, stands for `allow_unisolated=True` everywhere."""
HARNESS_SECONDS = 2.0
"""What the process that runs the tests has beyond the program's time."""

# Twice as many programs as cores run at a time: enough to use the machine while some of them sleep, few enough
# for each of them to get its processor time within the limit on the clock.
_SLOTS = threading.BoundedSemaphore(2 * (os.cpu_count() or 1))


@dataclass(frozen=True)
class CodeVerdict:
    """What came of running one program against its tests."""

    result: Result
    """"timeout" and "killed" name the bound that stopped the program; "error" says that it could not be judged."""
    reason: str
    """A sentence."""
    seconds: float

    @property
    def score(self) -> float | None:
        """1.0 if all tests passed, 0.0 if not, None if that is not known."""
        return None if self.result == "error" else float(self.result == "pass")


@dataclass(frozen=True)
class CodeVerifier:
    """Runs programs in a sandbox against tests that they can't see.

    As a verifier of completions it takes the last Python block of a text (see `extract_program`), and golds as
    `CodeTests.to_json` writes them. The reasons of a verdict are "pass", "fail", "timeout", "killed", "no program",
    "too long", and with the score None "bad tests" and "error".
    """

    out_of_process: ClassVar[bool] = True
    """Programs are processes; see `agon_env.verifiers.ahead`."""

    limits: Limits = field(default_factory=Limits)
    """Bounds on one run: each test of kind "stdio" is one, all tests of another kind together are one."""
    max_chars: int = 100_000
    """Longer programs are not run."""
    python: str | None = None
    """Interpreter of the programs; see `Sandbox`."""
    site_packages: bool = False
    """Let programs import installed packages, for example numpy."""
    allow_unisolated: bool = False
    """Run programs even where this machine can't shut them off."""

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox; the choice of its isolation is made once per process.

        Raises:
            SandboxUnavailable: there is no isolation here, and it is not allowed to go without.
        """
        return _sandbox(self.python, self.site_packages, self.allow_unisolated or os.environ.get(UNISOLATED) == "1")

    def with_deadline(self, cpu_seconds: float) -> CodeVerifier:
        """Return the same verifier with another bound on processor time; the one on the clock goes with it."""
        factor = self.limits.wall_seconds / self.limits.cpu_seconds
        return replace(self, limits=replace(self.limits, cpu_seconds=cpu_seconds, wall_seconds=max(5.0, cpu_seconds * factor)))

    def judge(self, program: str, tests: CodeTests) -> CodeVerdict:
        """Run a program, given as Python text, against tests until the first one that fails. Safe from any thread.

        Raises:
            SandboxUnavailable: see `sandbox`.
        """
        sandbox = self.sandbox
        with _SLOTS:
            start = time.monotonic()
            result, reason = self._judge(sandbox, program, tests)
            return CodeVerdict(result, reason, time.monotonic() - start)

    def score(self, completion: str, gold: str) -> Verdict:
        """Judge the program in a text: 1.0 if it passes the tests in `gold`, 0.0 if not, None if that can't be known."""
        try:
            tests = CodeTests.from_json(gold)
        except BadTests:
            return Verdict(None, None, "bad tests")
        program = extract_program(completion)
        if program is None:
            return Verdict(0.0, None, "no program")
        if len(program) > self.max_chars:
            return Verdict(0.0, program[: self.max_chars], "too long")
        key = hashlib.sha256(repr((self, program, gold)).encode("utf-8", "surrogatepass")).digest()
        result = _settled.get(key)
        if result is None:
            result = self.judge(program, tests).result
            if result in ("pass", "fail"):
                _remember(key, result)
        score = None if result == "error" else float(result == "pass")
        return Verdict(score, program, result)

    def extract(self, completion: str, gold: str) -> str | None:
        """Return the program in a text."""
        program = extract_program(completion)
        return None if program is None else program[: self.max_chars]

    def score_many(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        """Judge many `(completion, gold)` pairs, in order; equal pairs once, side by side."""
        different = list(dict.fromkeys(pairs))
        if len(different) == 1:
            verdicts = [self.score(*different[0])]
        else:
            with ThreadPoolExecutor(max(1, min(len(different), 2 * (os.cpu_count() or 1)))) as threads:
                verdicts = list(threads.map(lambda pair: self.score(*pair), different))
        known = dict(zip(different, verdicts, strict=True))
        return [known[pair] for pair in pairs]

    def _judge(self, sandbox: Sandbox, program: str, tests: CodeTests) -> tuple[Result, str]:
        if not tests.tests:
            return "fail", "no tests"
        if len(program) > self.max_chars:
            return "fail", f"the program has more than {self.max_chars} characters"
        try:
            if tests.kind == "stdio":
                return _judge_output(sandbox, program, tests, self.limits)
            return _judge_values(sandbox, program, tests, self.limits)
        except (SandboxError, OSError) as error:
            return "error", str(error)


def judge_row(verifier: CodeVerifier, row: Mapping[str, Any]) -> Judgement:
    """Judge the `program` of a row with `kind` and `tests`; for `verify_lines`.

    Raises:
        ForeignRow: it is another kind of row.
    """
    program = row.get("program")
    if not isinstance(program, str):
        raise ForeignRow('a row needs "kind", "tests" and the text "program"')
    try:
        tests = CodeTests.from_dict(row)
    except BadTests as error:
        raise ForeignRow(str(error)) from None
    verdict = verifier.judge(strip_fence(program), tests)
    return Judgement(verdict.score, verdict.result, verdict.reason)


def _judge_output(sandbox: Sandbox, program: str, tests: CodeTests, limits: Limits) -> tuple[Result, str]:
    """Run the program once for each test; what it should print never enters the sandbox."""
    for number, test in enumerate(tests.tests, 1):
        stdin = test["input"].encode("utf-8", "surrogatepass")
        finished = sandbox.run({"main.py": program}, stdin=stdin, limits=limits)
        if stopped := _stopped(finished):
            return stopped[0], f"test {number}: {stopped[1]}"
        if not same_output(finished.stdout.decode("utf-8", "surrogateescape"), test["output"]):
            return "fail", f"test {number}: wrong output"
    return "pass", "passed"


def _judge_values(sandbox: Sandbox, program: str, tests: CodeTests, limits: Limits) -> tuple[Result, str]:
    """Run the tests in one sandbox and the program in another; see `inside.harness` and `inside.host`."""
    job = {
        "kind": tests.kind,
        "sources": [source for source in (tests.prelude, program) if source],
        "prelude": tests.prelude,
        "setup": tests.setup,
        "tests": tests.tests,
        "entry_point": tests.function,
        "function": tests.function,
    }
    more = replace(limits, cpu_seconds=limits.cpu_seconds + HARNESS_SECONDS)
    host_reads, harness_writes = os.pipe()
    harness_reads, host_writes = os.pipe()
    ours = {host_reads, harness_writes, harness_reads, host_writes}
    try:
        with sandbox.start(
            HOST,
            ["host.py", str(host_reads), str(host_writes)],
            limits=limits,
            pass_fds=(host_reads, host_writes),
        ) as host:
            for fd in (host_reads, host_writes):
                os.close(fd)
                ours.remove(fd)
            finished = sandbox.run(
                HARNESS,
                ["harness.py", str(harness_reads), str(harness_writes)],
                stdin=json.dumps(job).encode("ascii"),
                limits=more,
                pass_fds=(harness_reads, harness_writes),
            )
            verdict = _read_verdict(finished)
            if verdict is None:  # the program never learns of the tests, but it can send more than they can hold
                return _stopped(finished) or ("fail", "the values of the program could not be compared")
            if verdict[0] != "ended":
                return verdict
            for fd in (harness_reads, harness_writes):
                os.close(fd)
                ours.remove(fd)
            return _stopped(host.wait(seconds=1.0)) or ("fail", "the program ended before its tests did")
    finally:
        for fd in ours:
            os.close(fd)


def _read_verdict(finished: Finished) -> tuple[Result, str] | None:
    try:
        verdict = json.loads(finished.stdout)
    except ValueError:
        return None
    return verdict["verdict"], verdict["reason"]


def _stopped(finished: Finished) -> tuple[Result, str] | None:
    """Return the verdict on a program that did not end well, None if it did."""
    if finished.stop == "time":
        return "timeout", "out of time"
    if finished.stop:
        words = {"memory": "out of memory", "output": "too much output", "signal": "killed by SIGKILL"}
        return "killed", words[finished.stop]
    if finished.exit_code:
        last = finished.stderr.strip().rsplit("\n", 1)[-1][:200]
        return "fail", f"exit code {finished.exit_code}" + (f": {last}" if last else "")
    return None


# A policy repeats itself, and so do checks and replays: what was settled once is not run again.
_settled: dict[bytes, Result] = {}
MOST_SETTLED = 20_000


def _remember(key: bytes, result: Result) -> None:
    if len(_settled) >= MOST_SETTLED:
        _settled.clear()
    _settled[key] = result


@functools.cache
def _sandbox(python: str | None, site_packages: bool, allow_unisolated: bool) -> Sandbox:
    return Sandbox(python=python, site_packages=site_packages, allow_unisolated=allow_unisolated)
