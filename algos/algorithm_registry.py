"""Algorithms by name: those of this package, and whatever plug-ins add.

Other distributions add algorithms through the entry-point group `agon_env.algorithms`: the entry point's name is the
algorithm's name, and it leads to a subclass of `Algorithm`. They are read when a name is first missed, never on import.
Within one process `register` does the same.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from typing import Any, TypeGuard

from agon_env.errors import RegistrationError
from agon_env.plugins import Plugins
from algos.algorithm import Algorithm
from algos.competitive import CompetitiveGRPO
from algos.cooperative import CooperativeGRPO
from algos.errors import ConfigError
from algos.grpo import GRPO
from algos.league import League
from algos.ppo import PPO, CompetitivePPO
from algos.reinforce import Reinforce
from algos.rloo import RLOO
from algos.self_refine import SelfRefine

ALGORITHMS: dict[str, type[Algorithm]] = {
    "competitive_grpo": CompetitiveGRPO,
    "competitive_ppo": CompetitivePPO,
    "cooperative_grpo": CooperativeGRPO,
    "grpo": GRPO,
    "league": League,
    "ppo": PPO,
    "reinforce": Reinforce,
    "rloo": RLOO,
    "self_refine": SelfRefine,
}
"""Every registered algorithm by name; change it through `register`."""


def register(name: str, algorithm: type[Algorithm], *, force: bool = False) -> None:
    """Add an algorithm, in this process.

    Args:
        name: what it is called; without colons and spaces.
        algorithm: a subclass of `Algorithm`.
        force: replace what is registered under the name.

    Raises:
        RegistrationError: the name is taken or can't be used, or it is no subclass of `Algorithm`.
    """
    if not name or ":" in name or name.split() != [name]:
        raise RegistrationError(f"{name!r} can't name an algorithm; leave out colons and spaces")
    if not _is_algorithm(algorithm):
        raise RegistrationError(f"{algorithm!r} is not a subclass of algos.algorithm.Algorithm")
    if name in ALGORITHMS and not force:
        raise RegistrationError(f"there is an algorithm {name!r} already; choose another name, or pass force=True")
    ALGORITHMS[name] = algorithm


def find_algorithm(name: str) -> type[Algorithm]:
    """Return the algorithm of that name, or the class that "module:Class" leads to.

    Raises:
        ConfigError: there is none.
    """
    module, colon, attribute = name.partition(":")
    if name not in ALGORITHMS and not colon:
        _plugins.load()
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    try:
        found = getattr(importlib.import_module(module), attribute) if colon else None
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"the algorithm {name!r} can't be imported: {error}") from error
    if not _is_algorithm(found):
        near = difflib.get_close_matches(name, ALGORITHMS, n=1, cutoff=0.75)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ConfigError(
            f"algorithm must be one of {', '.join(ALGORITHMS)}, or module:Class of an Algorithm, not {name!r}.{hint}"
            f"{_plugins.complaints()}"
        )
    return found


def list_algorithms() -> dict[str, str]:
    """Return all algorithms, those of plug-ins included: name → the first line of its documentation."""
    _plugins.load()
    return {name: (inspect.getdoc(found) or "").partition("\n")[0] for name, found in sorted(ALGORITHMS.items())}


def owners(setting: str) -> list[str]:
    """Return the algorithms with which a field of a config has an effect."""
    return [name for name, found in sorted(ALGORITHMS.items()) if found.takes(setting)]


def broken_plugins() -> dict[str, str]:
    """Return the plug-ins that could not be loaded: name → why."""
    _plugins.load()
    return dict(_plugins.broken)


def _is_algorithm(found: Any) -> TypeGuard[type[Algorithm]]:
    return isinstance(found, type) and issubclass(found, Algorithm)


_plugins = Plugins("agon_env.algorithms", register)
