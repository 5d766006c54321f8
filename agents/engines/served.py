"""Sampling by a server that holds a copy of the base: adapters are sent to it, and it is made sure that they arrived.

Every version of an adapter has a name and a number of its own ("alice@17"), so that no cache of the server can take one
for another. It is sent when it is first sampled with; the version before is unloaded, the prefix cache is reset, and a
canary is asked (`agents.engines.canary`). Only adapters travel; one server has all policies of a base, and frozen opponents.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from agents.adapters import BASE
from agents.engines.canary import TOP, Reading, base_noise, check_reading, make_probes, own_logprobs
from agents.errors import PromptTooLong
from agents.sampling import Completion, Request, SamplingParams

if TYPE_CHECKING:
    from agents.policy import LLMPolicy
    from agents.shared_base import SharedBase


@dataclass(frozen=True)
class ServedAdapter:
    """One version of an adapter, as the server knows it."""

    name: str
    """For example "alice@17"; never used again."""
    number: int
    """Never used again either: servers keep weights by it (vllm#31326)."""
    folder: Path
    """Where its files are, in PEFT's layout. The server must be able to read them."""


@dataclass(frozen=True)
class ServedRow:
    """A completion that a server is asked for."""

    prompt: tuple[int, ...]
    seed: int
    """In [0, 2**63)."""
    max_tokens: int
    adapter: ServedAdapter | None
    """None: the bare base."""


class Backend(Protocol):
    """A server, wherever it is."""

    block: int
    """Tokens of a block of its prefix cache; a shorter prefix is never cached."""

    def load(self, adapter: ServedAdapter) -> None:
        """Take an adapter in."""
        ...

    def unload(self, adapter: ServedAdapter) -> None:
        """Forget an adapter."""
        ...

    def reset_cache(self) -> None:
        """Forget all keys and values of prompts."""
        ...

    def generate(self, rows: Sequence[ServedRow], *, temperature: float, eos_ids: frozenset[int]) -> list[Completion]:
        """Return one completion for each row."""
        ...

    def next_logprobs(self, prompts: Sequence[Sequence[int]], adapter: ServedAdapter | None, *, top: int) -> Reading:
        """Return the log-probabilities of the `top` likeliest next tokens after each prompt, with the prefix cache in use."""
        ...

    def rest(self) -> None:
        """Give memory back until the next call, where that can be done."""
        ...

    def close(self) -> None:
        """End, and leave nothing behind."""
        ...


class ServedEngine:
    """Samples by a server for each base, which gets every adapter before it is sampled with."""

    def __init__(self, connect: Callable[[SharedBase], Backend], *, max_adapters: int = 4, canary: bool = True) -> None:
        """Make an engine; servers are connected to when they are first needed.

        Args:
            connect: returns the server of a base.
            max_adapters: most adapters that a server holds; the one that was not asked for the longest goes first.
            canary: whether a push is checked. Without it an adapter that does not arrive goes unnoticed.
        """
        if max_adapters < 1:
            raise ValueError(f"max_adapters must be at least 1, not {max_adapters}")
        self.progress: Callable[[int, int], None] | None = None
        """Told, after every call, how many rows have ended and how many there are."""
        self.max_adapters, self.canary = max_adapters, canary
        self._connect = connect
        self._servings: dict[SharedBase, _Serving] = {}

    def sample(
        self, policy: LLMPolicy, prompts: Sequence[Sequence[int]], params: SamplingParams, *, seeds: Sequence[int]
    ) -> list[Completion]:
        """Return one completion for each prompt; see `agents.sampling.Engine`."""
        return self.sample_many([Request(policy, prompts, params, seeds)])[0]

    def sample_many(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """Return the completions of several requests; those of one base and temperature go to its server at once.

        Raises:
            AdapterNotServed: the server does not sample with the adapter that it was sent.
            ValueError: the requests are for more adapters of one base than its server holds.
            PromptTooLong: a prompt fills the model's context.
        """
        asked = {(request.policy.base, request.policy.name) for request in requests if request.policy.name != BASE}
        most = max(Counter(base for base, _ in asked).values(), default=0)
        if most > self.max_adapters:  # to make room, one would be unloaded that is about to be sampled with
            raise ValueError(
                f"{most} adapters are asked for at once, but the server holds {self.max_adapters}: raise max_adapters"
            )
        batches: dict[tuple[SharedBase, float], list[tuple[int, ServedRow]]] = {}
        for place, request in enumerate(requests):
            base = request.policy.base
            adapter = self._serving(base).current(request.policy)
            begun = request.begun or [0] * len(request.prompts)
            rows = [
                (place, ServedRow(tuple(prompt), luck_of(seed, before), room_for(base, prompt, request.params), adapter))
                for prompt, seed, before in zip(request.prompts, request.seeds, begun, strict=True)
            ]
            batches.setdefault((base, request.params.temperature), []).extend(rows)
        found: list[list[Completion]] = [[] for _ in requests]
        for (base, temperature), batch in batches.items():
            backend = self._serving(base).backend
            rows_of = [row for _, row in batch]
            for (place, _), completion in zip(
                batch, backend.generate(rows_of, temperature=temperature, eos_ids=base.eos_ids), strict=True
            ):
                found[place].append(completion)
        if self.progress is not None:
            rows_in_all = sum(map(len, found))
            self.progress(rows_in_all, rows_in_all)
        return found

    def rest(self) -> None:
        """Have the servers give memory back until they are asked again; what they hold stays valid."""
        for serving in self._servings.values():
            serving.backend.rest()

    def close(self) -> None:
        """Part with the servers. The next call would connect again."""
        while self._servings:
            self._servings.popitem()[1].backend.close()

    def _serving(self, base: SharedBase) -> _Serving:
        if base not in self._servings:
            self._servings[base] = _Serving(base, self._connect(base), max_adapters=self.max_adapters, canary=self.canary)
        return self._servings[base]


class _Serving:
    """What a server holds of one base."""

    def __init__(self, base: SharedBase, backend: Backend, *, max_adapters: int, canary: bool) -> None:
        self.base, self.backend = base, backend
        self._max_adapters, self._canary = max_adapters, canary
        self._folder = Path(tempfile.mkdtemp(prefix="agon-adapters-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._held: dict[str, ServedAdapter] = {}  # the one that was not asked for the longest first
        self._sent: dict[str, list[Tensor]] = {}  # name of a version → its weights
        self._own: dict[str, Tensor] = {}  # what the model here says of the probes, under the versions that are held
        self._pushed = 0
        length = min(backend.block + 8, base.context_length - 1)
        self._probes = make_probes(base, length=length)
        self._base_own = own_logprobs(base, None, self._probes)
        self._noise = base_noise(backend.next_logprobs(self._probes, None, top=TOP), self._base_own) if canary else 0.0

    def current(self, policy: LLMPolicy) -> ServedAdapter | None:
        """Return the policy's adapter as it is now, sent to the server if it is new to it."""
        if policy.name == BASE:
            return None
        held = self._held.pop(policy.name, None)
        if held is None or not self._is_current(policy.name, held):
            held = self._push(policy.name, before=held)
        self._held[policy.name] = held
        return held

    def _is_current(self, name: str, held: ServedAdapter) -> bool:
        """Return whether an adapter is what was sent. Nothing counts its changes: those of a fused optimiser go unnoticed."""
        now, sent = list(self.base.adapters.state(name).values()), self._sent[held.name]
        return len(now) == len(sent) and all(map(torch.equal, now, sent))

    def _push(self, name: str, *, before: ServedAdapter | None) -> ServedAdapter:
        self._pushed += 1
        versioned = f"{name}@{self._pushed}"
        served = ServedAdapter(versioned, self._pushed, self._folder / versioned)
        self.base.save(name, served.folder)
        self._sent[served.name] = [tensor.detach().clone() for tensor in self.base.adapters.state(name).values()]
        leaving = [before] if before is not None else []
        while len(self._held) >= self._max_adapters:
            leaving.append(self._held.pop(next(iter(self._held))))
        for old in leaving:
            self.backend.unload(old)
        self.backend.load(served)
        self.backend.reset_cache()
        if self._canary:
            self._ask(name, served)
        for old in leaving:
            del self._sent[old.name]
            self._own.pop(old.name, None)
            shutil.rmtree(old.folder, ignore_errors=True)
        return served

    def _ask(self, name: str, served: ServedAdapter) -> None:
        own = own_logprobs(self.base, name, self._probes)
        others = {f"the adapter {version!r}": own_PV for version, own_PV in self._own.items()}
        reading = self.backend.next_logprobs(self._probes, served, top=TOP)
        check_reading(served.name, reading, own, others={"the bare base": self._base_own, **others}, noise=self._noise)
        self._own[served.name] = own


def luck_of(seed: int, begun: int) -> int:
    """Return the seed that a server gets: a row that goes on would else draw once more with the numbers that it began with."""
    return int(np.random.SeedSequence([seed, begun]).generate_state(1, np.uint64)[0] >> 1) if begun else seed % 2**63


def room_for(base: SharedBase, prompt: Sequence[int], params: SamplingParams) -> int:
    """Return how many tokens may be sampled after a prompt.

    Raises:
        PromptTooLong: none.
    """
    if len(prompt) >= base.context_length:
        raise PromptTooLong(f"a prompt of {len(prompt)} tokens fills the context of {base.context_length}; shorten it")
    return min(params.max_tokens, base.context_length - len(prompt))
