"""Figures by matplotlib, which is drawn with where a figure is asked for, and nowhere imported before."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agon_env.errors import DependencyNotInstalled


@contextmanager
def as_they_are(plt: Any) -> Iterator[Any]:
    """Have `pyplot` take the texts of its figures for texts: a dollar sign in a name begins no formula."""
    with plt.rc_context({"text.parse_math": False}):
        yield plt


def pyplot() -> Any:
    """Return `matplotlib.pyplot`, which draws without a screen.

    Raises:
        DependencyNotInstalled: matplotlib is missing.
    """
    try:
        import matplotlib
    except ImportError:
        raise DependencyNotInstalled('the figure needs matplotlib: pip install "agon-env[report]"') from None
    matplotlib.use("Agg")
    return importlib.import_module("matplotlib.pyplot")
