"""Judging the rows of a JSONL file again, side by side and in order; what `agon verify` prints."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

AHEAD = 4
"""Rows per worker that are read before their turn."""


class ForeignRow(ValueError):
    """Raised by a judge for a row that is not of its kind; the message says what it should hold."""


@dataclass(frozen=True)
class Judgement:
    """What a judge says of one row."""

    score: float | None
    verdict: Literal["pass", "fail", "timeout", "killed", "error"]
    reason: str


Judge = Callable[[Mapping[str, Any]], Judgement]
"""Judges one row, from any thread."""


def verify_lines(lines: Iterable[str], judge: Judge, *, workers: int = 1) -> Iterator[dict[str, Any]]:
    """Yield one result for each line that is not blank, in order: `id`, `score`, `verdict`, `reason`, `seconds`.

    `id` is that of the row, or the number of the line from 1. A line that is torn, or a row that the judge does not
    know, has the verdict "error" and is marked by `skipped`; the others go on.

    Args:
        lines: JSON objects, one a line.
        judge: judges one row.
        workers: rows that are judged at a time.
    """
    waiting: deque[Future[dict[str, Any]]] = deque()
    threads = ThreadPoolExecutor(max(1, workers))
    try:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            waiting.append(threads.submit(_verify_line, number, line, judge))
            if len(waiting) >= AHEAD * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        threads.shutdown(cancel_futures=True)


def summary(results: Iterable[Mapping[str, Any]], *, seconds: float) -> dict[str, Any]:
    """Return the counts of some results; `mean_score` is over the rows that have a score, None if there are none."""
    results = list(results)
    counts = Counter(result["verdict"] for result in results)
    scores = [result["score"] for result in results if result["score"] is not None]
    return {
        "summary": {
            "rows": len(results),
            **{verdict: counts[verdict] for verdict in ("pass", "fail", "timeout", "killed", "error")},
            "skipped": sum(bool(result.get("skipped")) for result in results),
            "mean_score": sum(scores) / len(scores) if scores else None,
            "seconds": round(seconds, 3),
        }
    }


def _verify_line(number: int, line: str, judge: Judge) -> dict[str, Any]:
    start = time.monotonic()
    id: Any = number
    skipped = False
    try:
        row = json.loads(line)
        if not isinstance(row, dict):
            raise ForeignRow("not a JSON object")
        id = row.get("id", number)
        judged = judge(row)
    except json.JSONDecodeError as error:
        judged, skipped = Judgement(None, "error", f"line {number} is not JSON: {error.msg}"), True
    except RecursionError:
        judged, skipped = Judgement(None, "error", f"line {number} is nested too deeply"), True
    except ForeignRow as error:
        judged, skipped = Judgement(None, "error", f"line {number}: {error}"), True
    result = {
        "id": id,
        "score": judged.score,
        "verdict": judged.verdict,
        "reason": judged.reason,
        "seconds": round(time.monotonic() - start, 3),
    }
    return result | {"skipped": True} if skipped else result
