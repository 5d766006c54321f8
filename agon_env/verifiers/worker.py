"""The process in which formulas are compared: one JSON request a line on stdin, one JSON reply a line on stdout.

Run by `agon_env.verifiers.pool` as `python -m agon_env.verifiers.worker`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any

MEMORY_BYTES = 4 << 30


def main() -> None:
    """Serve until stdin closes."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing that a library prints may look like a reply
    _limit_memory()
    from agon_env.verifiers import symbolic

    print(json.dumps("ready"), file=replies, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        _set_alarm(request["deadline"] + 2.0)
        reply: dict[str, Any]
        try:
            compare = getattr(symbolic, {"equal": "equal"}.get(request["relation"], "proportional"))
            options = {"positive": True} if request["relation"] == "positive" else {}
            reply = {"equal": compare(_tuple(request["gold"]), _tuple(request["answer"]), **options)}
        except (Exception, MemoryError, RecursionError) as error:
            reply = {"error": type(error).__name__}
        _set_alarm(0.0)
        print(json.dumps(reply), file=replies, flush=True)


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
