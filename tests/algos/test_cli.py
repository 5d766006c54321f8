"""The console script: exit codes, and messages instead of tracebacks."""

import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from algos import cli
from algos.commands import COMMANDS, DONE, INTERRUPTED, USAGE
from algos.commands.envs import LARGE_NAMESPACE

ROOT = Path(__file__).parents[2]
NARROW = {**os.environ, "COLUMNS": "80"}
FAST = [
    "--env-options",
    "difficulty=2",
    "--steps",
    "1",
    "--problems",
    "2",
    "--group-size",
    "2",
    "--eval-problems",
    "4",
    "--max-tokens",
    "32",
]


def agon(*args: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["agon", *args])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


def test_envs_lists_every_contest(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import agon_env

    assert agon("envs", "--all", monkeypatch=monkeypatch) == 0
    shown = capsys.readouterr().out
    assert all(id in shown for id in agon_env.list_envs())


def test_envs_keeps_ids_whole_and_large_namespaces_short(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import agon_env

    large = [f"LargeTest/Contest{number}-v0" for number in range(LARGE_NAMESPACE + 1)]
    for id in large:
        agon_env.register(id, "agon_env.games:Solo", kwargs={"task": "arithmetic"})
    agon_env.register("tests/" + "Long" * 20 + "-v0", "nowhere:Nothing")
    try:
        monkeypatch.setenv("COLUMNS", "40")
        monkeypatch.setattr(sys, "argv", ["agon", "envs"])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code
        shown = capsys.readouterr().out
    finally:
        for id in [*large, "tests/" + "Long" * 20 + "-v0"]:
            del agon_env.registry[id]
    assert "tests/" + "Long" * 20 + "-v0" in shown
    assert "LargeTest/*" in shown
    assert f"{len(large)} contests" in shown
    assert not any(id in shown for id in large)
    assert "reveal" in shown
    assert "the challenger reads the draft" in " ".join(shown.split())


def test_eval_judges_on_as_many_problems_as_the_run_and_needs_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fast = [*FAST, "--output-dir", str(tmp_path), "--name", "run"]
    assert agon("train", *fast, monkeypatch=monkeypatch) == 0
    capsys.readouterr()
    run = tmp_path / "run"
    assert agon("eval", str(run), monkeypatch=monkeypatch) == 0
    assert json.loads(capsys.readouterr().out)["n"] == 4
    for name in ("alice", "bob"):
        shutil.rmtree(run / name)
    assert agon("eval", str(run), monkeypatch=monkeypatch) == 0  # stopped after step 1: its checkpoint is judged
    shutil.rmtree(run / "checkpoint" / "step-1")
    assert agon("eval", str(run), monkeypatch=monkeypatch) == 2
    assert f"agon train --resume {run}" in " ".join(capsys.readouterr().err.split())
    assert agon("eval", str(run), "--problems", "0", monkeypatch=monkeypatch) == 2
    assert "--problems must be at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_by_the_line_that_lists_it(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert agon(name, "--help", monkeypatch=monkeypatch) == 0
    shown = capsys.readouterr().out
    assert f"agon {name}" in shown
    assert COMMANDS[name].summary in shown


def test_help_has_a_line_for_each_command_and_imports_none(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; from algos.cli import run; print(run(['--help']), sorted(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60, env=NARROW)
    *lines, last = shown.stdout.splitlines()
    assert last.startswith("0 ")
    assert "torch" not in last
    assert "tyro" not in last
    for name, command in COMMANDS.items():
        assert any(line.split() == [name, *command.summary.split()] for line in lines), name
    assert max(map(len, lines)) <= 80


def test_the_module_can_be_run_where_the_console_script_is_not_on_the_path() -> None:
    command = [sys.executable, "-m", "algos.cli"]
    shown = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout.startswith("agon-env ")
    assert subprocess.run([*command, "--no-such"], capture_output=True, check=False, timeout=60).returncode == USAGE


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_and_flags(tmp_path: Path) -> None:
    script = tmp_path / "completion.bash"
    code = "import sys; from algos.cli import run; sys.exit(run(['completion', 'bash']))"
    with open(script, "w", encoding="utf-8") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True, timeout=240)

    def complete(*words: str) -> list[str]:
        typed = " ".join(f"'{word}'" for word in words)
        ask = f"COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; $(complete -p agon | sed 's/.*-F \\([^ ]*\\).*/\\1/') agon"
        shell = f'source {script}; {ask}; printf "%s\\n" "${{COMPREPLY[@]}}"'
        found = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False, timeout=60)
        return found.stdout.split()

    assert complete("agon", "tra") == ["train"]
    assert "--optim.learning-rate" in complete("agon", "train", "--optim.learn")
    assert complete("agon", "verify", "ma") == ["math"]


@pytest.mark.parametrize("args", [["train", "--nope", "1"], ["train", "--steps", "ten"], ["check"], ["eval", "a", "b"]])
def test_flags_that_can_not_be_read_exit_with_2(
    args: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert agon(*args, monkeypatch=monkeypatch) == USAGE
    assert f"agon {args[0]} --help" in capsys.readouterr().err


def test_complaints_quote_without_acting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert agon("play", "Nope\x1b[2J-v0", monkeypatch=monkeypatch) == USAGE
    assert "\x1b" not in capsys.readouterr().err
    config = tmp_path / "folder.yaml"
    config.mkdir()
    assert agon("train", "--write-config", str(config), monkeypatch=monkeypatch) == USAGE
    assert "folder.yaml" in capsys.readouterr().err


def test_a_wrong_command_is_told_the_right_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert agon("tran", monkeypatch=monkeypatch) == USAGE
    assert "Did you mean 'train'" in capsys.readouterr().err
    assert agon(monkeypatch=monkeypatch) == USAGE
    assert "agon COMMAND" in capsys.readouterr().out
    assert agon("--version", monkeypatch=monkeypatch) == DONE
    assert capsys.readouterr().out.startswith("agon-env ")


def test_agents_lists_every_player(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert agon("agents", monkeypatch=monkeypatch) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("random", "oracle", "human", "embedded"))


def test_check_passes_a_good_contest_and_fails_a_bad_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import agon_env
    from agon_env.games import Solo

    class Forgetful(Solo):
        def prompt(self, role: str) -> str:
            self.asked = getattr(self, "asked", 0) + 1
            return f"{super().prompt(role)} ({self.asked})"

    assert agon("check", "ArithmeticSolo-v0", monkeypatch=monkeypatch) == 0
    agon_env.register("tests/Forgetful-v0", Forgetful, kwargs={"task": "arithmetic"}, force=True)
    try:
        assert agon("check", "tests/Forgetful-v0", monkeypatch=monkeypatch) == 1
    finally:
        del agon_env.registry["tests/Forgetful-v0"]
    assert "breaks a rule" in capsys.readouterr().err


def test_a_path_in_a_mistake_is_not_broken_over_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / ("a-long-name-" * 10)
    monkeypatch.setattr(sys, "argv", ["agon", "report", str(folder)])
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == USAGE
    assert str(folder) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["check", "Nope-v0"], "there is no contest Nope"),
        (["eval", "nowhere"], "not the folder of a run"),
        (["replay", "nowhere", "--most", "-1"], "most must be at least 1, not -1"),
        (["train", "--resume", "nowhere"], "not the folder of a run"),
        (["train", "--env-options", "nope=1"], "does not take the option 'nope'"),
        (["train", "--env", "ArithmeticSolo-v0"], "needs a contest for 2 players"),
        (["train", "--env", "ArithmaticDuel-v0"], "ArithmeticDuel"),
    ],
)
def test_mistakes_get_a_sentence_and_exit_code_2(
    args: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert agon(*args, monkeypatch=monkeypatch) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert "Traceback" not in shown


def test_train_then_eval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert agon("train", *FAST, "--output-dir", str(tmp_path), "--name", "run", monkeypatch=monkeypatch) == 0
    capsys.readouterr()
    assert agon("eval", str(tmp_path / "run"), "--problems", "4", monkeypatch=monkeypatch) == 0
    shown = capsys.readouterr()
    file = tmp_path / "run" / "evaluation.json"
    assert "".join(shown.err.split()) == str(file)
    figures = json.loads(file.read_text(encoding="utf-8"))
    after = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))["after"]
    assert {key: figures[key] for key in after if key != "ci95"} == {key: after[key] for key in after if key != "ci95"}
    assert set(figures["by_order"]) == {"alice → bob", "bob → alice"}
    assert set(figures["kl"]) == {"alice_bob"}
    printed = json.loads(shown.out)
    assert {key: type(value) for key, value in printed.items()} == {key: type(value) for key, value in figures.items()}
    (exact,), (shown_as,) = figures["kl"].values(), printed["kl"].values()
    assert exact != shown_as == float(f"{exact:.4g}")


def test_eval_writes_where_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert agon("train", *FAST, "--output-dir", str(tmp_path), "--name", "run", monkeypatch=monkeypatch) == 0
    assert agon("eval", str(tmp_path / "run"), "--out", str(tmp_path / "mine.json"), monkeypatch=monkeypatch) == 0
    assert json.loads((tmp_path / "mine.json").read_text(encoding="utf-8"))["n"] == 4
    assert not (tmp_path / "run" / "evaluation.json").exists()


def test_eval_against_players_that_stand_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fast = [*FAST, "--output-dir", str(tmp_path), "--name", "run", "--env-options", "difficulty=[2,3]"]
    assert agon("train", *fast, monkeypatch=monkeypatch) == 0
    capsys.readouterr()
    still = ("base", "oracle", "random", "copycat")
    options = ("--problems", "4", "--samples", "2", "--against", *still)
    assert agon("eval", str(tmp_path / "run"), *options, monkeypatch=monkeypatch) == 0
    card = json.loads(capsys.readouterr().out)
    assert card["n"] == 8
    assert set(card["pass_at"]) == {"pass@2", "maj@2"}
    assert sum(part["n"] for part in card["by_difficulty"].values()) == 8
    assert 0 <= card["disagreement"] <= 1
    assert {name: set(found) for name, found in card["against"].items()} == {name: {"alice", "bob"} for name in still}
    for policy in ("alice", "bob"):
        against = {name: card["against"][name][policy] for name in still}
        assert against["oracle"][f"{policy} → oracle"]["answer_pass1"] == 1.0
        assert against["random"][f"{policy} → random"]["answer_pass1"] == 0.0
        copied = against["copycat"][f"{policy} → copycat"]
        assert copied["answer_pass1"] == copied["draft_pass1"]
        assert copied.get("fix_rate", 0.0) == copied.get("break_rate", 0.0) == 0.0
    assert agon("eval", str(tmp_path / "run"), "--against", "nobody", monkeypatch=monkeypatch) == 2
    assert "no player 'nobody'" in capsys.readouterr().err


def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    """The real thing: a process of its own, a real signal, and the command that it prints works."""
    command = [
        sys.executable,
        str(ROOT / "examples" / "train_competitive.py"),
        *FAST,
        "--output-dir",
        str(tmp_path),
        "--name",
        "run",
    ]
    command[command.index("--steps") + 1] = "200"
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step 2/"):
            process.send_signal(2)
            break
    rest = process.stdout.read()
    assert process.wait(timeout=120) == INTERRUPTED
    assert f"agon train --resume {tmp_path / 'run'}" in " ".join(rest.split())
    steps = len((tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    resumed = subprocess.run(
        [
            sys.executable,
            "-c",
            "from algos.cli import main; main()",
            "train",
            "--resume",
            str(tmp_path / "run"),
            "--steps",
            str(steps + 1),
        ],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )
    assert resumed.returncode == 0, resumed.stderr
    assert (tmp_path / "run" / "summary.json").exists()
    assert len((tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()) == steps + 1


def test_a_warning_that_quotes_a_file_does_not_act_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> int:
        for kind in (UserWarning, FutureWarning):
            print(warnings.formatwarning("dropped \x1b[2J", kind, "\x1b]0;owned\x07.py", 1))
        return DONE

    assert cli._friendly(command) == DONE
    shown = capsys.readouterr().out
    assert shown.startswith("agon: dropped \\x1b[2J\n")  # a sentence, without its place in the source
    assert "owned" in shown
    assert "\x1b" not in shown
    assert warnings.formatwarning("\x1b", UserWarning, "a.py", 1).count("\x1b") == 1
