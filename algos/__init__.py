"""The learning: rollouts, advantages, losses, the trainer. It knows players and roles, never the game.

What most scripts need is here, and imported when it is first used: `train` and `TrainConfig`, `load_trained`, and for a loop of
one's own `rollout` and `LocalLearner`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import agents

if TYPE_CHECKING:
    from algos.config import TrainConfig
    from algos.learner import LocalLearner
    from algos.rollouts import rollout
    from algos.trainer import train
    from algos.training.trained import load_trained

if not getattr(agents, "__agon_env__", False):
    raise ImportError(
        f"the package `agents` that Python finds, at {agents.__file__}, is not the one of agon-env: another distribution "
        "installs a package of that name. Use a virtual environment without it, or put agon-env first on sys.path."
    )

__all__ = ["LocalLearner", "TrainConfig", "load_trained", "rollout", "train"]

_LAZY = {
    "LocalLearner": "algos.learner",
    "TrainConfig": "algos.config",
    "load_trained": "algos.training.trained",
    "rollout": "algos.rollouts",
    "train": "algos.trainer",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
