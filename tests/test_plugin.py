"""examples/plugin: a distribution of its own adds a game, a player and an algorithm by entry points."""

import json
import os
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import gymnasium
import pytest

import agents.registry
import agon_env
from agon_env import registration
from agon_env.plugins import Plugins
from algos import algorithm_registry, cli
from algos.types import Turn

PLUGIN = Path(__file__).parents[1] / "examples" / "plugin"
TRAIN = ["train", "--env", "nim/Nim-v0", "--algorithm", "best_of_group", "--opponent", "agent:nim-expert"]
TRAIN += ["--steps", "2", "--problems", "2", "--group-size", "4", "--eval-problems", "2", "--max-tokens", "8", "--name", "nim"]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The entry points of the plug-in, as if pip had installed it; what they register is forgotten afterwards."""
    groups = tomllib.loads((PLUGIN / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    points = EntryPoints(EntryPoint(name, value, group) for group, named in groups.items() for name, value in named.items())
    monkeypatch.setattr("importlib.metadata.entry_points", lambda *, group: points.select(group=group))
    monkeypatch.syspath_prepend(PLUGIN)
    for module, accept in {
        registration: registration._accept_plugin,
        agents.registry: agents.registry._accept,
        algorithm_registry: algorithm_registry.register,
    }.items():
        monkeypatch.setattr(module, "_plugins", Plugins(module._plugins.group, accept))
    registries: list[dict] = [agon_env.registry, gymnasium.registry, agents.registry._entries, algorithm_registry.ALGORITHMS]
    before = [dict(registry) for registry in registries]
    yield
    for registry, old in zip(registries, before, strict=True):
        registry.clear()
        registry.update(old)
    for name in [name for name in sys.modules if name.partition(".")[0] == "agon_nim"]:
        del sys.modules[name]


def steps_of(run: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.usefixtures("installed")
def test_it_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    for command, name in {"envs": "nim/Nim-v0", "agents": "nim-expert", "algorithms": "best_of_group"}.items():
        assert cli.run([command]) == 0
        shown = capsys.readouterr()
        assert name in shown.out
        assert not shown.err


@pytest.mark.usefixtures("installed")
def test_the_game_keeps_the_rules_and_the_expert_wins_what_can_be_won() -> None:
    agon_env.check_env("nim/Nim-v0")
    env, expert = agon_env.make("nim/Nim-v0"), agents.make("nim-expert")
    for seed in range(16):
        obs, _ = env.reset(seed=seed)
        winning = env.sticks % 4 != 0
        while not env.done:
            obs, *_ = env.step(expert(obs))
        assert env.outcome.scores == {"alice": float(winning), "bob": float(not winning)}


@pytest.mark.usefixtures("installed")
def test_the_algorithm_learns_from_the_best_of_each_group_alone() -> None:
    def turn(reward: float | None, problem: int) -> Turn:
        return Turn("alice", "alice", "first", problem, 0, (1,), None, "", reward, {}, reward)

    algorithm = algorithm_registry.find_algorithm("best_of_group")()
    judged = algorithm.advantages([*(turn(paid, 0) for paid in (0.0, 1.0, None, 1.0)), turn(1.0, 1), turn(1.0, 1)])
    assert judged.values.tolist() == [0, 1, 0, 1, 0, 0]
    assert judged.kept.tolist() == [False, True, False, True, False, False]
    assert (judged.groups, judged.dropped) == (2, 1)


@pytest.mark.usefixtures("installed")
def test_it_trains(tmp_path: Path) -> None:
    assert cli.run([*TRAIN, "--output-dir", str(tmp_path)]) == 0
    assert steps_of(tmp_path / "nim") == [0, 1]


@pytest.mark.slow
def test_pip_installs_it_into_a_new_environment(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = str(tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python")

    def run(*args: str) -> str:
        done = subprocess.run([python, *args], cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def agon(*args: str) -> str:
        return run("-c", "import sys; from algos.cli import main; sys.exit(main())", *args)

    # What is installed here is seen there as well; addsitedir also reads the .pth files of an editable agon-env.
    site = run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    here = sysconfig.get_path("purelib")
    (Path(site) / "here.pth").write_text(f"import site; site.addsitedir({here!r})\n", encoding="utf-8")
    source = tmp_path / "plugin"  # a copy, since building writes into the folder
    for file in [*PLUGIN.glob("*.*"), *PLUGIN.glob("agon_nim/*.py")]:
        target = source / file.relative_to(PLUGIN)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
    run("-m", "pip", "install", "--quiet", "--no-deps", str(source))
    assert "nim/Nim-v0" in agon("envs")
    assert "nim-expert" in agon("agents")
    assert "best_of_group" in agon("algorithms")
    agon(*TRAIN, "--output-dir", str(tmp_path))
    assert steps_of(tmp_path / "nim") == [0, 1]
