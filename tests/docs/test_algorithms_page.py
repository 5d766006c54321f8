"""docs/algorithms.md lists every algorithm and every loss, and adds a new algorithm in a page."""

import re
from pathlib import Path
from typing import get_args

from algos.algorithm_registry import ALGORITHMS
from algos.losses import LossType

PAGE = (Path(__file__).parents[2] / "docs" / "algorithms.md").read_text(encoding="utf-8")
BUILT_IN = [name for name, algorithm in ALGORITHMS.items() if algorithm.__module__.startswith("algos.")]


def test_a_new_algorithm_takes_a_page_at_most() -> None:
    """The snippet itself is run by test_docs.py, and trained by the next one."""
    (code,) = re.findall(r"^```python\n((?:(?!^```)[\s\S])*?^class [\s\S]*?)^```", PAGE[PAGE.index("## How to write") :], re.M)
    assert "register(" in code
    assert len(code.splitlines()) <= 60


def test_every_algorithm_and_loss_is_in_a_table() -> None:
    rows = set(re.findall(r"^\| `(\w+)`", PAGE, re.M))
    assert set(BUILT_IN) <= rows
    assert set(get_args(LossType)) <= rows
