"""docs/algorithms.md lists every algorithm and every loss, and adds a new algorithm in a page."""

import inspect
import re
from pathlib import Path
from typing import get_args

import pytest

from algos import learner
from algos.algorithm_registry import ALGORITHMS
from algos.losses import LossType

PAGE = (Path(__file__).parents[2] / "docs" / "algorithms.md").read_text(encoding="utf-8")
BUILT_IN = [name for name, algorithm in ALGORITHMS.items() if algorithm.__module__.startswith("algos.")]


def test_a_new_algorithm_takes_a_page_at_most() -> None:
    """The snippet itself is run by test_docs.py, and trained by the next one."""
    (code,) = re.findall(r"^```python\n((?:(?!^```)[\s\S])*?^class [\s\S]*?)^```", PAGE[PAGE.index("## How to write") :], re.M)
    assert "register(" in code
    assert len(code.splitlines()) <= 60


@pytest.mark.parametrize("text", [PAGE, str(learner.__doc__)], ids=["the page", "the docstring"])
def test_the_protocol_of_learners_is_told_as_it_is(text: str) -> None:
    """Every method is named, with the parameters of the four that train."""
    methods = {name: value for name, value in vars(learner.Learner).items() if inspect.isfunction(value) and name[0] != "_"}
    assert {"sample", "forward_backward", "optim_step", "save"} < methods.keys()
    for name, method in methods.items():
        assert re.search(rf"^{name}\(|`{name}[`(]", text, re.M), name
        for told in re.findall(rf"(?:^|`){name}\((\w+(?:, \w+)*)\)(?=`| {{2}})", text, re.M):
            parameters = list(inspect.signature(method).parameters)[1:]
            assert told.split(", ") == parameters[: told.count(",") + 1], name


def test_every_algorithm_and_loss_is_in_a_table() -> None:
    rows = set(re.findall(r"^\| `(\w+)`", PAGE, re.M))
    assert set(BUILT_IN) <= rows
    assert set(get_args(LossType)) <= rows
