"""A batch that could not be learned from, as a safetensors file: what is needed to look at it, and to try it again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import accumulate, chain, pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from algos.types import Row, ValueRow

KINDS: Mapping[str, type[Row] | type[ValueRow]] = MappingProxyType({"Row": Row, "ValueRow": ValueRow})
"""What a batch may consist of."""


def save_batch(file: Path, rows: Sequence[Row] | Sequence[ValueRow], *, temperature: float, error: str) -> None:
    """Write rows to `file`, each field as one flat tensor beside the lengths of its parts.

    Args:
        file: where; its folder is made.
        rows: of a policy, or of a critic.
        temperature: they were sampled at it.
        error: what was wrong with them.
    """
    kind = type(rows[0]) if rows else Row
    tensors: dict[str, Tensor] = {}
    for field in fields(kind):
        values = [getattr(row, field.name) for row in rows]
        if all(isinstance(value, float | int) for value in values):
            tensors[field.name] = torch.tensor(values, dtype=torch.float64)
        elif all(value is not None for value in values):
            dtype = torch.int64 if field.name.endswith("_ids") else torch.float64
            tensors[field.name] = torch.tensor([*chain.from_iterable(values)], dtype=dtype)
            tensors[f"{field.name}_lengths"] = torch.tensor(list(map(len, values)), dtype=torch.int64)
    file.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, file, metadata={"rows": kind.__name__, "temperature": repr(temperature), "error": error})


def load_batch(file: Path) -> tuple[list[Any], dict[str, str]]:
    """Return the rows that `save_batch` wrote, and what it said of them: `rows`, their kind, `temperature` and `error`."""
    with safe_open(file, framework="pt") as saved:
        facts = dict(saved.metadata())
        tensors = {name: saved.get_tensor(name) for name in saved.keys()}  # noqa: SIM118 - it is no mapping
    kind = KINDS[facts.get("rows", "Row")]
    columns = {field.name: _parts(tensors, field.name) for field in fields(kind) if field.name in tensors}
    return [kind(**dict(zip(columns, values, strict=True))) for values in zip(*columns.values(), strict=True)], facts


def _parts(tensors: Mapping[str, Tensor], name: str) -> Sequence[Any]:
    flat = tensors[name].tolist()
    if f"{name}_lengths" not in tensors:
        return flat
    ends: Iterable[int] = accumulate(tensors[f"{name}_lengths"].tolist(), initial=0)
    return [tuple(flat[begin:end]) for begin, end in pairwise(ends)]
