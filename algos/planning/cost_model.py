"""What a training step costs: tokens, FLOPs, memory, bytes that travel, seconds. Counted from shapes.

    tokens    drafts: P·G rows whose prompts are computed once per problem; answers: P·G·K rows, whose prompt is computed once
              per draft
    FLOPs     of a token: 2 per weight it meets, and 4·heads·width per token it attends to and layer. The backward pass of a
              frozen weight is one product, not two; an adapter's is two
    decoding  a step of all live rows takes as long as its FLOPs, or as reading the weights and the rows' caches, whichever is
              longer, and an overhead per layer
    learning  whole micro-batches are dealt to the ranks, and the others wait for who has most
    memory    the base once, adapters with gradients and two moments in float32, the caches of live rows, the activations of one
              micro-batch

Rates are sustained ones, not those of a data sheet: a `Hardware` says which share of its peak is reached.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from algos.errors import ConfigError
from algos.evaluation.divergence import probe_count
from algos.planning.hardware import Hardware, Shape

ADAPTER_BYTES = 16
"""Of each parameter of an adapter: weight, gradient and Adam's two moments in float32."""


@dataclass(frozen=True)
class Workload:
    """One training step of a duel."""

    problems: int = 32
    group_size: int = 8
    answers: int = 1
    prompt_tokens: float = 250
    """Of the problem with its instruction."""
    draft_tokens: float = 4000
    answer_tokens: float = 4000
    answer_extra: float = 0.0
    """Tokens of a prompt with a draft beside the problem and the draft."""
    longest: int | None = None
    """Tokens of the longest completion; None: twice the mean."""
    rank: int = 32
    policies: int = 2
    epochs: int = 1
    distinct: float = 1.0
    """Share of the drafts that differ from each other; the answers to equal ones have one prompt."""
    learning: float = 1.0
    """Share of the rows that are learned from: groups without spread are dropped."""
    token_budget: int = 16_384
    """Tokens of a micro-batch."""
    recompute: bool = True
    """Whether activations are computed again in the backward pass."""
    copies: int = 1
    """Copies of the base on a device while it samples: one with the torch engine, two with vLLM beside the learner."""

    def __post_init__(self) -> None:
        for name in (
            "problems",
            "group_size",
            "answers",
            "prompt_tokens",
            "draft_tokens",
            "answer_tokens",
            "rank",
            "policies",
            "epochs",
            "token_budget",
            "copies",
        ):
            if not 1 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 <= self.answer_extra < math.inf:
            raise ConfigError(f"answer_extra must be at least 0, not {self.answer_extra}")
        if self.longest is not None and self.longest < 1:
            raise ConfigError(f"longest must be at least 1, not {self.longest}")
        for name in ("learning", "distinct"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} is a share, from 0 to 1, not {getattr(self, name)}")

    @property
    def drafts(self) -> int:
        """Rows of the drafter."""
        return self.problems * self.group_size

    @property
    def replies(self) -> int:
        """Rows of the challenger."""
        return self.drafts * self.answers

    @property
    def sampled(self) -> float:
        """Tokens that are sampled."""
        return self.drafts * self.draft_tokens + self.replies * self.answer_tokens

    @property
    def prefilled(self) -> float:
        """Tokens of prompts that are computed: once for each problem, and once for each draft that differs."""
        return self.problems * self.prompt_tokens + self.distinct * self.drafts * self.answer_prompt

    @property
    def answer_prompt(self) -> float:
        """Tokens of a prompt that holds a draft."""
        return self.prompt_tokens + self.answer_extra + self.draft_tokens

    @property
    def trained(self) -> float:
        """Tokens that go through forward and backward in one epoch; rows with one prompt share it."""
        return self.learning * (self.sampled + self.prefilled)


@dataclass(frozen=True)
class Cost:
    """What one step costs, on `devices` of one kind."""

    sampled_tokens: float
    trained_tokens: float
    flops: float
    seconds_sampling: float
    seconds_training: float
    seconds_other: float
    base_bytes: float
    """On each device."""
    adapter_bytes: float
    """Both policies with their optimisers, on each device."""
    cache_bytes: float
    """Of the rows that are sampled at once, on each device."""
    activation_bytes: float
    """Of a micro-batch."""
    held_bytes: float
    pushed_bytes: float
    """Adapters that travel to each sampler in a step, in the base's numeric type."""
    reduced_bytes: float
    """That each rank sends in its all-reduces."""
    rows_at_once: int
    """On each replica; the memory allows no more."""
    devices_per_replica: int
    """More than one where a device can't hold the base."""
    copies: int
    """Of the base, while it samples."""
    notes: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """Of a step: sampling, then training."""
        return self.seconds_sampling + self.seconds_training + self.seconds_other

    @property
    def memory_sampling(self) -> float:
        """Bytes on each device while it samples."""
        return self.held_bytes + self.copies * self.base_bytes + self.adapter_bytes + self.cache_bytes

    @property
    def memory_training(self) -> float:
        """Bytes on each device while it learns; the sampler's caches are gone by then."""
        return self.held_bytes + self.base_bytes + self.adapter_bytes + self.activation_bytes


def estimate(shape: Shape, work: Workload, hardware: Hardware, *, devices: int = 1) -> Cost:
    """Return what a step costs.

    Args:
        shape: of the base.
        work: the step.
        hardware: what each device is.
        devices: how many; every one samples and learns on its share.

    Raises:
        ConfigError: the devices together can't hold the base.
    """
    if devices < 1:
        raise ConfigError(f"devices must be at least 1, not {devices}")
    base = shape.weights * hardware.bytes_each
    adapters = work.policies * shape.adapter_weights(work.rank) * ADAPTER_BYTES
    activations = _activation_bytes(shape, work, hardware)
    per_replica = _devices_per_replica(base, hardware, adapters + activations)
    if per_replica > devices:
        raise ConfigError(
            f"{devices} × {hardware.name} can't hold the base ({base / 1e9:.0f} GB), adapters and activations: it takes "
            f"{per_replica}"
        )
    replicas = devices // per_replica
    room = hardware.memory - hardware.held - work.copies * base / per_replica - adapters
    if room <= 0:
        raise ConfigError(f"{work.copies} copies of the base and the adapters leave no memory for caches: take copies=1")
    rows, cache = _rows_at_once(shape, work, hardware, replicas, room * per_replica)
    sampling = _sampling_seconds(shape, work, hardware, replicas, per_replica, rows)
    training_flops = work.epochs * _training_flops(shape, work) + _probe_flops(shape, work)
    flops = training_flops + forward_flops(shape, work.prefilled, work.answer_prompt / 2) + _decode_flops(shape, work)
    pushed = work.policies * shape.adapter_weights(work.rank)
    return Cost(
        sampled_tokens=work.sampled,
        trained_tokens=work.epochs * work.trained,
        flops=flops,
        seconds_sampling=sampling,
        seconds_training=training_flops / hardware.train_flops * _share_of_busiest(work, devices),
        seconds_other=hardware.turn * (work.drafts + work.replies) / replicas,
        base_bytes=base / per_replica,
        adapter_bytes=adapters,
        cache_bytes=cache / per_replica,
        activation_bytes=activations,
        held_bytes=hardware.held,
        pushed_bytes=pushed * hardware.bytes_each,
        reduced_bytes=work.epochs * 4.0 * pushed * 2 * (replicas - 1) / replicas,
        rows_at_once=rows,
        devices_per_replica=per_replica,
        copies=work.copies,
        notes=_notes(work, replicas, per_replica, rows),
    )


def forward_flops(shape: Shape, tokens: float, context: float, *, with_head: float = 0.0) -> float:
    """Return the FLOPs of a forward pass of `tokens` that attend to `context` others; `with_head` of them are scored."""
    return tokens * (2.0 * shape.block_weights + shape.attention_flops(context)) + with_head * 2.0 * shape.head_weights


def _decode_flops(shape: Shape, work: Workload) -> float:
    drafts = work.drafts * work.draft_tokens
    replies = work.replies * work.answer_tokens
    of_drafts = forward_flops(shape, drafts, work.prompt_tokens + work.draft_tokens / 2, with_head=drafts)
    return of_drafts + forward_flops(shape, replies, work.answer_prompt + work.answer_tokens / 2, with_head=replies)


def update_flops(shape: Shape, *, tokens: float, completions: float, context: float, rank: int, recompute: bool) -> float:
    """Return the FLOPs of forward and backward: the blocks, the adapters, the projection to the vocabulary.

    Args:
        shape: of the base.
        tokens: that go through the blocks, prompts included.
        completions: those of them that are scored.
        context: tokens that one attends to, on average.
        rank: of the adapter.
        recompute: whether the forward pass is done twice.
    """
    passes = 3.0 if recompute else 2.0
    blocks = passes * forward_flops(shape, tokens, context)
    return blocks + 6.0 * shape.adapter_weights(rank) * tokens + 4.0 * shape.head_weights * completions


def _training_flops(shape: Shape, work: Workload) -> float:
    context = (work.prompt_tokens + work.answer_prompt + work.draft_tokens / 2 + work.answer_tokens / 2) / 2
    return update_flops(
        shape,
        tokens=work.trained,
        completions=work.learning * work.sampled,
        context=context,
        rank=work.rank,
        recompute=work.recompute,
    )


def _share_of_busiest(work: Workload, ranks: int) -> float:
    """Return which part of the learning the rank does that has most to do: micro-batches are not divided."""
    pieces = max(1, math.ceil(work.trained / (work.policies * work.token_budget)))
    return math.ceil(pieces / ranks) / pieces


def _probe_flops(shape: Shape, work: Workload) -> float:
    """A few rows of each policy, scored under the base and the next policy (`algos.evaluation.divergence`)."""
    length = work.prompt_tokens + (work.draft_tokens + work.answer_tokens) / 2 + work.draft_tokens / 2
    rows = probe_count((work.drafts + work.replies) // work.policies)
    scored = rows * (2 * work.policies - 1)
    completions = scored * (work.draft_tokens + work.answer_tokens) / 2
    return forward_flops(shape, scored * length, length / 2, with_head=completions)


def _activation_bytes(shape: Shape, work: Workload, hardware: Hardware) -> float:
    """What the forward pass of a micro-batch keeps: the inputs of layers, and of one layer (or of all) what is inside."""
    tokens = min(work.token_budget, work.trained) if work.learning else 0.0
    inside = 8 * shape.width + 4 * shape.heads * shape.head_width + 5 * shape.mlp
    kept = shape.layers * shape.width + inside if work.recompute else shape.layers * inside
    chunk = 4 * 4 * min(2**27 if hardware.bytes_each == 2 else 2**24, tokens * shape.vocabulary)
    return tokens * kept * hardware.bytes_each + chunk


def _devices_per_replica(base: float, hardware: Hardware, beside: float) -> int:
    """Return the least power of two of devices over which the base fits, with a tenth of them left for caches."""
    room = 0.9 * hardware.memory - hardware.held - beside
    if room <= 0:
        raise ConfigError(f"adapters and activations alone do not fit into a {hardware.name}: lower rank or token_budget")
    return 2 ** max(0, math.ceil(math.log2(base / room)))


def _rows_at_once(shape: Shape, work: Workload, hardware: Hardware, replicas: int, room: float) -> tuple[int, float]:
    """Return how many rows a replica samples at once, and the bytes of their caches on average."""
    wanted = math.ceil(max(work.drafts, work.replies) / replicas)
    of_row = shape.cache_bytes(work.answer_prompt + work.answer_tokens / 2, hardware.bytes_each)
    rows = max(1, min(wanted, int(room / of_row)))
    return rows, rows * of_row


def _sampling_seconds(
    shape: Shape, work: Workload, hardware: Hardware, replicas: int, per_replica: int, rows_at_once: int
) -> float:
    prefill = forward_flops(shape, work.prefilled, work.answer_prompt / 2) / (hardware.train_flops * replicas * per_replica)
    seconds = prefill
    for rows, tokens, prompt in (
        (work.drafts, work.draft_tokens, work.prompt_tokens),
        (work.replies, work.answer_tokens, work.answer_prompt),
    ):
        of_replica = math.ceil(rows / replicas)
        live = min(rows_at_once, of_replica)
        # Rows end at lengths of their own: the last of a wave are alone for a while, the cache of a server refills at once.
        longest = work.longest or 2 * tokens
        steps = max(longest, of_replica * tokens / live)
        mean_live = of_replica * tokens / steps
        context = prompt + tokens / 2
        compute = mean_live * forward_flops(shape, 1, context, with_head=1) / (hardware.decode_flops * per_replica)
        read = shape.weights * hardware.bytes_each + shape.cache_bytes(mean_live * context, hardware.bytes_each)
        seconds += steps * (max(compute, read / (hardware.bandwidth * per_replica)) + shape.layers * hardware.overhead)
    return seconds


def _notes(work: Workload, replicas: int, per_replica: int, rows: int) -> tuple[str, ...]:
    notes = []
    if per_replica > 1:
        notes.append(
            f"the base is divided over {per_replica} devices: vLLM can (tensor_parallel_size), but every rank of the learner "
            "here holds a whole one, so its part needs larger devices"
        )
    if replicas > work.drafts:
        notes.append(f"{replicas} replicas have only {work.drafts} drafts to sample: some are idle")
    if rows < math.ceil(work.replies / replicas):
        notes.append(f"caches fill the memory at {rows} rows: the others of a replica wait (max_rows)")
    return tuple(notes)
