"""A server with narrow limits, whose engine says the same token again and again."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agents import embedded

if TYPE_CHECKING:
    from scripted_engine import ScriptedEngine
    from small_run import Running


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from small_run import make_run  # which needs the server's packages

    return make_run(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def engine() -> "ScriptedEngine":
    from scripted_engine import ScriptedEngine
    from transformers import AutoTokenizer

    (token,) = AutoTokenizer.from_pretrained(embedded.path())("7", add_special_tokens=False)["input_ids"]
    return ScriptedEngine(token=token)


@pytest.fixture(scope="module")
def server(run: Path, engine: "ScriptedEngine") -> "Iterator[Running]":
    from limited_server import LIMITS
    from small_run import serving

    with serving(run, limits=LIMITS, engine=engine) as running:
        yield running


@pytest.fixture
def quick(engine: "ScriptedEngine") -> Iterator[None]:
    """The engine is quick and sound at the start of a test and after it."""
    engine.seconds, engine.broken = 0.0, False
    yield
    engine.seconds, engine.broken = 0.0, False
