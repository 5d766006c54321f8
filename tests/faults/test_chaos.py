"""Runs that are killed, filled up and damaged end like the one that nothing happened to. Slow; also benchmarks/chaos.py."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import chaos

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    # a child of a process in which torch has started threads may wait for them for ever
    pytest.mark.skipif(torch.get_num_threads() != 1, reason="run it alone, with OMP_NUM_THREADS=1"),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("chaos")
    return folder, chaos.uninterrupted(chaos.SMALL, folder)


def test_a_second_run_is_the_same(whole: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    _, expected = whole
    assert [name for name, value in chaos.uninterrupted(chaos.SMALL, tmp_path).items() if value != expected[name]] == []


def test_thirty_kills(whole: tuple[Path, dict[str, Any]]) -> None:
    folder, expected = whole
    told = chaos.kills(chaos.SMALL, folder, expected, count=30, seed=0)
    assert told["faults"] == []
    assert told["kills"] >= 30
    assert told["in_checkpoint"] >= 1


def test_damaged_files(whole: tuple[Path, dict[str, Any]]) -> None:
    folder, expected = whole
    assert chaos.damages(chaos.SMALL, folder, expected, seed=0)["faults"] == {}


def test_a_clock_that_jumps(whole: tuple[Path, dict[str, Any]]) -> None:
    folder, expected = whole
    assert chaos.jumping_clock(chaos.SMALL, folder, expected, seed=0)["faults"] == []


def test_a_full_and_a_read_only_disk(whole: tuple[Path, dict[str, Any]]) -> None:
    folder, expected = whole
    try:
        assert chaos.full_disk(chaos.SMALL, folder, expected, seed=0)["faults"] == {}
    except PermissionError as error:
        pytest.skip(str(error))
