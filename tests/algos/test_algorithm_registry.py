"""Algorithms by name, by place, and from plug-ins; a broken plug-in harms nobody."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from agon_env.plugins import Plugins
from algos import algorithm_registry, cli
from algos.algorithm_registry import ALGORITHMS, broken_plugins, find_algorithm, list_algorithms
from algos.competitive import CompetitiveGRPO
from algos.config import TrainConfig
from algos.errors import ConfigError
from algos.grpo import GRPO


class Mine(GRPO):
    """An algorithm of a plug-in."""


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three plug-ins: one that works, one that can't be imported, one that takes a name that there is."""
    group = "agon_env.algorithms"
    points = [
        EntryPoint("mine", f"{__name__}:Mine", group),
        EntryPoint("torn", "no_such_module:Thing", group),
        EntryPoint("grpo", f"{__name__}:Mine", group),
        EntryPoint("number", f"{__name__}:NUMBER", group),
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: EntryPoints(points).select(group=group))
    monkeypatch.setattr(algorithm_registry, "_plugins", Plugins(group, algorithm_registry._accept))
    before = dict(ALGORITHMS)
    yield
    ALGORITHMS.clear()
    ALGORITHMS.update(before)


NUMBER = 3


@pytest.mark.usefixtures("plugins")
def test_a_plug_in_is_found_when_its_name_is_missed() -> None:
    assert "mine" not in ALGORITHMS
    assert find_algorithm("grpo") is GRPO
    assert "mine" not in ALGORITHMS  # nothing was missed yet
    assert find_algorithm("mine") is Mine
    assert TrainConfig(env="ArithmeticSolo-v0", algorithm="mine").make_algorithm() == Mine()


@pytest.mark.usefixtures("plugins")
def test_a_broken_plug_in_is_named_and_harms_nobody() -> None:
    assert list_algorithms()["mine"] == "An algorithm of a plug-in."
    assert find_algorithm("grpo") is GRPO
    broken = broken_plugins()
    assert set(broken) == {"torn", "grpo", "number"}
    assert "no_such_module" in broken["torn"]
    assert "there is an algorithm 'grpo' already" in broken["grpo"]
    assert "not to a subclass" in broken["number"]
    with pytest.raises(ConfigError, match=r"could not be loaded.*torn"):
        find_algorithm("torn")


@pytest.mark.usefixtures("plugins")
def test_agon_algorithms_lists_them(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.run(["algorithms"]) == 0
    shown = capsys.readouterr()
    assert all(name in shown.out for name in ALGORITHMS)
    assert "An algorithm of a plug-in." in shown.out
    assert "broken plug-in torn" in shown.err


def test_names_and_places() -> None:
    assert find_algorithm("algos.competitive:CompetitiveGRPO") is CompetitiveGRPO
    with pytest.raises(ConfigError, match="Did you mean 'competitive_grpo'"):
        find_algorithm("competitive_gpro")
    with pytest.raises(ConfigError, match="can't be imported"):
        find_algorithm("algos.competitive:Nothing")
    with pytest.raises(ConfigError, match="algorithm must be one of"):
        find_algorithm("algos.config:TINY")
