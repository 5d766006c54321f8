"""A folder that is sealed holds a manifest: which files belong to it, and what is in them.

The manifest is written last, so that a folder with one was complete; its checksums tell whether it still is.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from algos.errors import CheckpointError
from algos.training.run_folder import write_json

MANIFEST = "manifest.json"
FORMAT = 1
"""What this version writes. It reads every format up to it, and refuses later ones."""


def seal(folder: Path, *, version: str) -> None:
    """Write the manifest of a folder that is complete, and make sure that all of it survives a power cut.

    Args:
        folder: what to seal; its own folders belong to it.
        version: of the program that wrote it.
    """
    files = {file.relative_to(folder).as_posix(): _facts(file) for file in _files(folder)}
    write_json(folder / MANIFEST, {"format": FORMAT, "agon-env": version, "files": files})
    for path in (*folder.rglob("*"), folder):
        sync(path)


def verify(folder: Path) -> None:
    """Check that a sealed folder holds what was sealed.

    Raises:
        NewerFormat: a later version wrote it.
        CheckpointError: it was never complete, or it has changed since; the message names the file.
    """
    manifest = _read(folder)
    if manifest["format"] > FORMAT:
        raise NewerFormat(
            f"{folder} was written by agon-env {manifest.get('agon-env')} in format {manifest['format']}; this version can "
            f"read formats up to {FORMAT}. Update it: pip install --upgrade agon-env"
        )
    for name, facts in sorted(manifest["files"].items()):
        file = folder / name
        if not file.is_file():
            raise CheckpointError(f"{folder} is not complete: {name} is missing")
        if _facts(file) != facts:
            raise CheckpointError(f"{file} is corrupt: it is not what was written (its size or checksum differs)")


class NewerFormat(CheckpointError):
    """A folder was written by a later version of this program."""


def sync(path: Path) -> None:
    """Make sure that a file, or what was renamed into a folder, survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(folder: Path) -> Mapping[str, Any]:
    file = folder / MANIFEST
    if not file.is_file():
        raise CheckpointError(f"{folder} is not complete: it has no {MANIFEST}")
    try:
        manifest = json.loads(file.read_bytes())
        if isinstance(manifest["format"], int) and isinstance(manifest["files"], dict):
            return dict(manifest)
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise CheckpointError(f"{file} is corrupt: it is no manifest")


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)


def _facts(file: Path) -> dict[str, Any]:
    with open(file, "rb") as stream:
        return {"bytes": os.fstat(stream.fileno()).st_size, "sha256": hashlib.file_digest(stream, "sha256").hexdigest()}
