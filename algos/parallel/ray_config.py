"""The settings of rollout workers."""

from __future__ import annotations

from dataclasses import dataclass

from algos.errors import ConfigError

LOCAL = "local"
"""An address: a cluster of this machine alone, which ends with this process."""


@dataclass(frozen=True)
class RayConfig:
    """Rollout workers on a Ray cluster."""

    address: str = ""
    """Of the cluster: "local" makes one of this machine, "auto" finds the one that this machine is part of, or host:port.
    Empty: no Ray; contests are played in this process."""
    workers: int = 2
    """Workers, each with a copy of the base and an engine."""
    cpus: float = 1.0
    """Processors of each worker; torch gets as many threads, at least one."""
    gpus: float = 0.0
    """GPUs of each worker; a half lets two share one."""
    unit: int = 1
    """Problems that a worker plays at a time, in one batch. Fewer spread better, more sample better on a GPU."""
    timeout: float = 600.0
    """Seconds after which a worker that has not played its unit counts as hung and is replaced."""
    patience: float = 300.0
    """Seconds to wait for the workers to start."""

    def __post_init__(self) -> None:
        for name in ("workers", "unit"):
            if getattr(self, name) < 1:
                raise ConfigError(f"ray.{name} must be at least 1, not {getattr(self, name)}")
        for name in ("cpus", "timeout", "patience"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"ray.{name} must be above 0, not {getattr(self, name)}")
        if not self.gpus >= 0:
            raise ConfigError(f"ray.gpus must be at least 0, not {self.gpus}")
