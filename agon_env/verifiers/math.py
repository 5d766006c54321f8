"""`MathVerifier`: is the final answer of a text the gold?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

from agon_env.verifiers.expression import Expr
from agon_env.verifiers.extraction import extract_answer
from agon_env.verifiers.latex import normalise
from agon_env.verifiers.pool import WorkerFailed, WorkerTimeout, shared_pool
from agon_env.verifiers.rescoring import ForeignRow, Judgement
from agon_env.verifiers.structure import same
from agon_env.verifiers.tolerance import has_tolerance, same_within
from agon_env.verifiers.verdict import Verdict

MAX_GOLD_CHARS = 4000
"""Longer golds are met by nothing."""


class _NeedsWorker(Exception):
    pass


def judge_row(verifier: MathVerifier, row: Mapping[str, Any]) -> Judgement:
    """Judge a row with the fields `gold`, a text or a number, and `completion`.

    Raises:
        ForeignRow: it has other fields.
    """
    gold = row.get("gold")
    if isinstance(gold, int | float) and not isinstance(gold, bool) and math.isfinite(gold):
        row = {**row, "gold": str(gold)}
    for name in ("gold", "completion"):
        if not isinstance(row.get(name), str):
            raise ForeignRow(f"{name} is {'missing' if name not in row else 'not text'}; a row holds gold and completion")
    verdict = verifier.score(row["completion"], row["gold"])
    if verdict.score is None:
        return Judgement(None, "timeout" if verdict.reason == "timeout" else "error", verdict.reason)
    return Judgement(verdict.score, "pass" if verdict.score == 1.0 else "fail", verdict.reason)


@dataclass(frozen=True)
class MathVerifier:
    r"""Checks mathematical answers exactly.

    The answer is what `extract_answer` finds: the last `\boxed{…}`, else the last `answer:` line. Words, letters,
    numbers and arithmetic are compared in this process; formulas with roots, functions or symbols in a worker
    process that is killed at the deadline. Nothing is ever evaluated as a program.

    A gold that a data set gives with a tolerance reads `9.81 \tolerance{0.01}` (see `with_tolerance`).

    Reasons: "equal", "different", "no answer", "too long" (the answer or the gold), "no gold" (an empty one, which nothing
    meets), and with the score None "timeout" and "error".
    """

    out_of_process: ClassVar[bool] = True
    """What takes time is done by workers; see `agon_env.verifiers.ahead`."""

    deadline: float = 3.0
    """Seconds that one verdict may take in a worker, apart from waiting for one."""
    max_chars: int = 1000
    """Longer answers are not read."""

    def score(self, completion: str, gold: str) -> Verdict:
        """Judge one completion: 1.0 if its final answer is the gold, 0.0 if not, None if that can't be known."""
        return self._judge(completion, gold, use_worker=True)

    def extract(self, completion: str, gold: str) -> str | None:
        """Return the final answer of one completion."""
        answer = extract_answer(completion)
        return None if answer is None else answer[: self.max_chars]

    def score_many(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        """Judge many `(completion, gold)` pairs, in order; equal pairs once, the ones that need a worker side by side."""
        verdicts: dict[tuple[str, str], Verdict] = {}
        hard: list[tuple[str, str]] = []
        for pair in dict.fromkeys(pairs):
            try:
                verdicts[pair] = self._judge(*pair, use_worker=False)
            except _NeedsWorker:
                hard.append(pair)
        if len(hard) > 1:
            with ThreadPoolExecutor(shared_pool().size) as threads:
                verdicts |= zip(hard, threads.map(lambda pair: self.score(*pair), hard), strict=True)
        elif hard:
            verdicts[hard[0]] = self.score(*hard[0])
        return [verdicts[pair] for pair in pairs]

    def _judge(self, completion: str, gold: str, *, use_worker: bool) -> Verdict:
        answer = extract_answer(completion)
        if len(gold) > MAX_GOLD_CHARS:
            return Verdict(0.0, None if answer is None else answer[: self.max_chars], "too long")
        if not normalise(gold):
            return Verdict(0.0, answer, "no gold")
        if answer is None:
            return Verdict(0.0, None, "no answer")
        if len(answer) > self.max_chars:
            return Verdict(0.0, answer[: self.max_chars], "too long")
        spent = 0.0

        def compare(relation: str, gold: Expr, answer: Expr) -> bool:
            if not use_worker:
                raise _NeedsWorker
            nonlocal spent
            equal, seconds = shared_pool().compare(relation, gold, answer, deadline=max(0.01, self.deadline - spent))
            spent += seconds
            return equal

        try:
            equal = same_within(gold, answer, compare) if has_tolerance(gold) else same(gold, answer, compare)
        except WorkerTimeout:
            return Verdict(None, answer, "timeout")
        except WorkerFailed:
            return Verdict(None, answer, "error")
        return Verdict(float(equal), answer, "equal" if equal else "different")
