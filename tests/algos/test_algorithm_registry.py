"""Algorithms by name, by place, and from plug-ins; a broken plug-in harms nobody."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest

from agon_env.errors import RegistrationError
from agon_env.plugins import Plugins
from algos import algorithm_registry, cli
from algos.algorithm_registry import ALGORITHMS, broken_plugins, find_algorithm, list_algorithms, register
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
    monkeypatch.setattr(algorithm_registry, "_plugins", Plugins(group, algorithm_registry.register))
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
    assert "3 is not a subclass" in broken["number"]
    with pytest.raises(ConfigError, match=r"could not be loaded.*torn"):
        find_algorithm("torn")


@pytest.mark.usefixtures("plugins")
def test_one_is_registered_by_hand_once() -> None:
    register("by_hand", Mine)
    assert find_algorithm("by_hand") is Mine
    with pytest.raises(RegistrationError, match=r"there is an algorithm 'by_hand' already; .* force=True"):
        register("by_hand", GRPO)
    assert find_algorithm("by_hand") is Mine
    register("by_hand", GRPO, force=True)
    assert find_algorithm("by_hand") is GRPO


@pytest.mark.parametrize("name", ["", "my algorithm", "module:Mine"])
def test_a_name_that_could_not_be_found_is_refused(name: str) -> None:
    with pytest.raises(RegistrationError, match="can't name an algorithm"):
        register(name, Mine)


@pytest.mark.parametrize("other", [3, Mine(), TrainConfig])
def test_what_is_no_algorithm_is_refused(other: Any) -> None:
    with pytest.raises(RegistrationError, match=r"is not a subclass of algos\.algorithm\.Algorithm"):
        register("thing", other)
    assert "thing" not in ALGORITHMS


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
