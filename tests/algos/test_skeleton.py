"""`agon new`: what it writes is clean, passes its own test, and does what its README says."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import agon_env
from agon_env.errors import Error
from algos import cli
from algos.skeleton import make_skeleton


def run_tests_of(folder: Path) -> None:
    """Run what `pytest` finds in the folder, in this process, which has loaded torch already."""
    before = set(sys.modules)
    try:
        assert pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]) == 0
    finally:
        for name in set(sys.modules) - before:
            if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


def entry_points(folder: Path) -> dict[str, dict[str, str]]:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]


def test_a_game_passes_its_test_is_checked_and_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "here"
    assert cli.run(["new", "game", "tic-tac-toe", "--folder", str(folder)]) == 0
    assert {file.name for file in folder.iterdir()} == {
        "README.md",
        "pyproject.toml",
        "test_tic_tac_toe.py",
        "tic_tac_toe.py",
    }
    assert str(folder / "README.md") in capsys.readouterr().out
    assert entry_points(folder) == {"agon_env.envs": {"tic_tac_toe": "tic_tac_toe:register"}}
    run_tests_of(folder)
    del agon_env.registry["TicTacToe-v0"]
    monkeypatch.syspath_prepend(folder)
    try:
        assert cli.run(["check", "tic_tac_toe:TicTacToe-v0"]) == 0
        fast = ["--steps", "2", "--problems", "2", "--group-size", "2", "--eval-problems", "2"]
        where = ["--output-dir", str(tmp_path), "--name", "run"]
        assert cli.run(["train", "--env", "tic_tac_toe:TicTacToe-v0", *fast, *where]) == 0
    finally:
        agon_env.registry.pop("TicTacToe-v0", None)
        sys.modules.pop("tic_tac_toe", None)
    steps = (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(step)["step"] for step in steps] == [0, 1]


def test_an_agent_passes_its_test(tmp_path: Path) -> None:
    folder = make_skeleton("agent", "Parrot2", tmp_path / "parrot")
    run_tests_of(folder)
    assert entry_points(folder) == {"agon_env.agents": {"parrot_2": "parrot_2:Parrot2"}}


def test_an_algorithm_passes_its_test(tmp_path: Path) -> None:
    folder = make_skeleton("algorithm", "HalvedRewards", tmp_path / "halved")
    run_tests_of(folder)
    assert entry_points(folder) == {"agon_env.algorithms": {"halved_rewards": "halved_rewards:HalvedRewards"}}


@pytest.mark.skipif(shutil.which("ruff", path=os.path.dirname(sys.executable)) is None, reason="ruff is in the extra test")
@pytest.mark.parametrize("kind", ["game", "agent", "algorithm"])
def test_what_is_written_is_clean(kind, tmp_path: Path) -> None:
    folder = make_skeleton(kind, "ABCGame", tmp_path / "it")
    assert (folder / "abc_game.py").is_file()
    ruff = [sys.executable, "-m", "ruff"]
    rules = ["check", "--isolated", "--select", "E,F,I,UP,B", "--line-length", "128", str(folder)]
    for arguments in (rules, ["format", "--isolated", "--check", "--line-length", "128", str(folder)]):
        done = subprocess.run([*ruff, *arguments], capture_output=True, text=True, timeout=60, check=False, cwd=folder)
        assert done.returncode == 0, done.stdout
    assert "class ABCGame(" in (folder / "abc_game.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["random", "agents", "import", "1st", "a b", "../up", "", "naïve"])
def test_names_that_can_not_be_modules_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(Error, match="name"):
        make_skeleton("game", name, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_nothing_is_written_over(tmp_path: Path) -> None:
    folder = make_skeleton("agent", "Parrot", tmp_path / "parrot")
    (folder / "parrot.py").write_text("mine", encoding="utf-8")
    with pytest.raises(Error, match="holds something already"):
        make_skeleton("agent", "Parrot", folder)
    assert (folder / "parrot.py").read_text(encoding="utf-8") == "mine"
