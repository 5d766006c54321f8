"""docs/tutorial.md does what it says: its game is short, and its commands work one after the other."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
(GAME,) = re.findall(r"^```python\n(import(?:(?!^```)[\s\S])*?^class [\s\S]*?)^```", PAGE, re.M)
SESSION = "\n".join(re.findall(r"^```python\n([\s\S]*?)^```", PAGE.partition(GAME)[2], re.M))
"""The Python that follows the game, as it is typed where the game's file is."""
COMMANDS = [line.partition("#")[0].split() for line in re.findall(r"^agon .*$", PAGE, re.M)]


def test_the_game_takes_40_lines_or_fewer() -> None:
    (game,) = [node for node in ast.parse(GAME).body if isinstance(node, ast.ClassDef)]
    assert game.end_lineno - game.lineno + 1 <= 40


def python(code: str, *arguments: str, at: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=at,
        input="I say \\boxed{4}.\n.\n",
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join([str(at), *sys.path])},
        check=False,
    )
    assert done.returncode == 0, f"{arguments or code}:\n{done.stdout}{done.stderr}"


@pytest.mark.slow
def test_its_commands_work_and_its_policies_learn(tmp_path: Path) -> None:
    (tmp_path / "race.py").write_text(GAME, encoding="utf-8")
    assert [words[1] for words in COMMANDS] == ["play", "check", "train", "report", "play"]
    for words in COMMANDS:
        python("from algos.cli import main; main()", *words[1:], at=tmp_path)
    python(SESSION, at=tmp_path)
    assert (tmp_path / "runs" / "race" / "report.html").stat().st_size > 100_000
    summary = json.loads((tmp_path / "runs" / "race" / "summary.json").read_text(encoding="utf-8"))
    for figure in ("draft_pass1", "answer_pass1"):  # of the one who speaks first, and of the one who speaks last
        assert summary["after"][figure] > summary["before"][figure] + 0.1
