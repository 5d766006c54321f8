from __future__ import annotations

import pytest

import agon_env

CONTESTS = sorted(id for id in agon_env.registry if "/" not in id)
"""Every contest that the package registers; those of lazily listed namespaces have tests of their own."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "contest_id" in metafunc.fixturenames:
        metafunc.parametrize("contest_id", CONTESTS)
