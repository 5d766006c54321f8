"""The snippets of docs/neighbours.md that need a heavy peer; tests/docs runs the others."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "neighbours.md"


def snippet(word: str) -> str:
    """Return the one ```py block that holds `word`."""
    (code,) = [
        block for block in re.findall(r"^```py\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S) if word in block
    ]
    return code
