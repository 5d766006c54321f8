from __future__ import annotations

import pytest
from hypothesis import settings
from toys import Doubling, Nim

from agon_env.games import DraftChallenge, Solo

settings.register_profile("env", deadline=None)  # a busy machine is not a fault
settings.load_profile("env")


@pytest.fixture
def task() -> Doubling:
    return Doubling()


@pytest.fixture
def duel(task: Doubling) -> DraftChallenge:
    return DraftChallenge(task)


@pytest.fixture
def solo(task: Doubling) -> Solo:
    return Solo(task)


@pytest.fixture
def nim() -> Nim:
    return Nim()
