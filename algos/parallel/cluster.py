"""A Ray cluster, and what runs on it: a store of what is sent, and workers. The only file that imports ray."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from agents.errors import DependencyNotInstalled
from algos.errors import ConfigError
from algos.parallel.ray_config import LOCAL
from algos.parallel.work import Played, Unit, Worker


class Store:
    """Digest → reference; one for all workers, so that what is sent once can be fetched by any of them, and later."""

    def __init__(self) -> None:
        """Hold nothing."""
        self._references: dict[str, Any] = {}

    def add(self, digest: str, references: list[Any]) -> None:
        """Keep a reference; it comes in a list, for one that is an argument itself would be resolved on the way."""
        (self._references[digest],) = references

    def remove(self, digest: str) -> None:
        """Forget a reference, so that what it leads to may go."""
        del self._references[digest]

    def get(self, digest: str) -> list[Any]:
        """Return a reference, in a list."""
        return [self._references[digest]]


class RayWorker:
    """A `Worker` as an actor."""

    def __init__(self, store: Any, make_engine: Callable[[], Any], device: str | None, threads: int) -> None:
        """Begin a worker that fetches what it needs by way of `store`."""
        ray = import_ray()

        def fetch(digest: str) -> Any:
            (reference,) = ray.get(store.get.remote(digest))
            return ray.get(reference)

        self._worker = Worker(make_engine(), device=device, threads=threads, fetch=fetch)

    def play(self, unit: Unit) -> Played:
        """Play a unit to the end."""
        return self._worker.play(unit)

    def pid(self) -> int:
        """Return this process."""
        return os.getpid()


def import_ray() -> Any:
    """Return the module ray, which sends no statistics about its use unless it is told to.

    Raises:
        DependencyNotInstalled: there is none.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise DependencyNotInstalled('rollout workers need Ray: pip install "agon-env[ray]"') from error
    return ray


def connect(ray: Any, address: str) -> None:
    """Begin a cluster of this machine, or find one.

    Raises:
        ConfigError: nobody answers at the address.
    """
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
    if address == LOCAL:
        # What this process can import, its workers can: they are on the same machine.
        ray.init(runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}}, **quiet)
        return
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", configure_logging=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"no Ray cluster answers at {address!r}: {error}. Begin one with `ray start --head`, or take ray.address=local"
        ) from error
