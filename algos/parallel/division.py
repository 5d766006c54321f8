"""Who gets what, and how the parts are put together again.

What is divided does not depend on who computes it: every row has its own seed, and its share of a loss is divided by a
count over all rows. So the parts add up to what one process would have made, up to the order of sums.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

from agon_env.contest import Contest
from algos.playing.matches import join
from algos.rollouts import Rollout, Start

T = TypeVar("T")


def divide_pieces(costs: Sequence[int], *, parts: int) -> list[list[int]]:
    """Divide pieces of work into parts of about equal cost: the costliest first, each to who has the least to do.

    Args:
        costs: of each piece.
        parts: how many parts; some are empty where there are too few pieces.

    Returns:
        Indices of the pieces of each part, in their order, every piece once. No part costs more than its share and one piece.
    """
    found: list[list[int]] = [[] for _ in range(parts)]
    loads = [0] * parts
    for index in sorted(range(len(costs)), key=lambda index: -costs[index]):
        least = loads.index(min(loads))
        found[least].append(index)
        loads[least] += costs[index]
    return [sorted(part) for part in found]


def divide_evenly(items: Sequence[T], *, parts: int) -> list[Sequence[T]]:
    """Cut a sequence into `parts` neighbouring pieces whose lengths differ by at most one."""
    cuts = [len(items) * part // parts for part in range(parts + 1)]
    return [items[low:high] for low, high in pairwise(cuts)]


def numbered(starts: Sequence[Start]) -> list[Start]:
    """Give each start the number in the tree that it has by its place, so that it keeps it wherever it is played."""
    return [start if start.problem is not None else replace(start, problem=index) for index, start in enumerate(starts)]


def merge(parts: Sequence[Rollout]) -> Rollout:
    """Return the rollouts of neighbouring starts as the one that would have been played in lockstep: its turns by depth."""
    joined = join(parts)
    players: dict[tuple[int, str], int] = {}
    keys = []
    for turn in joined.turns:
        depth = len(_path(turn.parent))
        keys.append((depth, players.setdefault((depth, turn.player), len(players))))
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return Rollout(
        turns=[joined.turns[index] for index in order],
        contests=joined.contests,
        beneath=[joined.beneath[index] for index in order],
    )


def pack(rollout: Rollout, template: Contest) -> bytes:
    """Return a rollout as bytes. What its contests share with `template`, such as the data set, is left behind."""
    buffer = io.BytesIO()
    _Pickler(buffer, template).dump(rollout)
    return buffer.getvalue()


def unpack(packed: bytes, template: Contest) -> Rollout:
    """Return what `pack` was given, with this process's template in the place of the other's."""
    rollout: Rollout = _Unpickler(io.BytesIO(packed), template).load()
    return rollout


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, template: Contest) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._names = {id(value): name for name, value in _left_behind(template).items()}

    def persistent_id(self, obj: Any) -> str | None:
        return self._names.get(id(obj))


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, template: Contest) -> None:
        super().__init__(file)
        self._values = _left_behind(template)

    def persistent_load(self, pid: Any) -> Any:
        return self._values[pid]


def _left_behind(template: Contest) -> dict[str, Any]:
    held = {name: value for name, value in vars(template).items() if name in template.shared}
    return {name: value for name, value in held.items() if type(value).__module__ != "builtins"}


def _path(parent: object) -> tuple[int, ...]:
    assert isinstance(parent, tuple)
    return parent
