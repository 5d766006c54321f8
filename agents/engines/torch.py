"""The default engine: batched sampling with a Hugging Face model in this process.

Dimension suffixes: R rows still being sampled, B rows of the batch, T most tokens of a completion, V vocabulary.

Equal prompts are computed once and their cache is copied to their rows; rows that have ended leave the batch. A
row's tokens come from its own stream of uniform numbers by inverting the cumulative distribution, so that they
depend on the row's prompt and seed and on the weights, up to rounding, and not on its neighbours.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from agents.adapters import BASE
from agents.engines.cached import CachedDecoder
from agents.engines.common_block import LeanModel, shares
from agents.engines.drawing import draw, stream
from agents.engines.lean import LeanDecoder, fits
from agents.errors import PromptTooLong
from agents.sampling import Completion, Request, SamplingParams, Watch

if TYPE_CHECKING:
    from agents.policy import LLMPolicy
    from agents.shared_base import SharedBase

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the rows that have ended and the rows in all."""

SCRATCH_BYTES = 4 * 2**30
"""Default for the most memory that a copy of the weights may take while a call runs."""


class Decoder(Protocol):
    """Rows of prompts that are continued token by token."""

    LEAVE_SHARE: int
    """Ended rows leave once they are one in this many."""
    ROW_STEP: int
    """Of how many rows a batch is a multiple when some have left: each new number may cost a kernel of its own."""
    device: torch.device

    def prefill(self) -> Tensor:
        """Compute the prompts and return the logits after them, one row for each prompt."""
        ...

    def step(self, token_R: Tensor) -> Tensor:
        """Add one token to each row and return the logits after it."""
        ...

    def drop(self, ended_R: Tensor) -> Tensor:
        """Take rows out of the batch; return the places that the others had, in their new order."""
        ...


class TorchEngine:
    """Samples with the policy's own model, under the policy's adapter."""

    watchable = True
    """Whether `sample_many` takes a `watch`."""

    def __init__(
        self,
        *,
        max_rows: int | None = None,
        progress: Progress | None = None,
        lean: bool = True,
        scratch_bytes: int = SCRATCH_BYTES,
    ) -> None:
        """Make an engine.

        Args:
            max_rows: most rows that are in memory at once; None takes all that are asked for.
            progress: told how far a call is, where the call itself names nobody.
            lean: whether models of the common kind (Llama, Qwen2, Qwen3) are decoded by `LeanDecoder`; other models,
                and all with False, go through their own forward pass.
            scratch_bytes: most memory for a copy of the weights, with the adapter merged into it, while a call runs.
                It is taken on a CPU in float32 alone; the weights of a larger model are used where they are.
        """
        if max_rows is not None and max_rows < 1:
            raise ValueError(f"max_rows must be at least 1, not {max_rows}")
        self.max_rows = max_rows
        self.progress = progress
        self.lean = lean
        self.scratch_bytes = scratch_bytes

    def sample(
        self,
        policy: LLMPolicy,
        prompts: Sequence[Sequence[int]],
        params: SamplingParams,
        *,
        seeds: Sequence[int],
        progress: Progress | None = None,
    ) -> list[Completion]:
        """Return one completion for each prompt; see `agents.sampling.Engine`.

        Args:
            policy: whose model, adapter and end-of-sequence tokens are used.
            prompts: token ids.
            params: how to sample.
            seeds: one for each row, in [0, 2**128).
            progress: called after every token with the rows that have ended and the rows in all. Default: the engine's.

        Raises:
            PromptTooLong: a prompt fills the model's context.
        """
        (completions,) = self.sample_many([Request(policy, prompts, params, seeds)], progress=progress)
        return completions

    def sample_many(
        self, requests: Sequence[Request], *, progress: Progress | None = None, watch: Watch | None = None
    ) -> list[list[Completion]]:
        """Return the completions of several requests; see `agents.sampling.sample_many`.

        Requests of one base and temperature share their batches, whatever their adapters are, where that pays.

        Args:
            requests: whose rows to sample.
            progress: as in `sample`, over the rows of all requests.
            watch: sees the tokens as they are drawn, and can end rows early.

        Raises:
            PromptTooLong: a prompt fills the model's context.
        """
        rows = [row for place, request in enumerate(requests) for row in _rows(place, request)]
        completions: dict[tuple[int, int], Completion] = {}
        for base, batch in self._batches(requests, rows):
            adapters = list(dict.fromkeys(row.adapter for row in batch))
            temperature = requests[batch[0].request].params.temperature
            # Neighbours in this order share their prompt or at least need little padding.
            batch.sort(key=lambda row: (len(row.prompt), row.prompt, row.adapter))
            with torch.no_grad(), base.use(adapters[0]), _evaluating(base.model):
                make = self._decoders(base, adapters)
                for start in range(0, len(batch), self.max_rows or len(batch)):
                    chunk = batch[start : start + (self.max_rows or len(batch))]
                    shown = _shifted(progress or self.progress, len(completions), len(rows))
                    found = _sample_batch(make(chunk), chunk, temperature, eos_ids=base.eos_ids, progress=shown, watch=watch)
                    completions |= {(row.request, row.place): one for row, one in zip(chunk, found, strict=True)}
        return [[completions[place, index] for index in range(len(request.prompts))] for place, request in enumerate(requests)]

    def _batches(self, requests: Sequence[Request], rows: Sequence[_Row]) -> list[tuple[SharedBase, list[_Row]]]:
        """Put rows together that are computed together."""
        adapters = {(request.policy.base, request.policy.name) for request in requests}
        together = {base: self._shares(base, [name for other, name in adapters if other is base]) for base, _ in adapters}
        batches: defaultdict[tuple[object, ...], list[_Row]] = defaultdict(list)
        for row in rows:
            base, temperature = requests[row.request].policy.base, requests[row.request].params.temperature
            batches[base, temperature, None if together[base] else row.adapter].append(row)
        return [(requests[batch[0].request].policy.base, batch) for batch in batches.values()]

    def _shares(self, base: SharedBase, adapters: Sequence[str]) -> bool:
        """Return whether rows of several adapters can be computed together, and gain by it."""
        if not self.lean or len(adapters) < 2:
            return False
        rank = sum(base.adapters.rank(name) for name in adapters if name != BASE)
        if not shares(base.model, rank=rank, scratch_bytes=self.scratch_bytes):
            return False
        # Any other decoder computes a whole batch under one adapter.
        with torch.no_grad(), base.use(None), _evaluating(base.model):
            return fits(base.model, None, scratch_bytes=self.scratch_bytes)

    def _decoders(self, base: SharedBase, adapters: Sequence[str]) -> Callable[[Sequence[_Row]], Decoder]:
        """Return what makes decoders for rows of these adapters: lean ones where the model's blocks are of the common kind."""
        names = [None if name == BASE else name for name in adapters]
        lean: LeanModel | None = None
        if self.lean and fits(base.model, names[0], scratch_bytes=self.scratch_bytes):
            lean = LeanModel(base.model, names, scratch_bytes=self.scratch_bytes)

        def make(rows: Sequence[_Row]) -> Decoder:
            counts, room = Counter((row.prompt, row.adapter) for row in rows), max(row.limit for row in rows)
            prompts = [prompt for prompt, _ in counts]
            if lean is None:
                return CachedDecoder(base.model, prompts, list(counts.values()), room=room)
            places = [adapters.index(adapter) for _, adapter in counts]
            return LeanDecoder(lean, prompts, list(counts.values()), room=room, adapters=places)

        return make


@dataclass(frozen=True)
class _Row:
    """A completion to be sampled."""

    request: int
    place: int
    adapter: str
    prompt: tuple[int, ...]
    seed: int
    begun: int
    limit: int


def _rows(place: int, request: Request) -> list[_Row]:
    """Check a request and take it apart."""
    prompts, seeds, policy = request.prompts, request.seeds, request.policy
    context, begun = policy.base.context_length, request.begun or [0] * len(prompts)
    if len(seeds) != len(prompts):
        raise ValueError(f"there are {len(prompts)} prompts but {len(seeds)} seeds; give one seed for each row")
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**128:
            raise ValueError(f"the seed of a row must be an integer from 0 to 2**128 - 1, not {seed!r}")
    for prompt in prompts:
        if not len(prompt):
            raise ValueError("a prompt is empty; it must hold at least one token")
        if len(prompt) >= context:
            raise PromptTooLong(f"a prompt of {len(prompt)} tokens fills the context of {context}; shorten it")
    return [
        _Row(place, index, policy.name, tuple(prompt), int(seed), before, min(request.params.max_tokens, context - len(prompt)))
        for index, (prompt, seed, before) in enumerate(zip(prompts, seeds, begun, strict=True))
    ]


def _sample_batch(
    decoder: Decoder,
    batch: Sequence[_Row],
    temperature: float,
    *,
    eos_ids: frozenset[int],
    progress: Progress | None,
    watch: Watch | None,
) -> list[Completion]:
    device, rows, limits = decoder.device, len(batch), [row.limit for row in batch]
    longest = max(limits)
    eos_E = torch.tensor(sorted(eos_ids), device=device, dtype=torch.long)
    limit_B = torch.tensor(limits, device=device)
    uniform_TB = torch.from_numpy(np.stack([stream(row.seed, row.begun + longest)[row.begun :] for row in batch], 1)).to(device)
    keys = [(row.prompt, row.adapter) for row in batch]
    place = {key: index for index, key in enumerate(dict.fromkeys(keys))}

    logits_RV = decoder.prefill()[torch.tensor([place[key] for key in keys], device=device)]
    row_R = torch.arange(rows, device=device)
    ended_R = torch.zeros(rows, device=device, dtype=torch.bool)
    drawn: list[tuple[Tensor, Tensor, Tensor, int]] = []
    for step in range(longest):
        token_R, logp_R = draw(logits_RV, uniform_TB[step, row_R], temperature=temperature)
        drawn.append((row_R, token_R, logp_R, step))
        if watch is not None:
            for index in _stopped(watch, batch, row_R[~ended_R].tolist(), token_R[~ended_R].tolist()):
                limits[index] = limit_B[index] = step + 1
        ended_R = ended_R | torch.isin(token_R, eos_E) | (limit_B[row_R] <= step + 1)
        ended = int(ended_R.sum())
        if progress is not None:
            progress(rows - len(row_R) + ended, rows)
        if ended == len(row_R):
            break
        staying = min(ended, (ended - len(row_R)) % decoder.ROW_STEP)
        if (ended - staying) * decoder.LEAVE_SHARE >= len(row_R):
            order_S = decoder.drop(ended_R & (ended_R.cumsum(0) > staying))
            row_R, token_R, ended_R = row_R[order_S], token_R[order_S], ended_R[order_S]
        logits_RV = decoder.step(token_R)

    token_BT = torch.zeros(rows, longest, device=device, dtype=torch.long)
    logp_BT = torch.zeros(rows, longest, device=device)
    for row_R, token_R, logp_R, step in drawn:
        token_BT[row_R, step], logp_BT[row_R, step] = token_R, logp_R
    return [
        _completion(tokens, logps, limit, eos_ids)
        for tokens, logps, limit in zip(token_BT.tolist(), logp_BT.tolist(), limits, strict=True)
    ]


def _stopped(watch: Watch, batch: Sequence[_Row], indices: Sequence[int], tokens: Sequence[int]) -> list[int]:
    """Tell the tokens of rows that have not ended; return which of the rows are to end here."""
    places = {(batch[index].request, batch[index].place): index for index in indices}
    return [places[row] for row in watch(list(places), tokens) if row in places]


def _completion(tokens: list[int], logps: list[float], limit: int, eos_ids: frozenset[int]) -> Completion:
    """Cut a row at its end: at its first end-of-sequence token, else at its limit."""
    for place, token in enumerate(tokens[:limit]):
        if token in eos_ids:
            return Completion(tuple(tokens[: place + 1]), tuple(logps[: place + 1]), "stop")
    return Completion(tuple(tokens[:limit]), tuple(logps[:limit]), "length")


def _shifted(progress: Progress | None, before: int, total: int) -> Progress | None:
    return None if progress is None else lambda ended, _: progress(before + ended, total)


@contextmanager
def _evaluating(model: PreTrainedModel) -> Iterator[None]:
    """Run the block in evaluation mode: without dropout, and with a cache despite gradient checkpointing."""
    training = model.training
    if training:
        model.eval()
    try:
        yield
    finally:
        if training:
            model.train()
