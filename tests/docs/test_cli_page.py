"""Every line of the documentation that calls `agon` names a command that there is, and flags that it takes."""

import contextlib
import io
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from algos import cli
from algos.commands import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def calls(page: Path) -> list[list[str]]:
    """Return the words of each line in a ```bash block that calls agon, without the rest of a pipe."""
    blocks = re.findall(r"^```bash\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").split("\n")]
    words = [shlex.split(line, comments=True) for line in lines if line.startswith("agon ")]
    return [line[1 : line.index(">") if ">" in line else None] for line in words]


@cache
def help_of(*command: str) -> str:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        cli.run([*command, "--help"])
    return shown.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_flags_exist(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for name, *rest in calls(page):
        assert name in COMMANDS, f"there is no agon {name}"
        shown = help_of(name, rest[0]) if name == "verify" else help_of(name)
        flags = [word.split("=")[0] for word in rest if word.startswith("--")]
        missing = [flag for flag in flags if not re.search(rf"{re.escape(flag)}\b", shown)]
        assert not missing, f"agon {name} does not take {missing}"


def test_the_page_of_the_command_shows_every_command() -> None:
    named = {call[0] for call in calls(ROOT / "docs" / "cli.md")} | set(
        re.findall(r"`agon (\w+)", (ROOT / "docs" / "cli.md").read_text(encoding="utf-8"))
    )
    assert named >= set(COMMANDS)
