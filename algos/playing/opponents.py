"""Opponents: who takes the place of a policy's live rival, for some or all of its contests.

A rival that learns as fast as oneself is a moving target: two policies can chase each other in a circle, and
self-play can forget what it once could beat. An opponent stands still.

| `opponent`                          | who sits in the rival's seat                                             |
|-------------------------------------|--------------------------------------------------------------------------|
| `rival`                             | the rival itself, as it is now                                           |
| `base`                              | the rival's base without an adapter, which is also where the rival began |
| `frozen:FOLDER`                     | a saved adapter: that of the rival in a run's folder, or FOLDER itself   |
| `pool:uniform`, `recent`, `win_rate`| a past snapshot of the rival                                             |
| `agent:ID`                          | any player that `agents.make` knows                                      |

Whoever takes a rival's place is never trained: it has no optimiser, and its adapter takes no gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

import agents
from agents.adapter_files import CONFIG_FILE
from agents.agent import Agent
from agents.policy import LLMPolicy
from agon_env.contest import Contest
from agon_env.rewards import CooperativeReward
from algos.errors import ConfigError
from algos.playing.policies import make_policy, sampling_params
from algos.playing.win_rates import Weighting, WinRates, chances

if TYPE_CHECKING:
    from algos.config import TrainConfig

POOLS: Mapping[str, Weighting] = {"uniform": "uniform", "recent": "recent", "win_rate": "hard"}
"""What follows "pool:" → how its snapshots are weighed."""


class Opponents(Protocol):
    """A kind of opponent."""

    def begin(self, step: int, rates: WinRates) -> None:
        """Get ready for a step, before anything is played."""
        ...

    def draw(self, rival: str, *, learner: str, rates: WinRates, rng: np.random.Generator) -> str:
        """Return the name of the opponent that `learner` meets in the place of `rival`."""
        ...

    def seat(self, rival: str, name: str, *, seed: int) -> Agent:
        """Return the player of that name. It plays until the next call for the same rival."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Return what is kept from step to step: flat names → tensors, fit for safetensors."""
        ...

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` returned."""
        ...


class FixedOpponents(Opponents):
    """One opponent in the place of each rival, the same for the whole run."""

    def __init__(self, players: Mapping[str, Agent], *, name: str) -> None:
        """Take `players`: rival → who plays in its place. They are called `name`."""
        self.players, self.name = dict(players), name

    def begin(self, step: int, rates: WinRates) -> None:
        """Do nothing."""

    def draw(self, rival: str, *, learner: str, rates: WinRates, rng: np.random.Generator) -> str:
        """Return the one name that there is."""
        return self.name

    def seat(self, rival: str, name: str, *, seed: int) -> Agent:
        """Return the player; one with random numbers of its own begins them anew, so that a resumed run sees the same."""
        player = self.players[rival]
        if callable(begin := getattr(player, "seed", None)):
            begin(seed)
        return player

    def state(self) -> dict[str, Tensor]:
        """Return nothing."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Snapshot:
    """A policy as it was before a step."""

    policy: str
    step: int
    tensors: Mapping[str, Tensor]
    """The adapter, on the CPU, under PEFT's names for files."""

    @property
    def name(self) -> str:
        """What it is called in win rates, for example "bob@20"."""
        return f"{self.policy}@{self.step}"


def read_snapshots(state: Mapping[str, Tensor]) -> list[Snapshot]:
    """Return the snapshots that `SnapshotPool.state` wrote, those of one policy from the oldest to the newest."""
    found: dict[tuple[str, int], dict[str, Tensor]] = {}
    for label, tensor in state.items():
        name, _, key = label.partition(":")
        policy, _, taken = name.rpartition("@")
        found.setdefault((policy, int(taken)), {})[key] = tensor
    return [Snapshot(policy, step, found[policy, step]) for policy, step in sorted(found)]


def fill(policy: LLMPolicy, tensors: Mapping[str, Tensor]) -> None:
    """Copy a snapshot's tensors into a policy's adapter, which has the same shape."""
    keys = policy.base.adapters.state(policy.name)  # in the order of the parameters
    with torch.no_grad():
        for key, parameter in zip(keys, policy.parameters(), strict=True):
            parameter.copy_(tensors[key])


class SnapshotPool(Opponents):
    """Past snapshots of every policy, of which one at a time is resident.

    Each policy gets a second adapter, `NAME-past`, into which a snapshot is copied when it is to play.
    """

    def __init__(
        self, policies: Mapping[str, LLMPolicy], slots: Mapping[str, LLMPolicy], *, weighting: Weighting, size: int, every: int
    ) -> None:
        """Begin with an empty pool.

        Args:
            policies: those that learn.
            slots: policy → the adapter that its snapshots play with; of the same shape, on the same base.
            weighting: how a snapshot is drawn.
            size: most snapshots of one policy.
            every: steps between two snapshots; the first is taken before the first step.
        """
        self.weighting, self.size, self.every = weighting, size, every
        self._policies, self._slots = dict(policies), dict(slots)
        self._snapshots: dict[str, list[Snapshot]] = {name: [] for name in policies}
        for slot in self._slots.values():
            for parameter in slot.parameters():
                parameter.requires_grad_(False)

    def names(self, policy: str) -> tuple[str, ...]:
        """Return the snapshots of a policy, the oldest first."""
        return tuple(snapshot.name for snapshot in self._snapshots[policy])

    def begin(self, step: int, rates: WinRates) -> None:
        """Take the snapshots that are due, and drop those for which there is no room."""
        if step % self.every:
            return
        for name, policy in self._policies.items():
            adapter = policy.base.adapters.state(policy.name)
            tensors = {key: tensor.detach().to("cpu", copy=True) for key, tensor in adapter.items()}
            self._snapshots[name].append(Snapshot(name, step, tensors))
            if len(self._snapshots[name]) > self.size:
                dropped = self._snapshots[name].pop(self._least_useful(name, rates))
                rates.forget(dropped.name)

    def draw(self, rival: str, *, learner: str, rates: WinRates, rng: np.random.Generator) -> str:
        """Draw one of the rival's snapshots, weighed by its age or by how often `learner` beats it."""
        names = self.names(rival)
        return names[rng.choice(len(names), p=chances(self.weighting, [rates.rate(learner, name) for name in names]))]

    def seat(self, rival: str, name: str, *, seed: int) -> Agent:
        """Copy a snapshot into the rival's second adapter."""
        (snapshot,) = (snapshot for snapshot in self._snapshots[rival] if snapshot.name == name)
        fill(self._slots[rival], snapshot.tensors)
        return self._slots[rival]

    def state(self) -> dict[str, Tensor]:
        """Return every snapshot, as `POLICY@STEP:KEY` → tensor."""
        kept = [snapshot for snapshots in self._snapshots.values() for snapshot in snapshots]
        return {f"{snapshot.name}:{key}": tensor for snapshot in kept for key, tensor in snapshot.tensors.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Put back the snapshots that `state` returned."""
        self._snapshots = {name: [] for name in self._policies}
        for snapshot in read_snapshots(state):
            self._snapshots[snapshot.policy].append(snapshot)

    def _least_useful(self, policy: str, rates: WinRates) -> int:
        """Return which snapshot to drop: the oldest, or by win rate the one, not the newest, that is beaten most surely."""
        if self.weighting != "hard":
            return 0
        learners = [name for name in self._policies if name != policy] or [policy]
        beaten = [min(rates.rate(learner, name) for learner in learners) for name in self.names(policy)[:-1]]
        return int(np.argmax(beaten))


def make_opponents(config: TrainConfig, policies: Mapping[str, LLMPolicy], contest: Contest) -> Opponents | None:
    """Return the opponents that `config.opponent` names; None where everyone meets its live rival.

    Raises:
        ConfigError: there is no such folder, the contest has no rival, or nobody can win.
    """
    kind, _, argument = config.opponent.partition(":")
    if kind == "rival":
        return None
    if len(contest.roles) < 2:
        raise ConfigError(f'{config.env} has one player, so nobody to be replaced by {config.opponent!r}: set opponent="rival"')
    if config.opponent == "pool:win_rate" and isinstance(contest.reward_rule, CooperativeReward):
        raise ConfigError('a team is paid alike, so nobody wins and opponent="pool:win_rate" means nothing: take "pool:recent"')
    if kind == "pool":
        slots = {name: make_policy(policy.base, f"{name}-past", config) for name, policy in policies.items()}
        return SnapshotPool(policies, slots, weighting=POOLS[argument], size=config.pool_size, every=config.snapshot_every)
    return FixedOpponents({name: _fixed(kind, argument, config, policy) for name, policy in policies.items()}, name=kind)


def check_opponent(opponent: str) -> None:
    """Refuse what names no kind of opponent.

    Raises:
        ConfigError: the message lists the kinds.
    """
    kind, _, argument = opponent.partition(":")
    if opponent in ("rival", "base") or (kind in ("frozen", "agent") and argument) or (kind == "pool" and argument in POOLS):
        return
    pools = ", ".join(f'"pool:{name}"' for name in POOLS)
    raise ConfigError(f'opponent must be "rival", "base", {pools}, "frozen:FOLDER" or "agent:ID", not {opponent!r}')


def _fixed(kind: str, argument: str, config: TrainConfig, rival: LLMPolicy) -> Agent:
    if kind == "base":
        return make_policy(rival.base, None, config)
    if kind == "frozen":
        folder = Path(argument)
        found = [place for place in (folder / rival.name, folder) if (place / CONFIG_FILE).is_file()]
        if not found:
            raise ConfigError(f"{folder} holds neither an adapter nor one of {rival.name!r}; name a run or an adapter's folder")
        frozen = make_policy(rival.base, f"{rival.name}-frozen", config, adapter=found[0])
        for parameter in frozen.parameters():
            parameter.requires_grad_(False)
        return frozen
    player = guarded_player(agents.make(argument), config)
    if isinstance(player, LLMPolicy):
        player.params, player.on_long_prompt = sampling_params(config), config.on_long_prompt
    return player


def guarded_player(player: Agent, config: TrainConfig) -> Agent:
    """Return a player whose faults end its contests as `on_agent_fault` says; a language model of ours is left as it is."""
    if isinstance(player, LLMPolicy):
        return player
    fate: Literal["forfeit", "abort"] = "forfeit" if config.on_agent_fault == "forfeit" else "abort"
    return agents.guarded(player, on_fault=fate, timeout=config.agent_timeout)
