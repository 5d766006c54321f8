"""`agon arena` on the command line: players by name, the checkpoints and snapshots of a run, the figure."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from agents.sampling import SamplingParams
from algos.arena.entrants import named, of_checkpoints
from algos.cli import run as agon
from algos.commands import INTERRUPTED
from algos.config import TINY
from algos.errors import ConfigError
from algos.trainer import train

PARAMS = SamplingParams(max_tokens=8)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = replace(TINY, steps=3, problems=2, group_size=2, eval_problems=0, max_tokens=16, env_options=("difficulty=2",))
    config = replace(config, opponent="pool:recent", snapshot_every=1, checkpoint_every=1, keep_checkpoints=2)
    return train(replace(config, name="look", output_dir=str(tmp_path_factory.mktemp("runs"))))


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def test_checkpoints_snapshots_and_the_base_take_part(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert agon(["arena", "--run", str(run), "--against", "oracle", "base", "--games", "1", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "standings.json, standings.md, contests.jsonl, ratings.png" in shown
    standings = json.loads((tmp_path / "standings.json").read_text(encoding="utf-8"))
    found = {one["label"]: (one["policy"], one["step"]) for one in standings["players"]}
    states = {f"{name}-{step}": (name, step) for name in ("alice", "bob") for step in (1, 2, 3)}  # 1 is a snapshot alone
    assert found == states | {"base": ("base", 0), "oracle": (None, None)}
    assert standings["contests"] == 8 * 7
    assert (tmp_path / "ratings.png").read_bytes().startswith(b"\x89PNG")
    header = json.loads((tmp_path / "contests.jsonl").read_text(encoding="utf-8").split("\n")[0])
    assert (header["env"], header["kwargs"]["difficulty"]) == ("ArithmeticDuel-v0", 2)


def test_a_state_of_a_run_has_the_weights_that_it_had(run: Path) -> None:
    entrants = {entrant.label: entrant.agent for entrant in of_checkpoints(run, seats=2)}
    (saved,) = (path for path in (run / "checkpoint").iterdir() if path.name == "step-3")
    policy = entrants["alice-3"].base.policy("again", adapter=saved / "alice")
    for ours, theirs in zip(entrants["alice-3"].parameters(), policy.parameters(), strict=True):
        assert (ours == theirs).all()
    moved = [(a != b).any() for a, b in zip(entrants["alice-1"].parameters(), policy.parameters(), strict=True)]
    assert any(moved)
    assert len({id(agent.base) for agent in entrants.values()}) == 1  # one frozen model for all


def test_alone_the_pairs_of_a_run_take_part(run: Path) -> None:
    assert [entrant.label for entrant in of_checkpoints(run, seats=1)] == ["pair-2", "pair-3", "base"]
    assert [entrant.label for entrant in named([f"run:{run}"], seats=1, params=PARAMS)] == ["look/pair"]


def test_players_are_named_by_id_label_and_folder(run: Path) -> None:
    specs = ["oracle", "me=random", "random", "random", f"run:{run}", f"new=run:{run}/bob", "base", "hf:embedded"]
    entrants = named(specs, seats=2, params=PARAMS)
    assert [entrant.label for entrant in entrants] == [
        *("oracle", "me", "random", "random#2", "look/alice", "look/bob", "new/bob", "hf:embedded", "base")
    ]
    of = {entrant.label: entrant for entrant in entrants}
    assert of["hf:embedded"].agent.params == PARAMS
    assert of["hf:embedded"].spec == "hf:embedded, 8 tokens at temperature 1"
    assert of["look/alice"].agent.params.max_tokens == 16
    states = {entrant.label: entrant.spec for entrant in of_checkpoints(run, seats=2)}
    assert of["look/alice"].spec == states["alice-3"] != states["alice-2"]  # training on makes another player of it
    with pytest.raises(ConfigError, match="name the run as well"):
        named(["oracle", "base"], seats=2, params=PARAMS)
    with pytest.raises(ConfigError, match="no policy 'carol'"):
        named([f"run:{run}/carol"], seats=2, params=PARAMS)


def test_the_same_command_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["arena", "ArithmeticDuel-v0", "--players", "oracle", "copycat", "random", "--games", "3", "--out", str(tmp_path)]
    from algos.arena.results import ResultsFile

    add = ResultsFile.add
    calls = 0

    def stop(self: ResultsFile, *args: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 8:
            raise KeyboardInterrupt
        return add(self, *args)

    monkeypatch.setattr(ResultsFile, "add", stop)
    assert agon(command) == INTERRUPTED
    assert "The same command goes on" in capsys.readouterr().out
    assert agon(command) == 0
    assert calls == 8 + 11
    shown = capsys.readouterr().out
    assert "18 contests of ArithmeticDuel-v0" in shown
    assert "won/drawn/lost" in shown


def test_a_tournament_goes_on_where_its_run_has_been_moved_to(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = tmp_path / "before", tmp_path / "deep" / "after"
    shutil.copytree(run, before)
    assert agon(["arena", "--run", str(before), "--games", "1", "--contests", "20"]) == 0
    played = (before / "arena" / "contests.jsonl").read_bytes()
    after.parent.mkdir()
    before.rename(after)
    monkeypatch.chdir(after)
    assert agon(["arena", "--run", ".", "--games", "1"]) == 0
    contests = (after / "arena" / "contests.jsonl").read_bytes()
    assert contests.startswith(played)
    assert (played.count(b"\n"), contests.count(b"\n")) == (20, 7 * 6)
    shutil.rmtree(after / "checkpoint" / "step-3" / "alice")
    shutil.copytree(after / "checkpoint" / "step-3" / "bob", after / "checkpoint" / "step-3" / "alice")
    capsys.readouterr()
    assert agon(["arena", "--run", str(after), "--games", "1"]) == 2  # the same place and label, but other weights
    assert "the label 'alice-3' stands for" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "name the contest"),
        (["ArithmeticDuel-v0"], "at least 2 players, not 0"),
        (["ArithmeticDuel-v0", "--players", "oracle", "nobody"], "no player 'nobody'"),
        (["Nope-v0", "--players", "oracle", "random"], "no contest Nope"),
        (["--run", "nowhere"], "not the folder of a run"),
        (["ArithmeticDuel-v0", "--players", "oracle", "random", "--games", "0"], "at least 1"),
        (["ArithmeticDuel-v0", "--players", "oracle", "random", "--env-options", "nope=1"], "nope"),
        (["ArithmeticDuel-v0", "--players", "oracle", "random", "--max-tokens", "0"], "--max-tokens must be at least 1"),
    ],
)
def test_mistakes_are_sentences(
    args: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert agon(["arena", *args]) == 2
    shown = capsys.readouterr().err
    assert says in shown
    assert "Traceback" not in shown
