"""Who takes part in a tournament: agents by their ids, the policies of a run, and all that is left of its checkpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from safetensors.torch import load_file

import agents
from agents.adapters import BASE
from agents.agent import Agent
from agents.cascade import Cascade
from agents.engines.torch import TorchEngine
from agents.policy import LLMPolicy
from agents.sampling import SamplingParams
from agents.shared_base import SharedBase
from algos.config import TrainConfig, load_config
from algos.errors import ConfigError
from algos.parallel.work import adapter_tensors, digest_of
from algos.playing.opponents import fill, read_snapshots
from algos.playing.players import RUN, run_of
from algos.playing.policies import load_bases, make_policy
from algos.training.checkpoint import SNAPSHOTS, checkpoints, step_of
from algos.training.trained import Trained, load_trained

_LABEL = re.compile(r"(?P<label>[\w.-]+)=(?P<spec>.+)", re.DOTALL)


@dataclass(frozen=True)
class Entrant:
    """Somebody who takes part."""

    label: str
    """What it is called in tables; no two have the same."""
    agent: Agent
    spec: str
    """What tells it from another one of the same label, with which a tournament does not go on: an id, or a base and the
    digest of its adapter. Nothing of it depends on where a folder lies."""
    policy: str | None = None
    """Of which policy of a run it is a state, if it is one."""
    step: int | None = None
    """After how many steps."""


def named(specs: Sequence[str], *, seats: int, params: SamplingParams) -> list[Entrant]:
    """Return the players that `specs` name.

    Args:
        specs: each `[LABEL=]ID`, an id that `agents.make` knows; or `run:FOLDER`, all policies of a run, or
            `run:FOLDER/NAME`, one of them; or "base", the frozen model of the first run among them.
        seats: of the contest; with one, the pair of a run takes part as well.
        params: how language models sample that no run tells it.

    Raises:
        NameNotFound: there is no such player.
        FileNotFoundError, CheckpointError: a folder is not that of a run, or nothing is saved in it.
        ConfigError: there is no such policy, or no run whose base is asked for.
    """
    found: list[Entrant] = []
    bases: list[Entrant] = []
    for given in specs:
        match = _LABEL.fullmatch(given)
        label, spec = (match["label"], match["spec"]) if match else (None, given)
        if spec.startswith(RUN):
            trained = load_trained(run_of(spec))
            one = Path(spec.removeprefix(RUN)).name if run_of(spec) != Path(spec.removeprefix(RUN)) else None
            found += _newest(trained, one, label or trained.run.resolve().name, seats=seats)
            bases = bases or _bare(trained.bases, trained.config)
        elif spec != BASE:
            found.append(_made(label or spec, spec, params))
    if BASE in specs and not bases:
        raise ConfigError(f"{BASE!r} is the frozen model of a run: name the run as well, run:FOLDER")
    return _told_apart([*found, *(bases if BASE in specs else ())])


def of_checkpoints(run: Path, *, seats: int) -> list[Entrant]:
    """Return every state of a run's policies that is left of it: its checkpoints, its snapshots, the bare base.

    Args:
        run: folder of the run.
        seats: of the contest; with one, the pair of every checkpoint takes part instead of its policies.

    Raises:
        FileNotFoundError: the folder holds no run.
        ConfigError: nothing is left of it.
    """
    config = load_config(run)
    names = config.make_algorithm().policies
    bases = load_bases(config, names, TorchEngine(max_rows=config.max_rows))
    found: dict[str, Entrant] = {}
    saved = checkpoints(run)
    for checkpoint in saved:
        step = step_of(checkpoint)
        if not step:  # the base, apart from noise that does nothing
            continue
        policies = {name: make_policy(bases[name], f"{name}-{step}", config, adapter=checkpoint / name) for name in names}
        found |= {entrant.label: entrant for entrant in _seated(policies, step, seats=seats)}
    newest = saved[-1] if saved else None
    if seats > 1 and newest is not None and (newest / SNAPSHOTS).is_file():
        for snapshot in read_snapshots(load_file(newest / SNAPSHOTS)):
            label = f"{snapshot.policy}-{snapshot.step}"
            if snapshot.step and label not in found and snapshot.policy in bases:
                policy = make_policy(bases[snapshot.policy], label, config)
                fill(policy, snapshot.tensors)
                found[label] = Entrant(label, policy, _weights(policy), snapshot.policy, snapshot.step)
    if not found:
        raise ConfigError(f"{run} has no checkpoint with a step of training in it; keep more with --keep-checkpoints")
    return [*found.values(), *_bare(list({id(base): base for base in bases.values()}.values()), config)]


def _bare(bases: Sequence[SharedBase], config: TrainConfig) -> list[Entrant]:
    """Return frozen bases as players."""
    label = {base.name: BASE if len(bases) == 1 else f"{BASE}:{base.name}" for base in bases}
    return [Entrant(label[base.name], make_policy(base, None, config), base.name, BASE, 0) for base in bases]


def _newest(trained: Trained, one: str | None, label: str, *, seats: int) -> list[Entrant]:
    """Return the newest policies of a run, or one of them."""
    policies = trained.policies if one is None else {one: trained.policy(one)}
    return [replace(entrant, label=f"{label}/{entrant.label}") for entrant in _seated(policies, None, seats=seats)]


def _seated(policies: Mapping[str, LLMPolicy], step: int | None, *, seats: int) -> list[Entrant]:
    """Return the policies of one moment; for a contest with one seat, two of them as the pair that they are."""
    end = "" if step is None else f"-{step}"
    if seats == 1 and len(policies) > 1:
        drafter, challenger, *_ = policies.values()
        spec = f"{_weights(drafter)}; {_weights(challenger)}"
        return [Entrant(f"pair{end}", Cascade(drafter, challenger), spec, "pair", step)]
    return [Entrant(f"{name}{end}", policy, _weights(policy), name, step) for name, policy in policies.items()]


def _weights(policy: LLMPolicy) -> str:
    """Return what a state of a policy is known by, wherever its run lies now."""
    return f"{policy.base.name}, adapter {digest_of(adapter_tensors(policy))}"


def _made(label: str, spec: str, params: SamplingParams) -> Entrant:
    sampling = f"{spec}, {params.max_tokens} tokens at temperature {params.temperature:g}"
    if spec.startswith("openai:"):
        agent = agents.make(spec, max_tokens=params.max_tokens, temperature=params.temperature)
        return Entrant(label, agent, sampling)
    agent = agents.make(spec)
    if not isinstance(agent, LLMPolicy):
        return Entrant(label, agent, spec)
    agent.params, agent.on_long_prompt = params, "cut"
    return Entrant(label, agent, sampling)


def _told_apart(entrants: Sequence[Entrant]) -> list[Entrant]:
    """Number those that have the same label."""
    seen: dict[str, int] = {}
    found = []
    for entrant in entrants:
        count = seen[entrant.label] = seen.get(entrant.label, 0) + 1
        found.append(entrant if count == 1 else replace(entrant, label=f"{entrant.label}#{count}"))
    return found
