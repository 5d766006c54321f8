"""Runs in a sandbox of its own and holds the tests; asks the process with the program for values, and compares.

A test is run as it is written; the names that it takes from the program lead to proxies. Calls go over the
channel, plain results come back as fresh objects of builtin types, and every comparison is made here, with this
process's own builtins. The only output is one line of JSON.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import io
import json
import operator
import os
import sys
import types
from typing import Any

sys.path.insert(0, os.getcwd())

from names import Names, does_something, helpers
from session import CantJudge, Session
from wire import Channel, Closed, WireError


def run_statements(session: Session, job: dict[str, Any]) -> str | None:
    """Run the tests one by one.

    Returns:
        None if all passed, else what went wrong.
    """
    steps = []
    try:
        copied = helpers(job["prelude"], job["entry_point"])
        # a class in an annotation may be the program's
        code = compile(copied, "prelude", "exec", flags=__future__.annotations.compiler_flag, dont_inherit=True)
        steps.append((0, copied, code))
        for number, text in enumerate((job["setup"], *job["tests"])):
            tree = ast.parse(text.removeprefix("\ufeff"))
            steps.append((number, tree, compile(tree, f"test {number}", "exec", dont_inherit=True)))
    except (SyntaxError, ValueError, RecursionError) as error:
        raise CantJudge(f"a test is not Python: {error}") from None
    trees = [tree for _, tree, _ in steps[1:]]
    if not any(does_something(node) for tree in trees[1:] for node in tree.body):
        return "no tests"
    names = Names(session, copied, trees, job["entry_point"])
    # what stands behind a main guard is to run, and unittest.main() to find what it runs
    sys.modules["__main__"] = types.ModuleType("__main__")
    namespace = vars(sys.modules["__main__"])
    namespace["__builtins__"] = builtins
    for number, tree, code in steps:
        try:
            names.fill(tree, namespace)
            exec(code, namespace)
        except (Closed, CantJudge):
            raise
        except BaseException as error:
            if isinstance(error, SystemExit) and not error.code:
                continue  # an end of the test's own, as that of unittest.main(); the program can't raise it here
            return f"test {number}: {in_words(error)}" if number else f"set-up of the tests: {in_words(error)}"
    return None


def run_calls(session: Session, job: dict[str, Any]) -> str | None:
    """Call a function of the program with each list of arguments, and compare the result."""
    name = job["function"]
    for number, test in enumerate(job["tests"], 1):
        try:
            found = session.look(name)
            if not found and (classes := session.look("Solution")):
                found = [getattr(classes[0](), name)]
            if not found or not callable(found[0]):
                return f"test {number}: the program defines no function {name}"
            if not equal(found[0](*test["args"]), test["expected"]):
                return f"test {number}: wrong result"
        except (Closed, CantJudge):
            raise
        except Exception as error:
            return f"test {number}: {in_words(error)}"
    return None


def equal(result: Any, expected: Any) -> bool:
    """Compare a result with a value from JSON, in which a tuple is a list and every key a string."""
    if isinstance(result, list | tuple) and isinstance(expected, list | tuple):
        return len(result) == len(expected) and all(map(equal, result, expected))
    if isinstance(result, dict) and isinstance(expected, dict):
        known = {key if isinstance(key, str) else json.dumps(key, default=str): value for key, value in result.items()}
        return known.keys() == expected.keys() and all(equal(known[key], expected[key]) for key in known)
    return operator.eq(result, expected) is True


def in_words(error: BaseException) -> str:
    """Return a short reason; the text may be made by the program, and so be anything but a text."""
    try:
        text = " ".join(str(error).split())[:200]
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def judge(job: dict[str, Any], channel: Channel) -> dict[str, str]:
    """Return the verdict as a small dictionary."""
    try:
        session = Session(channel)
        try:
            session.ask("load", job["sources"])
        except (Closed, WireError):
            raise
        except Exception as error:
            return {"verdict": "fail", "reason": f"the program itself: {in_words(error)}"}
        failure = run_statements(session, job) if job["kind"] == "assert" else run_calls(session, job)
        if session.broken:
            raise session.broken
    except Closed:
        return {"verdict": "ended", "reason": "the program ended"}
    except CantJudge as error:
        return {"verdict": "error", "reason": str(error)}
    except WireError as error:
        return {"verdict": "fail", "reason": str(error)}
    return {"verdict": "fail", "reason": failure} if failure else {"verdict": "pass", "reason": "passed"}


if __name__ == "__main__":
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    sys.stdout = io.StringIO()  # what a test prints is not a verdict
    channel = Channel(*map(int, sys.argv[1:3]))
    del sys.argv[1:]  # a test may read them
    verdict = judge(json.load(sys.stdin), channel)
    print(json.dumps(verdict), file=out, flush=True)
    os._exit(0)
