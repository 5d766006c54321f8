"""The process in which formulas are compared: one JSON request a line on stdin, one JSON reply a line on stdout.

Run by `agon_env.verifiers.pool` as `python -m agon_env.verifiers.worker`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from agon_env.verifiers.expression import parse

MEMORY_BYTES = 4 << 30


def main() -> None:
    """Compare formulas until stdin closes."""
    serve(_comparison)


def serve(prepare: Callable[[], Callable[[dict[str, Any]], Any]]) -> None:
    """Answer requests until stdin closes.

    Args:
        prepare: imports what is needed and returns the function from a request to its result (JSON values).
    """
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing that a library prints may look like a reply
    _limit_memory()
    handle = prepare()
    print(json.dumps("ready"), file=replies, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        _set_alarm(request["deadline"] + 2.0)
        try:
            reply = json.dumps({"result": handle(request)})
        except (Exception, MemoryError, RecursionError) as error:
            reply = json.dumps({"error": type(error).__name__})
        _set_alarm(0.0)
        print(reply, file=replies, flush=True)


def _comparison() -> Callable[[dict[str, Any]], bool]:
    from agon_env.verifiers import symbolic

    relations: dict[str, Callable[[Any, Any], bool]] = {
        "equal": symbolic.equal,
        "within": symbolic.within,
        "proportional": symbolic.proportional,
        "positive": partial(symbolic.proportional, positive=True),
    }
    sys.set_int_max_str_digits(0)  # sympy sorts the factors of a product by what they look like in print
    _test_itself(symbolic.equal)

    def compare(request: dict[str, Any]) -> bool:
        gold, answer = _tuple(request["gold"]), _tuple(request["answer"])
        try:
            return relations[request["relation"]](gold, answer)
        except Exception:
            # no answer may trade a 0 for an error, which leaves its row out; a gold such as max(i, 2) is one for all answers
            if symbolic.has_values(answer) or not symbolic.has_values(gold[1] if gold[0] == "pair" else gold):
                raise
            return False

    return compare


def _test_itself(equal: Callable[[Any, Any], bool]) -> None:
    """Prove that a right answer counts as right and a wrong one as wrong before anyone relies on it.

    Raises:
        RuntimeError: it does not; no verdict of this installation can be trusted.
    """
    gold, right, wrong = (parse(text) for text in (r"\sqrt{8}", r"2\sqrt{2}", r"2\sqrt{3}"))
    if not equal(gold, right) or equal(gold, wrong):
        raise RuntimeError("the square root of 8 is not told from others; the installed sympy can't be relied on")


def _tuple(value: Any) -> Any:
    return tuple(_tuple(item) for item in value) if isinstance(value, list) else value


def _limit_memory() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _set_alarm(seconds: float) -> None:
    """Have the kernel end this process if its parent is no longer there to do so (the default action of SIGALRM)."""
    import signal

    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


if __name__ == "__main__":
    main()
