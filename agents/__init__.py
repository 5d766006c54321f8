"""The players: anything that turns observations into text.

Example:
    ```python
    import agents

    player = agents.make("random", seed=0)
    player(observation)  # an Action
    ```

What needs torch (`SharedBase`, `LLMPolicy`, `TorchEngine`) is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from agents.agent import Agent, FunctionAgent, as_agent
from agents.registry import broken_plugins, list_agents, make, register
from agents.sampling import Completion, Engine, Request, SamplingParams, sample_many

if TYPE_CHECKING:
    from agents.cascade import Cascade
    from agents.engines.torch import TorchEngine
    from agents.ensemble import Ensemble
    from agents.faults import Guarded, guarded
    from agents.human import Human
    from agents.majority_vote import MajorityVote
    from agents.mixture_of_agents import MixtureOfAgents
    from agents.playing import play
    from agents.policy import LLMPolicy
    from agents.scripted import Copycat, Oracle, Random
    from agents.self_refine import SelfRefine
    from agents.shared_base import SharedBase

__agon_env__ = True
"""Tells this package from others that are called `agents` too."""

__all__ = [
    "Agent",
    "Cascade",
    "Completion",
    "Copycat",
    "Engine",
    "Ensemble",
    "FunctionAgent",
    "Guarded",
    "Human",
    "LLMPolicy",
    "MajorityVote",
    "MixtureOfAgents",
    "Oracle",
    "Random",
    "Request",
    "SamplingParams",
    "SelfRefine",
    "SharedBase",
    "TorchEngine",
    "as_agent",
    "broken_plugins",
    "guarded",
    "list_agents",
    "make",
    "play",
    "register",
    "sample_many",
]

_LAZY = {
    "Cascade": "agents.cascade",
    "Ensemble": "agents.ensemble",
    "Guarded": "agents.faults",
    "guarded": "agents.faults",
    "play": "agents.playing",
    "Human": "agents.human",
    "LLMPolicy": "agents.policy",
    "MajorityVote": "agents.majority_vote",
    "MixtureOfAgents": "agents.mixture_of_agents",
    "Copycat": "agents.scripted",
    "Oracle": "agents.scripted",
    "Random": "agents.scripted",
    "SelfRefine": "agents.self_refine",
    "SharedBase": "agents.shared_base",
    "TorchEngine": "agents.engines.torch",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
