"""The engine that a config names, and what a run makes of it."""

import dataclasses

import pytest

from agents.engines.torch import TorchEngine
from agents.errors import DependencyNotInstalled
from algos.config import TINY
from algos.errors import ConfigError
from algos.playing.engines import make_engine
from algos.training.run import Run


def test_torch_is_the_engine_unless_another_is_named() -> None:
    engine = make_engine(dataclasses.replace(TINY, max_rows=5), policies=2)
    assert isinstance(engine, TorchEngine)
    assert engine.max_rows == 5


@pytest.mark.parametrize("name", ["vLLM", "sglang", "vllm:", "vllm:localhost:8000", "torch:2"])
def test_other_engines_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match='engine must be "torch", "vllm" or "vllm:URL"'):
        dataclasses.replace(TINY, engine=name)


def test_vllm_that_is_not_installed_is_named_before_a_model_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.engines.vllm.installed_version", lambda: None)
    with pytest.raises(DependencyNotInstalled, match="pip install"):
        make_engine(dataclasses.replace(TINY, engine="vllm"), policies=2)


@pytest.mark.parametrize(("asked", "used"), [("none", "token"), ("sequence", "sequence")])
def test_the_difference_between_vllm_and_the_learner_is_corrected(
    asked: str, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("algos.training.run.make_engine", lambda config, policies: TorchEngine())
    loss = dataclasses.replace(TINY.loss, sampler_correction=asked)
    run = Run.of(dataclasses.replace(TINY, engine="vllm", loss=loss))
    assert run.learners["alice"].loss.sampler_correction == used
    plain = Run.of(dataclasses.replace(TINY, loss=loss))
    assert plain.learners["alice"].loss.sampler_correction == asked
