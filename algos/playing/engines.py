"""The sampling engine that a config names."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from agents.engines.served import Backend, ServedEngine
from agents.engines.tinker import TinkerEngine
from agents.engines.torch import TorchEngine
from agents.shared_base import SharedBase
from algos.errors import ConfigError
from algos.parallel.pool import RayPool

if TYPE_CHECKING:
    from algos.config import TrainConfig

AnyEngine: TypeAlias = TorchEngine | ServedEngine | TinkerEngine


def make_engine(config: TrainConfig, *, policies: int) -> AnyEngine:
    """Return what samples for the policies of a run.

    Args:
        config: its `engine` names it, and its `learner` where that samples by itself.
        policies: how many there are; a server holds them all, and as many opponents.

    Raises:
        DependencyNotInstalled: vLLM is asked for, and there is none that is known.
    """
    if config.learner != "local":
        return TinkerEngine(config.learner.partition(":")[2] or None)
    kind, _, address = config.engine.partition(":")
    if kind == "torch":
        return TorchEngine(max_rows=config.max_rows)
    held = max(4, 2 * policies)
    if address:
        from agents.engines.vllm_server import VLLMServer

        return ServedEngine(lambda base: VLLMServer(base, address), max_adapters=held)
    from agents.engines.vllm import VLLM, require_vllm

    require_vllm()  # before a model is loaded

    def start(base: SharedBase) -> Backend:
        return VLLM(base, max_adapters=held)

    return ServedEngine(start, max_adapters=held)


def make_workers(config: TrainConfig, *, policies: int) -> RayPool:
    """Return the rollout workers of a run, each with the engine that the config names.

    Args:
        config: its `ray` says where, and how many.
        policies: how many there are.

    Raises:
        DependencyNotInstalled: Ray is not installed.
        ConfigError: the cluster can't be reached, or has not got what is asked for.
        WorkersFailed: the workers do not start in time.
    """
    return RayPool(
        config.ray,
        make_engine=partial(make_engine, config, policies=policies),
        device=None if config.device == "auto" else config.device,
        threads=config.threads or None,
    )


def check_engine(engine: str) -> None:
    """Refuse what names no engine.

    Raises:
        ConfigError: the message lists the engines.
    """
    kind, _, address = engine.partition(":")
    if engine in ("torch", "vllm") or (kind == "vllm" and address.startswith(("http://", "https://"))):
        return
    raise ConfigError(f'engine must be "torch", "vllm" or "vllm:URL" of a server, not {engine!r}')
