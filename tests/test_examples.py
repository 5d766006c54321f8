"""The examples run, as a user would start them."""

import ast
import io
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from agents.policy import LLMPolicy
from algos.learner import LocalLearner
from algos.types import Stats

EXAMPLES = Path(__file__).parents[1] / "examples"
LONGER = {"train_kuhn_poker.py": 125, "train_game.py": 150}
"""Experiments, with what they measure and their pictures."""
QUICK = ["--env-options", "difficulty=2", "--steps", "1", "--problems", "2"]
QUICK += ["--group-size", "2", "--eval-problems", "4", "--max-tokens", "32"]


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


def test_train_kuhn_poker(tmp_path: Path) -> None:
    shown = run("train_kuhn_poker.py", "--steps", "1", "--every", "1", "--output", "kuhn", cwd=tmp_path)
    assert "seed 0, step 1: exploitability" in shown
    assert (tmp_path / "kuhn.png").stat().st_size > 10_000


@pytest.mark.slow
def test_kuhn_poker_comes_nearer_to_an_equilibrium(tmp_path: Path) -> None:
    run("train_kuhn_poker.py", "--steps", "160", "--seeds", "0", "1", "--output", "kuhn", cwd=tmp_path)
    for curve in json.loads((tmp_path / "kuhn.json").read_text(encoding="utf-8"))["curves"].values():
        assert curve["now"][-1] < 0.5 * curve["now"][0]
        assert curve["mixture"][-1] < 0.5 * min(curve["mixture"][0], 11 / 24)  # 11/24: moves at random


def check_games(folder: Path, *games: str) -> None:
    """Every role of the games was measured before and after, with intervals, and there is a picture."""
    found = json.loads((folder / "games.json").read_text(encoding="utf-8"))
    assert set(found) == set(games)
    for figures in found.values():
        assert len(figures["roles"]) == 2
        for role in figures["roles"].values():
            assert set(role) == {"before", "after"}
            assert all(-1 <= low <= value <= high <= 1 for value, low, high in role.values())
    assert (folder / "games.png").stat().st_size > 5_000


def test_train_game(tmp_path: Path) -> None:
    small = ["--steps", "1", "--contests", "4", "--output", "games"]
    shown = run("train_game.py", "--game", "prover-verifier", *small, cwd=tmp_path)
    assert "prover-verifier, verifier: before " in shown
    check_games(tmp_path, "prover-verifier")
    run("train_game.py", "--game", "taboo", *small, cwd=tmp_path)  # beside what is there
    check_games(tmp_path, "prover-verifier", "taboo")


@pytest.mark.slow
def test_train_all_games(tmp_path: Path) -> None:
    run("train_game.py", "--steps", "2", "--contests", "8", "--output", "games", cwd=tmp_path)
    check_games(tmp_path, "debate", "prover-verifier", "proposer-solver", "taboo", "negotiation")


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


def test_play(tmp_path: Path) -> None:
    shown = run("play.py", "ArithmeticSolo-v0", "--players", "oracle", "--seed", "3", cwd=tmp_path)
    assert "alice, the solver, says" in shown


def test_custom_agent(tmp_path: Path) -> None:
    assert "The follower was right in" in run("custom_agent.py", cwd=tmp_path)


def test_custom_game(tmp_path: Path) -> None:
    shown = run("custom_game.py", cwd=tmp_path)
    assert "> I keep 1." in shown
    assert "[outcome] completed; rewards {'alice': 0.125, 'bob': 0.875}" in shown  # 1 and 7 of 8 coins
    assert "mean score of the responder" in shown
    folder = tmp_path / "runs" / "examples_SplitTheCoins-v0-competitive_grpo-seed0"
    steps = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [step["alice/rows"] > 0 and step["bob/rows"] > 0 for step in steps] == [True] * 8
    judged = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert judged["after"]["forfeits"] < judged["before"]["forfeits"]
    assert judged["after"]["answer_pass1"] > judged["before"]["answer_pass1"] + 0.2


def test_training_loop(tmp_path: Path) -> None:
    small = ["--steps", "3", "--problems", "2", "--group-size", "4", "--max-tokens", "32"]
    shown = run("training_loop.py", *small, cwd=tmp_path).splitlines()
    paid = [re.fullmatch(r"step (\d)  alice, (\w+): (\d\.\d\d)  bob, (\w+): (\d\.\d\d)", line) for line in shown]
    assert [found and (found[1], found[2], found[4]) for found in paid] == [
        ("0", "drafter", "challenger"),
        ("1", "challenger", "drafter"),
        ("2", "drafter", "challenger"),
    ]
    assert sum(float(found[3]) + float(found[5]) for found in paid if found) > 0
    assert shown == run("training_loop.py", *small, cwd=tmp_path).splitlines()  # the same seed, the same run


def test_the_training_loop_moves_both_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    moved: dict[str, float] = {}
    step = LocalLearner.optim_step

    def watch(learner: LocalLearner, policy: LLMPolicy) -> Stats:
        stats = step(learner, policy)
        moved[policy.name] = stats["grad_norm"]
        return stats

    monkeypatch.setattr(LocalLearner, "optim_step", watch)
    runpy.run_path(str(EXAMPLES / "training_loop.py"))["main"](steps=1, problems=4, max_tokens=32)
    assert set(moved) == {"alice", "bob"}
    assert min(moved.values()) > 0


def test_the_training_loop_takes_60_lines_or_fewer() -> None:
    assert len((EXAMPLES / "training_loop.py").read_text(encoding="utf-8").splitlines()) <= 60


def test_the_custom_game_takes_40_lines_or_fewer() -> None:
    tree = ast.parse((EXAMPLES / "custom_game.py").read_text(encoding="utf-8"))
    (game,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert game.end_lineno - game.lineno + 1 <= 40


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_examples_are_short(example: str) -> None:
    lines = io.StringIO((EXAMPLES / example).read_text(encoding="utf-8")).readlines()
    assert len(lines) <= LONGER.get(example, 80)
