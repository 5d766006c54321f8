"""The examples run, as a user would start them."""

import ast
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
QUICK = ["--env-options", "difficulty=2", "--steps", "1", "--problems", "2"]
QUICK += ["--group-size", "2", "--eval-problems", "4", "--max-tokens", "32"]


NO_ORACLE = """
import agon_env


class Silent(agon_env.Contest):
    roles = ("speaker",)

    def setup(self, rng, options):
        pass

    def prompt(self, role):
        return "Say nothing."


agon_env.register("Silent-v0", Silent)
"""


def run(name: str, *args: str, cwd: Path, stdin: str = "") -> str:
    result = start(name, *args, cwd=cwd, stdin=stdin)
    assert result.returncode == 0, result.stderr
    return result.stdout


def start(name: str, *args: str, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *args],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=240,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join([str(cwd), *sys.path])},
    )


def test_reproduce_table(tmp_path: Path) -> None:
    rows = ["--rows", "zero_shot", "grpo", "--seeds", "1", "--budget", "200", "--problems", "4"]
    small = ["--train.env-options", "difficulty=2", "--train.problems", "2", "--train.group-size", "2"]
    shown = run("reproduce_table.py", *rows, *small, cwd=tmp_path)
    assert "GRPO − zero-shot" in shown
    assert {"results.json", "table.md", "table.png"} <= {path.name for path in (tmp_path / "runs" / "matrix").iterdir()}


def test_train_competitive(tmp_path: Path) -> None:
    shown = run("train_competitive.py", *QUICK, cwd=tmp_path)
    assert "answers right (pass@1)" in shown
    assert (tmp_path / "runs" / "ArithmeticDuel-v0-competitive_grpo-seed0" / "summary.json").exists()


def test_train_self_refine(tmp_path: Path) -> None:
    assert "answers right (pass@1)" in run("train_self_refine.py", *QUICK, cwd=tmp_path)
    folder = tmp_path / "runs" / "ArithmeticDuel-v0-self_refine-seed0"
    assert (folder / "alice").exists()
    assert not (folder / "bob").exists()


def test_league(tmp_path: Path) -> None:
    args = ["--league-size", "3", "--opponent", "pool:recent", "--opponent-share", "0.5"]
    assert "answers right (pass@1)" in run("league.py", *QUICK, *args, cwd=tmp_path)
    folder = tmp_path / "runs" / "ArithmeticDuel-v0-league-seed0"
    assert all((folder / name).exists() for name in ("alice", "bob", "carol", "summary.json"))


def test_train_cooperative(tmp_path: Path) -> None:
    assert "answers right (pass@1)" in run("train_cooperative.py", *QUICK, cwd=tmp_path)
    folder = tmp_path / "runs" / "ArithmeticDuel-v0-cooperative_grpo-seed0"
    assert (folder / "alice").exists()
    assert (folder / "bob").exists()


def test_train_ppo(tmp_path: Path) -> None:
    assert "answers right (pass@1)" in run("train_ppo.py", *QUICK, cwd=tmp_path)


def test_train_grpo(tmp_path: Path) -> None:
    assert "answers right (pass@1)" in run("train_grpo.py", *QUICK, cwd=tmp_path)
    assert (tmp_path / "runs" / "ArithmeticSolo-v0-grpo-seed0" / "alice").exists()


def test_play_with_scripted_players(tmp_path: Path) -> None:
    shown = run("play.py", "--players", "oracle", "random", "--seed", "3", cwd=tmp_path)
    assert "alice: score 1.0, reward 1.5" in shown


def test_play_with_a_person_against_the_embedded_model(tmp_path: Path) -> None:
    shown = run("play.py", "--players", "human", "embedded", cwd=tmp_path, stdin="I guess.\n\\boxed{3}\n.\n")
    assert "> I guess.\n> \\boxed{3}" in shown
    assert shown.count("Start with") == 1 + 1  # each player is shown the question once
    assert "--- outcome ---" in shown


def test_play_alone(tmp_path: Path) -> None:
    shown = run("play.py", "--env", "ArithmeticSolo-v0", cwd=tmp_path)
    assert shown.count("says ---") == 1
    assert "alice: score 1.0" in run("play.py", "--env", "ArithmeticSolo-v0", "--players", "oracle", cwd=tmp_path)


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--players", "oracle"], "ArithmeticDuel-v0 needs 2 players (alice, bob), not 1: --players oracle"),
        (["--players", *["oracle"] * 3], "needs 2 players (alice, bob), not 3"),
        (["--env", "Nope-v0"], "there is no contest Nope"),
        (["--players", "orakle", "oracle"], "Did you mean 'oracle'?"),
    ],
)
def test_play_says_what_is_wrong(tmp_path: Path, args: list[str], sentence: str) -> None:
    result = start("play.py", *args, cwd=tmp_path)
    assert result.returncode == 1
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_play_says_that_a_game_has_no_oracle(tmp_path: Path) -> None:
    (tmp_path / "no_oracle.py").write_text(NO_ORACLE, encoding="utf-8")
    result = start("play.py", "--env", "no_oracle:Silent-v0", "--players", "oracle", cwd=tmp_path)
    assert result.returncode == 1
    assert "Silent has no oracle: it does not define solution(), so that no oracle can play no_oracle" in result.stderr
    assert "Traceback" not in result.stderr


def test_custom_agent(tmp_path: Path) -> None:
    assert "The follower was right in" in run("custom_agent.py", cwd=tmp_path)


def test_custom_game(tmp_path: Path) -> None:
    assert "[outcome] completed" in run("custom_game.py", cwd=tmp_path)


def test_the_custom_game_takes_40_lines_or_fewer() -> None:
    tree = ast.parse((EXAMPLES / "custom_game.py").read_text(encoding="utf-8"))
    (game,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert game.end_lineno - game.lineno + 1 <= 40


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_examples_are_short(example: str) -> None:
    lines = io.StringIO((EXAMPLES / example).read_text(encoding="utf-8")).readlines()
    assert len(lines) <= 80
