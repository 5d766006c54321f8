"""`ReasoningGym`: the generators of reasoning-gym (arXiv 2505.24760), each with its own scorer.

Problems are made and answers are scored in a worker process with a deadline: some generators are slow, some
draw in an order that depends on the process, and some scorers hand the answer to `eval`
(see `agon_env.tasks.reasoning_gym_worker`). This process never imports reasoning-gym.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from agon_env.errors import DependencyNotInstalled, TaskError
from agon_env.quoting import strip_thoughts
from agon_env.registration import register
from agon_env.tasks.reasoning_gym_worker import ENTRIES
from agon_env.tasks.task import Problem, Split, split_of
from agon_env.verifiers.pool import WorkerFailed, WorkerTimeout, pool_of
from agon_env.verifiers.verdict import Verdict, Verifier

WORKER = "agon_env.tasks.reasoning_gym_worker"
INSTRUCTION = "Reason step by step, and put your final answer between <answer> and </answer>."
DEFAULT = (
    "basic_arithmetic",
    "calendar_arithmetic",
    "chain_sum",
    "count_primes",
    "fraction_simplification",
    "gcd",
    "knights_knaves",
    "leg_counting",
    "letter_counting",
    "number_sorting",
    "prime_factorization",
    "simple_equations",
    "spell_backward",
    "time_intervals",
)
"""Quick generators of several kinds, with one short answer each."""
SEEDS = 64
"""Seeds of a generator that one seed of ours stands for; each has `ENTRIES` problems."""
ATTEMPTS = 400
"""Draws after which a generator counts as having no question in a split."""
MAKING_SECONDS = 60.0
"""What making one problem may take; nobody gains by a slow one."""
MAX_CHARS = 20_000
"""Longer answers are not read."""


@dataclass(frozen=True)
class ReasoningGymVerifier:
    """Scores what stands between the last `<answer>` and `</answer>` by the scorer of the problem's generator.

    Reasons: "equal", "partly", "different", "no answer", "too long", and with the score None "timeout", "error" and
    "no gold".
    """

    partial_credit: bool = False
    """True pays what the scorer gives; by default all but its full score counts as 0. (Many scorers give a little to any
    answer, and much to a list of all candidates.)"""
    deadline: float = 5.0
    """Seconds that one verdict may take."""

    def score(self, completion: str, gold: str) -> Verdict:
        """Judge one completion; `gold` is the JSON that `Problem.answer` holds."""
        answer = last_answer(strip_thoughts(completion))
        try:
            entry = json.loads(gold)["entry"]
        except (ValueError, KeyError, TypeError):
            return Verdict(None, answer, "no gold")
        if answer is None:
            return Verdict(0.0, None, "no answer")
        if len(answer) > MAX_CHARS:
            return Verdict(0.0, answer[:MAX_CHARS], "too long")
        try:
            score, _ = pool_of(WORKER).ask({"do": "score", "entry": entry, "answer": answer}, deadline=self.deadline)
        except WorkerTimeout:
            return Verdict(None, answer, "timeout")
        except WorkerFailed:
            return Verdict(None, answer, "error")
        if score >= 1.0:
            return Verdict(1.0, answer, "equal")
        credit = float(score) if self.partial_credit else 0.0
        return Verdict(credit, answer, "partly" if credit else "different")

    def extract(self, completion: str, gold: str) -> str | None:
        """Return what stands between the marks."""
        answer = last_answer(strip_thoughts(completion))
        return None if answer is None else answer[:MAX_CHARS]

    def score_many(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        """Judge many `(completion, gold)` pairs, in order; equal pairs once, the others side by side."""
        different = list(dict.fromkeys(pairs))
        with ThreadPoolExecutor(pool_of(WORKER).size) as threads:
            verdicts = dict(zip(different, threads.map(lambda pair: self.score(*pair), different), strict=True))
        return [verdicts[pair] for pair in pairs]


def last_answer(text: str) -> str | None:
    """Return what stands between the last `<answer>` and the `</answer>` after it; None if there is nothing."""
    start = text.rfind("<answer>")
    end = text.find("</answer>", start)
    return text[start + len("<answer>") : end].strip() or None if 0 <= start < end else None


class ReasoningGym:
    """Problems of one generator of reasoning-gym, or of several in turn; endless, a function of seed and index."""

    name = "reasoning_gym"
    instruction = INSTRUCTION
    size: int | None = None

    def __init__(
        self,
        generators: str | Sequence[str] = DEFAULT,
        *,
        split: Split = "train",
        seed: int = 0,
        partial_credit: bool = False,
        deadline: float = 5.0,
        config: dict[str, Any] | None = None,
    ) -> None:
        """Choose generators.

        Args:
            generators: a generator of reasoning-gym, or several, which are then drawn equally often.
            split: "train" or "test", by a stable hash of the question.
            seed: a non-negative integer; another seed gives another order of problems.
            partial_credit: see `ReasoningGymVerifier`.
            deadline: seconds for scoring an answer.
            config: settings of the generator, for example `{"max_terms": 6}`; only with one generator.

        Raises:
            DependencyNotInstalled: without the package reasoning-gym.
            TaskError: an option is wrong.
        """
        self.generators: tuple[str, ...] = (generators,) if isinstance(generators, str) else tuple(generators)
        known = generator_names()
        if unknown := [name for name in self.generators if name not in known]:
            raise TaskError(f"reasoning-gym has no generator {unknown[0]!r}; it has {', '.join(known)}")
        if config and len(self.generators) != 1:
            raise TaskError("config is for one generator; name just one, or mix tasks with Mixture")
        if split not in ("train", "test"):
            raise TaskError(f'split is "train" or "test", not {split!r}')
        if not 0 <= seed < 2**64:
            raise TaskError(f"seed is an integer from 0 to 2**64 - 1, not {seed!r}")
        self.split: Split = split
        self.seed = seed
        self.config = dict(config or {})
        self.source = f"reasoning-gym: {', '.join(self.generators)}"
        self.verifier: Verifier = ReasoningGymVerifier(partial_credit, deadline)

    def __getitem__(self, index: int) -> Problem:
        """Return the problem at `index` ≥ 0: the first of the index's own random stream that is in the split.

        Raises:
            TaskError: the generator failed, or has no question in the split.
        """
        if index < 0:
            raise IndexError(f"an endless task has no index {index}; use one from 0")
        rng = np.random.Generator(np.random.Philox(key=np.array([self.seed, index], dtype=np.uint64)))
        name = self.generators[int(rng.integers(len(self.generators)))]
        for _ in range(ATTEMPTS):
            seed, place = (self.seed * SEEDS + index % SEEDS) % 2**31, int(rng.integers(ENTRIES))
            entry = {"name": name, "seed": seed, "index": place, "config": self.config}
            question, answer = _ask({"do": "make", "entry": entry}, name)
            if split_of(question) == self.split:
                return Problem(
                    id=hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()[:16],
                    question=question,
                    answer=json.dumps({"answer": answer, "entry": entry}),
                    topic=name,
                )
        raise TaskError(f"{name} has no question in split={self.split!r} among {ATTEMPTS} draws; it has too few questions")

    def solution(self, problem: Problem) -> str:
        """Return the answer that the generator gives.

        Raises:
            TaskError: it gives none; its scorer checks an answer without knowing one.
        """
        answer = json.loads(problem.answer)["answer"]
        if answer is None:
            raise TaskError(f"the generator {problem.topic} gives no answers to its problems")
        return f"The final answer is <answer>{answer}</answer>"


def generator_names() -> list[str]:
    """Return the names of all generators.

    Raises:
        DependencyNotInstalled: without the package reasoning-gym.
    """
    global _names
    if importlib.util.find_spec("reasoning_gym") is None:
        raise DependencyNotInstalled("this needs the package reasoning-gym; run: pip install 'agon-env[reasoning-gym]'")
    if _names is None:
        _names = _ask({"do": "names"}, "reasoning-gym")
    return _names


_names: list[str] | None = None


def register_all() -> None:
    """Register `ReasoningGym/<generator>-v0` for every generator: one player answers one problem.

    Raises:
        DependencyNotInstalled: without the package reasoning-gym.
    """
    for name in generator_names():
        register(
            f"ReasoningGym/{name}-v0",
            "agon_env.games.draft_challenge:Solo",
            kwargs={"task": "reasoning_gym", "generators": name},
            force=True,
        )


def _ask(request: dict[str, Any], what: str) -> Any:
    try:
        result, _ = pool_of(WORKER).ask(request, deadline=MAKING_SECONDS)
    except WorkerTimeout as error:
        raise TaskError(f"{what} took more than {MAKING_SECONDS} s; make it easier by config=") from error
    except WorkerFailed as error:
        raise TaskError(f"{what} failed: {error}; look at config=") from error
    return result
