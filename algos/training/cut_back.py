"""What a run has logged is cut back to its checkpoint before it goes on, so that no step is told twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

TENSORBOARD = "events.out.tfevents.*"


def log_sizes(folder: Path, names: Iterable[str]) -> dict[str, int]:
    """Return the bytes of each log of a run, by name: the files of `names` that exist, and those of TensorBoard."""
    return {file.name: file.stat().st_size for file in _logs(folder, names)}


def cut_back(folder: Path, names: Iterable[str], sizes: Mapping[str, int]) -> list[str]:
    """Cut every log of a run to the size that it had; what did not exist then goes.

    Args:
        folder: that of the run.
        names: of the logs that consist of lines.
        sizes: what `log_sizes` said when the checkpoint was saved.

    Returns:
        The logs that are shorter than that, or gone: what is missing in them stays missing.
    """
    now = log_sizes(folder, names)
    for name, size in now.items():
        if not sizes.get(name):
            (folder / name).unlink()
        elif size > sizes[name]:
            with open(folder / name, "rb+") as file:
                file.truncate(sizes[name])
    return sorted(name for name, size in sizes.items() if now.get(name, 0) < size)


def _logs(folder: Path, names: Iterable[str]) -> list[Path]:
    return [file for file in (*(folder / name for name in names), *folder.glob(TENSORBOARD)) if file.is_file()]
