"""The default engine: batched sampling with a Hugging Face model in this process.

Dimension suffixes: U unique prompts, R rows still being sampled, B rows of the batch, L length of the padded
prompts, T most tokens of a completion, V vocabulary.

Prompts are padded on the left, equal prompts are computed once and their cache is copied to their rows,
rows that have ended leave the batch. A row's tokens come from its own stream of uniform numbers by
inverting the cumulative distribution, so that they depend on the row's prompt and seed and on the weights,
up to rounding, and not on its neighbours.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from agents.engines.kv_cache import growing_cache
from agents.errors import PromptTooLong
from agents.sampling import Completion, SamplingParams

if TYPE_CHECKING:
    from agents.policy import LLMPolicy

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the rows that have ended and the rows in all."""

LEAVE_SHARE = 8
"""Ended rows are dropped from the batch once they are one in this many."""


class TorchEngine:
    """Samples with the policy's own model, under the policy's adapter."""

    def __init__(self, *, max_rows: int | None = None, progress: Progress | None = None) -> None:
        """Make an engine.

        Args:
            max_rows: most rows that are in memory at once; None takes all that are asked for.
            progress: told how far a call is, where the call itself names nobody.
        """
        if max_rows is not None and max_rows < 1:
            raise ValueError(f"max_rows must be at least 1, not {max_rows}")
        self.max_rows = max_rows
        self.progress = progress

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
            for start in range(0, len(rows), size):
                chunk = order[start : start + size]
                found = _sample_batch(
                    base.model,
                    [rows[index] for index in chunk],
                    [seeds[index] for index in chunk],
                    params,
                    eos_ids=base.eos_ids,
                    context_length=base.context_length,
                    progress=_shifted(progress or self.progress, start, len(rows)),
                )
                for index, completion in zip(chunk, found, strict=True):
                    completions[index] = completion
        return [completion for completion in completions if completion is not None]


def draw(logits_RV: Tensor, uniform_R: Tensor, *, temperature: float) -> tuple[Tensor, Tensor]:
    """Return one token for each row and its log-probability.

    Args:
        logits_RV: of any float type; the softmax is taken in float32, its sums in float64.
        uniform_R: float64 numbers in [0, 1) that pick the token by the inverse of the distribution.
        temperature: the logits are divided by it; 0 takes the most likely token, with its log-probability at 1.
    """
    logp_RV = (logits_RV.float() / (temperature or 1.0)).log_softmax(-1)
    if temperature == 0:
        token_R = logp_RV.argmax(-1)
    else:
        cumulative_RV = logp_RV.exp().cumsum(-1, dtype=torch.float64)
        target_R = uniform_R * cumulative_RV[:, -1]
        token_R = torch.searchsorted(cumulative_RV, target_R[:, None], right=True)[:, 0].clamp_(max=logp_RV.shape[-1] - 1)
    return token_R, logp_RV.gather(-1, token_R[:, None])[:, 0]


def _sample_batch(
    model: PreTrainedModel,
    prompts: Sequence[tuple[int, ...]],
    seeds: Sequence[int],
    params: SamplingParams,
    *,
    eos_ids: frozenset[int],
    context_length: int,
    progress: Progress | None,
) -> list[Completion]:
    device = next(model.parameters()).device
    limits = [min(params.max_tokens, context_length - len(prompt)) for prompt in prompts]
    longest = max(limits)
    unique = {prompt: place for place, prompt in enumerate(dict.fromkeys(prompts))}
    eos_E = torch.tensor(sorted(eos_ids), device=device, dtype=torch.long)
    limit_R = torch.tensor(limits, device=device)
    uniform_RT = torch.from_numpy(np.stack([_stream(seed, longest) for seed in seeds])).to(device)

    decoder = _Decoder(model, list(unique), room=longest, device=device)
    logits_RV = decoder.prefill()[_to(device, [unique[prompt] for prompt in prompts])]
    decoder.select(_to(device, [unique[prompt] for prompt in prompts]))
    row_R = torch.arange(len(prompts), device=device)
    token_BT = torch.zeros(len(prompts), longest, device=device, dtype=torch.long)
    logp_BT = torch.zeros(len(prompts), longest, device=device)
    ended_R = torch.zeros(len(prompts), device=device, dtype=torch.bool)

    for step in range(longest):
        token_R, logp_R = draw(logits_RV, uniform_RT[:, step], temperature=params.temperature)
        token_BT[row_R, step] = token_R
        logp_BT[row_R, step] = logp_R
        ended_R |= torch.isin(token_R, eos_E) | (limit_R <= step + 1)
        ended = int(ended_R.sum())
        if progress is not None:
            progress(len(prompts) - len(row_R) + ended, len(prompts))
        if ended == len(row_R):
            break
        if ended * LEAVE_SHARE >= len(row_R):
            stay_S = (~ended_R).nonzero()[:, 0]
            decoder.select(stay_S)
            row_R, token_R, ended_R, limit_R, uniform_RT = (
                tensor[stay_S] for tensor in (row_R, token_R, ended_R, limit_R, uniform_RT)
            )
        logits_RV = decoder.step(token_R)

    return [
        _completion(tokens, logps, limit, eos_ids)
        for tokens, logps, limit in zip(token_BT.tolist(), logp_BT.tolist(), limits, strict=True)
    ]


class _Decoder:
    """A model with the cache of its rows: computes prompts once, then one token at a time."""

    def __init__(self, model: PreTrainedModel, prompts: Sequence[tuple[int, ...]], *, room: int, device: torch.device) -> None:
        self.model = model
        self.cache = growing_cache(model.config)
        # transformers renames the argument in 5.24.
        self._cache_name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
        length = max(map(len, prompts))
        lengths_U = _to(device, [len(prompt) for prompt in prompts])
        self.ids_UL = _to(device, [(prompt[0],) * (length - len(prompt)) + prompt for prompt in prompts])
        self.mask_RX = torch.arange(length + room, device=device)[None] >= (length - lengths_U)[:, None]
        self.position_R = lengths_U
        self.seen = length
        self._padded = len(set(map(len, prompts))) > 1
        # A 4-D mask that is added to the scores is taken as it is, which is the fastest way. Sliding layers cache
        # less than the whole and cut their own mask from a 2-D one.
        self.bias_RX: Tensor | None = None
        if self._padded and model.config._attn_implementation in ("sdpa", "eager") and not any(self.cache.is_sliding):
            self.bias_RX = torch.zeros(self.mask_RX.shape, dtype=model.dtype, device=device).masked_fill_(
                ~self.mask_RX, -torch.inf
            )

    def prefill(self) -> Tensor:
        """Return the logits after each prompt."""
        mask_UL = self.mask_RX[:, : self.seen]
        position_UL = (mask_UL.cumsum(-1) - 1).clamp_(min=0)
        return self._forward(self.ids_UL, mask_UL.long() if self._padded else None, position_UL)

    def step(self, token_R: Tensor) -> Tensor:
        """Return the logits after one more token of each row."""
        self.seen += 1
        position_R, self.position_R = self.position_R, self.position_R + 1
        return self._forward(token_R[:, None], self._step_mask(), position_R[:, None])

    def select(self, row_S: Tensor) -> None:
        """Go on with these rows; a row may be named more than once."""
        self.cache.reorder_cache(row_S)  # type: ignore[arg-type]  # the one selection that every kind of cache layer has
        self.mask_RX, self.position_R = self.mask_RX[row_S], self.position_R[row_S]
        if self.bias_RX is not None:
            self.bias_RX = self.bias_RX[row_S]

    def _forward(self, ids_RN: Tensor, mask: Tensor | None, position_RN: Tensor) -> Tensor:
        out = self.model(
            input_ids=ids_RN,
            attention_mask=mask,
            position_ids=position_RN,
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_name: self.cache},
        )
        return out.logits[:, -1]

    def _step_mask(self) -> Tensor | None:
        """Return which cached tokens a new one sees, in the cheapest form that the model takes."""
        if not self._padded:
            return None
        return self.mask_RX[:, : self.seen].long() if self.bias_RX is None else self.bias_RX[:, None, None, : self.seen]


def _completion(tokens: list[int], logps: list[float], limit: int, eos_ids: frozenset[int]) -> Completion:
    """Cut a row at its end: at its first end-of-sequence token, else at its limit."""
    for place, token in enumerate(tokens[:limit]):
        if token in eos_ids:
            return Completion(tuple(tokens[: place + 1]), tuple(logps[: place + 1]), "stop")
    return Completion(tuple(tokens[:limit]), tuple(logps[:limit]), "length")


def _stream(seed: int, length: int) -> np.ndarray:
    return np.random.Generator(np.random.Philox(key=seed)).random(length)


def _to(device: torch.device, values: Sequence[object]) -> Tensor:
    return torch.tensor(values, device=device, dtype=torch.long)


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
