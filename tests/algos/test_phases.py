"""Times and peaks of the phases of a step."""

import pytest
import torch

from algos.learning.memory import PeakMemory
from algos.phases import phase, recording

CPU = torch.device("cpu")


class Clock:
    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("algos.phases.time", clock)
    return clock


def times(stats):
    return {name.removeprefix("time/"): value for name, value in stats.items() if name.startswith("time/")}


def test_times_of_nested_phases_add_up(clock):
    with recording(CPU) as phases:
        with phase("update"):
            clock.sleep(2)
            with phase("logprob"):
                clock.sleep(4)
            clock.sleep(3)
        with phase("sample"):
            clock.sleep(1)
        clock.sleep(10)
        stats = phases.stats()
    assert times(stats) == {"update": 5, "logprob": 4, "sample": 1, "step": 20}
    assert {name for name in stats if name.startswith("memory/")} == {
        "memory/peak_gib_update",
        "memory/peak_gib_logprob",
        "memory/peak_gib_sample",
    }


def test_outside_of_a_recording_nothing_is_counted(clock):
    with phase("sample"):
        clock.sleep(1)
    with recording(CPU) as phases:
        clock.sleep(1)
    with phase("sample"):
        clock.sleep(1)
    assert "sample" not in times(phases.stats())


def test_a_phase_that_fails_ends(clock):
    with recording(CPU) as phases:
        with pytest.raises(ZeroDivisionError), phase("update"):
            raise ZeroDivisionError
        clock.sleep(2)
    assert times(phases.stats()) == {"update": 0, "step": 2}


def test_the_peak_is_that_of_the_phase():
    memory = PeakMemory(CPU)
    memory.reset()
    if memory.peak() > memory.now() + 0.05:
        pytest.skip("this system can't forget a process's peak")
    with recording(CPU) as phases:
        with phase("sample"):
            torch.ones(64 * 2**20)  # 256 MiB
        with phase("update"):
            torch.ones(2**20)
        stats = phases.stats()
    assert stats["memory/peak_gib_sample"] - stats["memory/peak_gib_update"] == pytest.approx(0.25, abs=0.05)
