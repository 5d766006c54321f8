"""`import algos` is light, and has what most scripts need."""

from __future__ import annotations

import subprocess
import sys

import pytest

import algos
from algos.config import TrainConfig
from algos.learner import LocalLearner
from algos.rollouts import rollout
from algos.trainer import train
from algos.training.trained import load_trained


def test_what_scripts_need_is_at_hand() -> None:
    found = [getattr(algos, name) for name in algos.__all__]
    assert found == [LocalLearner, TrainConfig, load_trained, rollout, train]
    assert set(algos.__all__) <= set(dir(algos))
    with pytest.raises(AttributeError, match="'algos' has no attribute 'trian'"):
        algos.trian  # noqa: B018


def test_importing_it_loads_no_model() -> None:
    code = "import sys, algos; print(sorted({'torch', 'transformers', 'peft', 'datasets', 'sympy'} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"
