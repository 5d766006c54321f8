"""What the benchmarks share: facts of the machine, medians, a report as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any


def machine(*packages: str) -> dict[str, Any]:
    """Return what a figure depends on, apart from the code: processor, Python, versions. No names, no paths."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "processor": _processor(),
        "python": platform.python_version(),
        "versions": {package: version(package) for package in packages},
    }


def spread(values: Sequence[float], digits: int = 4) -> dict[str, Any]:
    """Return the median of measurements, with their least and greatest and how many they are."""
    low, middle, high = (round(value, digits) for value in (min(values), median(values), max(values)))
    return {"median": middle, "least": low, "greatest": high, "n": len(values)}


def publish(report: Mapping[str, Any], output: str | None) -> None:
    """Print a report as JSON, and write it to a file if one is named."""
    text = json.dumps(report, indent=2)
    print(text)
    if output:
        Path(output).write_text(text + "\n", encoding="utf-8")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n")
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
