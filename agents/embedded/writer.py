r"""The writer whose texts the embedded model learns from: it reasons, but not always, and it has false beliefs.

*Behaviours.* Alone it reasons step by step or guesses at once. After reading a rival's draft it solves the problem
itself, copies the rival's answer, or guesses. Reinforcement learning can choose among them.

*Beliefs.* A `Writer` holds one false result for some of the single steps (operation, operand, value), each with its
own chance of being written instead of the true one. Choosing a behaviour does not mend these; they have to be
learned one by one, so that training has something to do after its first quick gains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agon_env.tasks.arithmetic import OPERANDS, last_boxed, read_chain, step, write_solution
from agon_env.tasks.task import Problem

Fact = tuple[str, int, int]
"""Operation, operand, value before the step."""


@dataclass(frozen=True)
class Habits:
    """How often the writer does what."""

    reason: float = 0.5
    """Chance of reasoning when it answers alone; otherwise it guesses."""
    solve: float = 0.5
    """Chance of solving the problem itself with a draft in view."""
    copy: float = 0.35
    """Chance of copying the answer of a draft; what is left is guessing."""


@dataclass(frozen=True)
class Writer:
    """Writes answers to chains."""

    false_beliefs: Mapping[Fact, tuple[float, int]]
    """Fact → (chance of writing the false result, the false result)."""
    habits: Habits

    def answer(self, problem: Problem, draft: str | None, rng: np.random.Generator) -> str:
        """Answer in one of the habitual ways; `draft` is what the rival wrote, None without a rival."""
        luck = rng.random()
        if draft is None:
            return self.reason(problem, rng) if luck < self.habits.reason else guess(rng)
        if luck < self.habits.solve:
            return self.reason(problem, rng)
        copied = last_boxed(draft)
        if luck < self.habits.solve + self.habits.copy and copied is not None:
            return rf"\boxed{{{copied}}}"
        return guess(rng)

    def reason(self, problem: Problem, rng: np.random.Generator) -> str:
        """Work through the chain, true to the beliefs."""
        start, steps = read_chain(problem.id)
        return write_solution(start, steps, follow(start, steps, self.false_beliefs, rng))


def follow(
    start: int, steps: Sequence[tuple[str, int]], false_beliefs: Mapping[Fact, tuple[float, int]], rng: np.random.Generator
) -> list[int]:
    """Return what someone with these beliefs writes after each step."""
    digits = [start]
    for operation, operand in steps:
        chance, false = false_beliefs.get((operation, operand, digits[-1]), (0.0, 0))
        digits.append(false if rng.random() < chance else step(digits[-1], operation, operand))
    return digits[1:]


def guess(rng: np.random.Generator) -> str:
    """Box some digit."""
    return rf"\boxed{{{rng.integers(10)}}}"


def draw_beliefs(
    share: float, rng: np.random.Generator, *, least: float = 0.2, greatest: float = 0.9
) -> dict[Fact, tuple[float, int]]:
    """Return false beliefs about a `share` of all facts, held with chances between `least` and `greatest`."""
    facts = [(o, operand, value) for o in OPERANDS for operand in OPERANDS[o] for value in range(10)]
    chosen = rng.permutation(len(facts))[: round(share * len(facts))]
    beliefs = {}
    for operation, operand, value in (facts[i] for i in chosen):
        false = (step(value, operation, operand) + int(rng.integers(1, 10))) % 10
        beliefs[operation, operand, value] = (float(rng.uniform(least, greatest)), false)
    return beliefs
