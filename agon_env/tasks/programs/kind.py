"""`Draft` and `kind`: how a kind of programming problem is written down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

Type = Literal["int", "ints", "text", "bool"]


@dataclass(frozen=True)
class Draft:
    """One problem before it is given a form."""

    task: str
    """What the function returns, in terms of its parameters; one or more sentences."""
    parameters: tuple[tuple[str, Type], ...]
    """Names and types, in order."""
    returns: Type
    body: str
    """The reference solution: the body of the function, with four spaces before each line."""
    check: Callable[..., Any]
    """Computes the same in another way; the generator compares the two."""
    arguments: Sequence[tuple[Any, ...]]
    """What it is tested with, from simple to hard."""
    difficulty: float


@dataclass(frozen=True)
class Kind:
    """A kind of problem."""

    name: str
    topic: str
    draw: Callable[[Random], Draft]


KINDS: dict[str, Kind] = {}
"""All kinds of problem, in the order in which they are defined."""


def kind(topic: str) -> Callable[[Callable[[Random], Draft]], Callable[[Random], Draft]]:
    """Register a function of a random source as a kind of problem; its name is the name of the function to write."""

    def register(draw: Callable[[Random], Draft]) -> Callable[[Random], Draft]:
        if draw.__name__ in KINDS:
            raise ValueError(f"two kinds are called {draw.__name__}")
        KINDS[draw.__name__] = Kind(draw.__name__, topic, draw)
        return draw

    return register


def integers(rng: Random, count: int, low: int, high: int) -> list[int]:
    """Return `count` integers from `low` to `high`."""
    return [rng.randint(low, high) for _ in range(count)]


def lists(rng: Random, sizes: Sequence[int], low: int, high: int) -> list[list[int]]:
    """Return one list of integers for each size."""
    return [integers(rng, size, low, high) for size in sizes]


def words(rng: Random, sizes: Sequence[int], letters: str) -> list[str]:
    """Return one text for each size, made of `letters`."""
    return ["".join(rng.choice(letters) for _ in range(size)) for size in sizes]
