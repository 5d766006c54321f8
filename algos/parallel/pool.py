"""Rollout and verifier workers on a Ray cluster.

A rollout is divided into units of a few problems, the same ones however many workers there are. Adapters and templates of
contests are put into Ray's object store once for each version, under a digest of their content; a worker fetches what it has
not got. A worker that dies, or does not answer in time, is replaced, and its unit is played again by another one: units say
everything that they depend on, their luck included, so that it comes to the same.
"""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.agent import Agent
from agents.engines.torch import TorchEngine
from agents.policy import LLMPolicy
from agon_env.contest import Contest
from algos.errors import ConfigError, SamplerMismatch, WorkersFailed
from algos.parallel.cluster import RayWorker, Store, connect, import_ray
from algos.parallel.division import merge, numbered, unpack
from algos.parallel.ray_config import RayConfig
from algos.parallel.work import FrozenPolicy, Played, PolicySeat, Unit, adapter_tensors, describe, digest_of
from algos.phases import phase
from algos.rollouts import Rollout, Start

TRIES = 3
"""How often a unit is played before it is given up, where workers die over it."""


@dataclass
class Sent:
    """What was put into the object store since the pool began."""

    adapters: int = 0
    """Bytes of adapters."""
    templates: int = 0
    """Bytes of contests to fork."""
    replaced: int = 0
    """Workers that were replaced."""


@dataclass
class _Busy:
    """A worker at work."""

    worker: Any
    number: int
    unit: int
    since: float = field(default_factory=time.monotonic)


class RayPool:
    """Plays contests as `algos.rollouts.rollout` does, by workers elsewhere."""

    def __init__(
        self,
        config: RayConfig,
        *,
        make_engine: Callable[[], Any] = TorchEngine,
        device: str | None = None,
        threads: int | None = None,
    ) -> None:
        """Connect to the cluster and start the workers.

        Args:
            config: where, and how many.
            make_engine: makes the engine of a worker.
            device: of the models on the workers; None takes a GPU where there is one.
            threads: of torch on each worker; None: as many as it has processors.

        Raises:
            DependencyNotInstalled: ray is not installed.
            ConfigError: the cluster can't be reached, or has not got what is asked for.
            WorkersFailed: the workers do not start in time.
        """
        self._ray = import_ray()
        self.config, self.sent = config, Sent()
        self._own = not self._ray.is_initialized()
        if self._own:
            connect(self._ray, config.address)
        self._check_resources()
        self._make_engine, self._device = make_engine, device
        self._threads = threads or max(1, int(config.cpus))
        self._latest: dict[str, str] = {}
        self._templates: set[str] = set()
        self._store = self._ray.remote(num_cpus=0)(Store).remote()
        self._workers: list[Any] = [self._start() for _ in range(config.workers)]
        self._await_start()

    def facts(self) -> str:
        """Return what a banner says of the workers."""
        config, total = self.config, self._ray.cluster_resources()
        asked = f"{config.workers} workers with {config.cpus:g} CPUs" + (f" and {config.gpus:g} GPUs" if config.gpus else "")
        return (
            f"{asked} each, of {total.get('CPU', 0):g} CPUs and {total.get('GPU', 0):g} GPUs "
            f"on {len(self._ray.nodes())} nodes ({config.address})"
        )

    def pids(self) -> list[int]:
        """Return the process of each worker."""
        found: list[int] = self._ray.get([worker.pid.remote() for worker in self._workers])
        return found

    def rollout(
        self,
        make_contest: Callable[[], Contest],
        players: Mapping[str, Agent],
        starts: Sequence[Start],
        *,
        sample: object = None,
        **how: Any,
    ) -> Rollout:
        """Play one tree of contests for each start; see `algos.rollouts.rollout`.

        `sample` is not used: every worker samples with its own engine.

        Raises:
            WorkersFailed: several workers died or hung over one unit.
            Exception: what a unit raised.
        """
        template = make_contest()
        seats = {player: describe(agent) for player, agent in players.items()}
        for player, agent in players.items():
            seat = seats[player]
            if isinstance(agent, LLMPolicy) and isinstance(seat, PolicySeat) and seat.version:
                self._put_adapter(seat.version, agent)
        digest = self._put_template(template)
        placed = numbered(starts)
        units = [
            Unit(digest, seats, placed[first : first + self.config.unit], how)
            for first in range(0, len(placed), self.config.unit)
        ]
        with phase("sample"):
            played = self._play(units)
        return merge([unpack(one.packed, template) for one in played])

    def freeze(self, policy: LLMPolicy) -> FrozenPolicy:
        """Return a policy as it is now: the workers can play it while it changes here, until it is frozen again."""
        seat = describe(policy)
        assert isinstance(seat, PolicySeat)
        self._put_adapter(seat.version, policy)
        return FrozenPolicy(seat)

    def close(self) -> None:
        """End the workers, and the cluster if this pool has begun it."""
        if self._ray.is_initialized():  # else whoever began the cluster has ended it, and its workers with it
            for worker in self._workers:
                self._ray.kill(worker)
        self._workers = []
        if self._own:
            self._ray.shutdown()

    # --- playing ------------------------------------------------------------------------------------

    def _play(self, units: Sequence[Unit]) -> list[Played]:
        """Play all units; a unit whose worker is lost is played again."""
        waiting, tries = deque(range(len(units))), [0] * len(units)
        idle = list(range(len(self._workers)))
        busy: dict[Any, _Busy] = {}
        done: dict[int, Played] = {}
        while len(done) < len(units):
            while idle and waiting:
                number, index = idle.pop(0), waiting.popleft()
                tries[index] += 1
                busy[self._workers[number].play.remote(units[index])] = _Busy(self._workers[number], number, index)
            first = min(each.since for each in busy.values())
            ready, _ = self._ray.wait(list(busy), timeout=max(0.0, first + self.config.timeout - time.monotonic()))
            for reference in ready:
                job = busy.pop(reference)
                try:
                    done[job.unit] = _acknowledged(self._ray.get(reference), units[job.unit])
                except self._ray.exceptions.RayTaskError as error:
                    raise (error.cause if isinstance(getattr(error, "cause", None), Exception) else error) from error
                except self._ray.exceptions.RayError as error:
                    self._lost(job, units, tries, waiting, f"died: {str(error).strip().splitlines()[0]}")
                idle.append(job.number)
            late = [reference for reference, job in busy.items() if time.monotonic() - job.since >= self.config.timeout]
            for reference in late:
                job = busy.pop(reference)
                self._lost(job, units, tries, waiting, f"did not answer for {self.config.timeout:g} s")
                idle.append(job.number)
        return [done[index] for index in range(len(units))]

    def _lost(self, job: _Busy, units: Sequence[Unit], tries: Sequence[int], waiting: deque[int], why: str) -> None:
        """Replace a worker and put its unit back to the front."""
        self._ray.kill(job.worker)
        if tries[job.unit] >= TRIES:
            problems = [start.problem for start in units[job.unit].starts]
            raise WorkersFailed(
                f"the problems {problems} were given to {TRIES} workers, and the last one {why}. Look at the memory of the "
                "workers, and at ray.timeout if their models are slow"
            )
        self._workers[job.number] = self._start()
        self.sent.replaced += 1
        waiting.appendleft(job.unit)

    # --- what is sent -------------------------------------------------------------------------------

    def _put_adapter(self, digest: str, policy: LLMPolicy) -> None:
        """Put a version of an adapter into the object store; the one before, which nobody asks for any more, goes."""
        name = f"{policy.base.name} {policy.name}"
        if self._latest.get(name) == digest:
            return
        tensors = adapter_tensors(policy)
        self.sent.adapters += sum(array.nbytes for array in tensors.values())
        self._put(digest, tensors)
        if (before := self._latest.pop(name, None)) is not None and before not in self._latest.values():
            self._ray.get(self._store.remove.remote(before))
        self._latest[name] = digest

    def _put_template(self, template: Contest) -> str:
        packed = pickle.dumps(template)
        digest = digest_of(packed)
        if digest not in self._templates:
            self.sent.templates += len(packed)
            self._put(digest, packed)
            self._templates.add(digest)
        return digest

    def _put(self, digest: str, content: Any) -> None:
        self._ray.get(self._store.add.remote(digest, [self._ray.put(content)]))

    # --- workers ------------------------------------------------------------------------------------

    def _start(self) -> Any:
        config = self.config
        remote = self._ray.remote(num_cpus=config.cpus, num_gpus=config.gpus, max_concurrency=1)(RayWorker)
        return remote.remote(self._store, self._make_engine, self._device, self._threads)

    def _await_start(self) -> None:
        started = [worker.pid.remote() for worker in self._workers]
        ready, missing = self._ray.wait(started, num_returns=len(started), timeout=self.config.patience)
        if missing:
            free = self._ray.available_resources()
            self.close()
            raise WorkersFailed(
                f"{len(ready)} of {len(started)} workers have started within {self.config.patience:g} s; the cluster has "
                f"{free.get('CPU', 0):g} CPUs and {free.get('GPU', 0):g} GPUs left. Free some, ask for fewer workers, or raise "
                "ray.patience"
            )
        self._ray.get(ready)  # raises what a worker raised when it began

    def _check_resources(self) -> None:
        """Refuse to wait for what will never be there."""
        config, total = self.config, self._ray.cluster_resources()
        for what, asked in (("CPU", config.cpus), ("GPU", config.gpus)):
            if config.workers * asked > total.get(what, 0) + 1e-6:
                raise ConfigError(
                    f"{config.workers} workers with {asked:g} {what}s each need {config.workers * asked:g}, but the cluster "
                    f"has {total.get(what, 0):g}: set ray.workers or ray.{what.lower()}s lower, or add nodes"
                )


def _acknowledged(played: Played, unit: Unit) -> Played:
    """Make sure that a worker has played with the versions that it was sent."""
    asked = {seat.name: seat.version for seat in unit.seats.values() if isinstance(seat, PolicySeat)}
    if played.versions != asked:
        raise SamplerMismatch(f"a worker was to play with the adapters {asked}, but played with {dict(played.versions)}")
    return played
