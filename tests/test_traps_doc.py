"""docs/traps.md names tests that exist, rules that exist, and every trap."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from agon_env import checker

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "traps.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([TE]\d+) ([^|]*) \| ([^|]*) \| ([^|]*) \|$", TEXT, re.M)
TESTS = sorted(set(re.findall(r"`(tests/[\w/.]+::\w+)`", TEXT)))


@cache
def names_in(file: str) -> set[str]:
    """Return the tests of a file, without importing it."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


@pytest.mark.parametrize("test", TESTS)
def test_every_test_exists(test: str) -> None:
    file, name = test.split("::")
    assert name in names_in(file)


def test_every_trap_has_one_line() -> None:
    wanted = [f"T{number}" for number in range(1, 65)] + [f"E{number}" for number in range(1, 59)]
    assert [row[0] for row in ROWS] == wanted
    assert len(ROWS) == len(re.findall(r"^\| [TE]\d", TEXT, re.M))  # none was missed for its form


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_every_line_names_a_test_or_a_reason(row: tuple[str, str, str, str]) -> None:
    assert re.search(r"`tests/[\w/.]+::test_\w+`|does not apply: \w+|\bcheck_\w+", row[3])


def test_every_mention_of_a_test_is_checked() -> None:
    assert len(re.findall("tests/", TEXT)) == len(re.findall(r"`tests/[\w/.]+::\w+`", TEXT))


def test_every_rule_that_is_named_is_run() -> None:
    run = {rule.__name__ for rule in (*checker.RULES, checker.check_processes)} | {"check_env"}
    assert set(re.findall(r"\bcheck_[a-z]\w*", TEXT)) <= run
