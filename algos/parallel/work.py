"""What a rollout worker is told, and what it does: it plays some starts with adapters that it was sent. Nothing here knows Ray.

A worker is told everything that a unit of work depends on, so that any worker plays it to the same result, and again if the
first one died over it.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from agents.adapters import BASE, AdapterSpec
from agents.agent import Agent
from agents.policy import LLMPolicy
from agents.sampling import Engine, SamplingParams
from agents.shared_base import SharedBase
from agon_env.types import Action, Observation
from algos.errors import ConfigError
from algos.parallel.division import pack
from algos.rollouts import Start, rollout

if TYPE_CHECKING:
    from agon_env.contest import Contest


@dataclass(frozen=True)
class PolicySeat:
    """A policy, as a worker makes it."""

    base: str
    """What its base is loaded from; see `agents.loading.load_model`."""
    name: str
    spec: AdapterSpec | None
    """The shape of its adapter; None for the bare base."""
    version: str
    """Digest of its adapter's weights; empty for the bare base."""
    params: SamplingParams
    thinking: bool | None
    on_long_prompt: Literal["error", "cut"]


@dataclass(frozen=True)
class Unit:
    """Starts that are played in lockstep, in batches of their own: the result does not depend on who plays what else."""

    template: str
    """Digest of the contest to fork."""
    seats: Mapping[str, PolicySeat | bytes]
    """Player → a policy, or a pickled agent."""
    starts: Sequence[Start]
    how: Mapping[str, Any]
    """Keyword arguments of `rollout`."""


@dataclass(frozen=True)
class Played:
    """What a worker sends back."""

    packed: bytes
    """The rollout, see `division.unpack`."""
    versions: Mapping[str, str]
    """Policy → the version that it played with: what the worker holds, not what it was told."""


class Worker:
    """Plays units. Models, templates and adapters stay from unit to unit; what is new is fetched."""

    def __init__(self, engine: Engine, *, device: str | None, threads: int, fetch: Callable[[str], Any]) -> None:
        """Begin with nothing.

        Args:
            engine: generates the tokens.
            device: of the models; None takes a GPU if there is one.
            threads: of torch. The same number on every worker: sums in another order are other sums.
            fetch: returns what has a digest: the pickled template of a contest, or the tensors of an adapter.
        """
        torch.set_num_threads(threads)
        self._engine, self._device, self._fetch = engine, device, fetch
        self._bases: dict[str, SharedBase] = {}
        self._templates: dict[str, Contest] = {}
        self._versions: dict[tuple[str, str], str] = {}

    def play(self, unit: Unit) -> Played:
        """Play a unit to the end."""
        template = self._template(unit.template)
        first = unit.starts[0].problem or 0
        players = {player: self._seat(seat, luck=first) for player, seat in unit.seats.items()}
        found = rollout(template.fork, players, unit.starts, **unit.how)
        policies = [seat for seat in unit.seats.values() if isinstance(seat, PolicySeat)]
        return Played(pack(found, template), {seat.name: self._versions.get((seat.base, seat.name), "") for seat in policies})

    def _template(self, digest: str) -> Contest:
        if digest not in self._templates:
            self._templates[digest] = pickle.loads(self._fetch(digest))  # of our own driver
        return self._templates[digest]

    def _seat(self, seat: PolicySeat | bytes, *, luck: int) -> Agent:
        if isinstance(seat, bytes):
            agent: Agent = pickle.loads(seat)
            if callable(begin := getattr(agent, "seed", None)):  # else every unit would have the same luck
                begin(luck)
            return agent
        if seat.base not in self._bases:
            self._bases[seat.base] = SharedBase.load(seat.base, device=self._device, engine=self._engine)
        base = self._bases[seat.base]
        if seat.spec is not None:
            self._bring(base, seat)
        return LLMPolicy(
            base,
            seat.name,
            params=seat.params,
            engine=self._engine,
            thinking=seat.thinking,
            on_long_prompt=seat.on_long_prompt,
        )

    def _bring(self, base: SharedBase, seat: PolicySeat) -> None:
        """Put the adapter of a seat where the base finds it."""
        if self._versions.get((seat.base, seat.name)) == seat.version:
            return
        if seat.name not in base.adapters.names:
            assert seat.spec is not None
            base.adapters.add(seat.name, seat.spec, seed=0)
        tensors = self._fetch(seat.version)
        own = base.adapters.state(seat.name)
        assert own.keys() == tensors.keys()
        for key, tensor in tensors.items():
            own[key].copy_(torch.as_tensor(tensor))
        self._versions[seat.base, seat.name] = seat.version


class FrozenPolicy(Agent):
    """A policy as it was at some moment, for workers to play; here it can't act."""

    def __init__(self, seat: PolicySeat) -> None:
        """Stand for `seat`, whose adapter the workers can fetch."""
        self.seat, self.name = seat, seat.name

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        """Refuse."""
        raise NotImplementedError(f"{self.name!r} as it was is played by workers alone")


def describe(agent: Agent) -> PolicySeat | bytes:
    """Return what a worker needs to make the same player.

    Raises:
        ConfigError: it is a player that can't be sent.
    """
    if isinstance(agent, FrozenPolicy):
        return agent.seat
    if not isinstance(agent, LLMPolicy):
        try:
            return pickle.dumps(agent)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"{agent!r} can't be sent to workers: {error}. Play without --ray, or take another player"
            ) from error
    base = agent.base
    bare = agent.name == BASE
    return PolicySeat(
        base=base.name,
        name=agent.name,
        spec=None if bare else base.adapters.spec(agent.name),
        version="" if bare else digest_of(adapter_tensors(agent)),
        params=agent.params,
        thinking=agent.chat.thinking,
        on_long_prompt=agent.on_long_prompt,
    )


def adapter_tensors(policy: LLMPolicy) -> dict[str, Any]:
    """Return the adapter of a policy as NumPy arrays, which travel without being copied."""
    return {key: _array(tensor) for key, tensor in policy.base.adapters.state(policy.name).items()}


def digest_of(content: bytes | Mapping[str, Any]) -> str:
    """Return what content is called: the same content has the same name."""
    digest = hashlib.blake2b(digest_size=16)
    if isinstance(content, bytes):
        digest.update(content)
    else:
        for key, array in content.items():
            digest.update(key.encode())
            digest.update(array.tobytes())
    return digest.hexdigest()


def _array(tensor: Tensor) -> Any:
    return tensor.detach().cpu().contiguous().numpy().copy()
