"""The default engine: batched sampling with a Hugging Face model in this process.

Dimension suffixes: R rows still being sampled, B rows of the batch, T most tokens of a completion, V vocabulary.

Equal prompts are computed once and their cache is copied to their rows; rows that have ended leave the batch. A
row's tokens come from its own stream of uniform numbers by inverting the cumulative distribution, so that they
depend on the row's prompt and seed and on the weights, up to rounding, and not on its neighbours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from agents.engines.cached import CachedDecoder
from agents.engines.drawing import draw, stream
from agents.engines.lean import LeanDecoder, LeanModel, fits
from agents.errors import PromptTooLong
from agents.sampling import Completion, SamplingParams

if TYPE_CHECKING:
    from agents.policy import LLMPolicy

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the rows that have ended and the rows in all."""

SCRATCH_BYTES = 4 * 2**30
"""Default for the most memory that a copy of the weights may take while a call runs."""


class Decoder(Protocol):
    """Rows of prompts that are continued token by token."""

    LEAVE_SHARE: int
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
        if len(seeds) != len(prompts):
            raise ValueError(f"there are {len(prompts)} prompts but {len(seeds)} seeds; give one seed for each row")
        for seed in seeds:
            if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**128:
                raise ValueError(f"the seed of a row must be an integer from 0 to 2**128 - 1, not {seed!r}")
        base, rows = policy.base, [tuple(prompt) for prompt in prompts]
        for row in rows:
            if not row:
                raise ValueError("a prompt is empty; it must hold at least one token")
            if len(row) >= base.context_length:
                raise PromptTooLong(f"a prompt of {len(row)} tokens fills the context of {base.context_length}; shorten it")
        # Neighbours in this order share their prompt or at least need little padding.
        order = sorted(range(len(rows)), key=lambda index: (len(rows[index]), rows[index]))
        size = self.max_rows or len(rows) or 1
        completions: list[Completion | None] = [None] * len(rows)
        with torch.no_grad(), base.use(policy.name), _evaluating(base.model):
            decoder_of = self._decoders(base.model, base.active)
            for start in range(0, len(rows), size):
                chunk = order[start : start + size]
                prompts_here = [rows[index] for index in chunk]
                limits = [min(params.max_tokens, base.context_length - len(prompt)) for prompt in prompts_here]
                counts = Counter(prompts_here)
                found = _sample_batch(
                    decoder_of(list(counts), list(counts.values()), room=max(limits)),
                    prompts_here,
                    [seeds[index] for index in chunk],
                    params,
                    eos_ids=base.eos_ids,
                    limits=limits,
                    progress=_shifted(progress or self.progress, start, len(rows)),
                )
                for index, completion in zip(chunk, found, strict=True):
                    completions[index] = completion
        return [completion for completion in completions if completion is not None]

    def _decoders(self, model: PreTrainedModel, adapter: str | None) -> Callable[..., Decoder]:
        """Return what makes decoders for the active adapter: lean ones where the model's blocks are of the common kind."""
        if self.lean and fits(model, adapter, scratch_bytes=self.scratch_bytes):
            return partial(LeanDecoder, LeanModel(model, [adapter], scratch_bytes=self.scratch_bytes))
        return partial(CachedDecoder, model)


def _sample_batch(
    decoder: Decoder,
    prompts: Sequence[tuple[int, ...]],
    seeds: Sequence[int],
    params: SamplingParams,
    *,
    eos_ids: frozenset[int],
    limits: Sequence[int],
    progress: Progress | None,
) -> list[Completion]:
    device, rows, longest = decoder.device, len(prompts), max(limits)
    eos_E = torch.tensor(sorted(eos_ids), device=device, dtype=torch.long)
    limit_B = torch.tensor(limits, device=device)
    uniform_TB = torch.from_numpy(np.stack([stream(seed, longest) for seed in seeds], 1)).to(device)
    place = {prompt: index for index, prompt in enumerate(dict.fromkeys(prompts))}

    logits_RV = decoder.prefill()[torch.tensor([place[prompt] for prompt in prompts], device=device)]
    row_R = torch.arange(rows, device=device)
    ended_R = torch.zeros(rows, device=device, dtype=torch.bool)
    drawn: list[tuple[Tensor, Tensor, Tensor, int]] = []
    for step in range(longest):
        token_R, logp_R = draw(logits_RV, uniform_TB[step, row_R], temperature=params.temperature)
        drawn.append((row_R, token_R, logp_R, step))
        ended_R = ended_R | torch.isin(token_R, eos_E) | (limit_B[row_R] <= step + 1)
        ended = int(ended_R.sum())
        if progress is not None:
            progress(rows - len(row_R) + ended, rows)
        if ended == len(row_R):
            break
        if ended * decoder.LEAVE_SHARE >= len(row_R):
            order_S = decoder.drop(ended_R)
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
