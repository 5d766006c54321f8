"""Where a run comes from: versions, the state of the source, the machine, and the command that began it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from algos.training.redaction import redact

PACKAGES = ("agon-env", "torch", "transformers", "peft", "safetensors", "numpy", "sympy", "datasets", "vllm", "ray", "tinker")
"""Whose versions may change what a run does."""


def session() -> dict[str, Any]:
    """Return facts about this process, as plain JSON values. Secrets in the command are blotted out."""
    return {
        "begun": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": redact(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])),
        "process": os.getpid(),
        "versions": {"python": platform.python_version(), **{name: found for name in PACKAGES if (found := _version(name))}},
        "source": {"code": git_state(Path(__file__).parent), "folder": git_state(Path.cwd())},
        "machine": {
            "system": platform.platform(),
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "threads": torch.get_num_threads(),
            "memory_gib": _memory_gib(),
            "gpus": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())],
            "cuda": torch.version.cuda,
        },
    }


def git_state(folder: Path) -> dict[str, Any] | None:
    """Return the commit that `folder` is at, and whether files differ from it; None outside of a repository, or without git."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    return {"commit": commit.strip(), "changed": bool(_git(folder, "status", "--porcelain", "--untracked-files=no"))}


def _git(folder: Path, *command: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(folder), *command], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n")
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None
