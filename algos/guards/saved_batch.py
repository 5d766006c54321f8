"""A batch that could not be learned from, as a safetensors file: what is needed to look at it, and to try it again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from algos.types import Row

_IDS = ("prompt_ids", "completion_ids")
_NUMBERS = ("old_logprobs", "ref_logprobs", "weights", "advantages")


def save_batch(file: Path, rows: Sequence[Row], *, temperature: float, error: str) -> None:
    """Write rows to `file`, each field as one flat tensor beside the lengths of its parts."""
    tensors: dict[str, Tensor] = {"advantage": torch.tensor([row.advantage for row in rows], dtype=torch.float64)}
    for name in _IDS:
        tensors |= _flat(name, [getattr(row, name) for row in rows], torch.int64)
    for name in _NUMBERS:
        if all(getattr(row, name) is not None for row in rows):
            tensors |= _flat(name, [getattr(row, name) for row in rows], torch.float64)
    file.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, file, metadata={"temperature": repr(temperature), "error": error})


def load_batch(file: Path) -> tuple[list[Row], dict[str, str]]:
    """Return the rows that `save_batch` wrote, and what it said of them: `temperature` and `error`."""
    with safe_open(file, framework="pt") as saved:
        names = [name for name in (*_IDS, *_NUMBERS) if name in saved.keys()]  # noqa: SIM118 - it is no mapping
        parts = {name: _parts(saved.get_tensor(name), saved.get_tensor(f"{name}_lengths")) for name in names}
        advantages = saved.get_tensor("advantage").tolist()
        facts = dict(saved.metadata())
    rows = [
        Row(**{name: values[index] for name, values in parts.items()}, advantage=advantage)  # type: ignore[arg-type]
        for index, advantage in enumerate(advantages)
    ]
    return rows, facts


def _flat(name: str, values: Sequence[Sequence[float]], dtype: torch.dtype) -> dict[str, Tensor]:
    return {
        name: torch.tensor([value for row in values for value in row], dtype=dtype),
        f"{name}_lengths": torch.tensor([len(row) for row in values], dtype=torch.int64),
    }


def _parts(flat: Tensor, lengths: Tensor) -> list[tuple[float, ...]]:
    ends: Iterable[int] = accumulate(lengths.tolist(), initial=0)
    values = flat.tolist()
    return [tuple(values[begin:end]) for begin, end in pairwise(ends)]
