"""`agon verify`."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from algos.commands import DONE
from algos.commands.flags import Count, File, Seconds

if TYPE_CHECKING:
    from agon_env.verifiers.rescoring import Judge

CORES = os.cpu_count() or 1
HALF_OF_THE_CORES = max(1, CORES // 2)


def verify_code(
    file: File,
    workers: Count = CORES,
    deadline: Seconds = 4.0,
    allow_unisolated: bool = False,
) -> int:
    """Judge programs: prints one JSON line for each row of a JSONL file, in order, and a summary last.

    Args:
        file: rows with `kind` ("stdio", "assert" or "call"), `tests` and `program`; see docs/verifiers-code.md.
        workers: programs that are judged at a time.
        deadline: seconds of processor time for each run of a program.
        allow_unisolated: run the programs even if this machine can't shut them off.
    """
    from agon_env.verifiers.code import CodeVerifier, judge_row

    verifier = CodeVerifier(allow_unisolated=allow_unisolated).with_deadline(deadline)
    holds = verifier.sandbox.protections()
    missing = [what for what, protected in holds.items() if not protected]
    Console(stderr=True, highlight=False).print(
        Text(f"sandbox: {verifier.sandbox.isolation}; without protection: {', '.join(missing) or 'nothing'}")
    )
    return _verify(file, lambda row: judge_row(verifier, row), workers=workers)


def verify_math(file: File, workers: Count = HALF_OF_THE_CORES, deadline: Seconds = 3.0) -> int:
    """Judge mathematical answers: prints one JSON line for each row of a JSONL file, in order, and a summary last.

    Args:
        file: rows with `gold` and `completion`; see docs/verifiers.md.
        workers: processes that compare formulas side by side.
        deadline: seconds for one verdict.
    """
    from agon_env.verifiers.math import MathVerifier, judge_row
    from agon_env.verifiers.pool import resize

    resize(workers)
    verifier = MathVerifier(deadline=deadline)
    return _verify(file, lambda row: judge_row(verifier, row), workers=workers)


def _verify(file: Path, judge: Judge, *, workers: int) -> int:
    """Print the results of judging the rows of `file` and a summary; the progress is shown on a terminal."""
    from agon_env.verifiers.rescoring import summary, verify_lines
    from algos.training.console import RunConsole

    if not file.is_file():
        raise FileNotFoundError(f"there is no file {file}")
    start = time.monotonic()
    results = []
    # newline="\n": other characters that Python calls line breaks, such as U+2028, are text
    with open(file, encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
        total = sum(1 for line in lines if line.strip())
        lines.seek(0)
        console = Console(stderr=True)
        with contextlib.ExitStack() as stack:
            tick = stack.enter_context(RunConsole(console).progress("verify", total)) if console.is_terminal else None
            for result in verify_lines(lines, judge, workers=workers):
                results.append(result)
                print(json.dumps(result), flush=True)
                if tick:
                    tick(len(results))
    print(json.dumps(summary(results, seconds=time.monotonic() - start)))
    return DONE


command = {"math": verify_math, "code": verify_code}
