"""The rates of this machine for a base, measured in a few seconds: what the cost model needs to predict whole steps."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

import numpy as np
import torch
from transformers import PreTrainedConfig

import agon_env
from agents.agent import Agent
from agents.engines.torch import TorchEngine
from agents.policy import LLMPolicy
from agents.sampling import SamplingParams
from agents.shared_base import SharedBase
from agon_env.types import Action, Observation
from algos.learner import LocalLearner
from algos.learning.memory import GIB, PeakMemory
from algos.planning.cost_model import update_flops
from algos.planning.hardware import Hardware, Shape
from algos.rollouts import Start, rollout
from algos.types import Batch, Row

REPEATS = 3
"""Each measurement is the median of so many."""
PROMPT, NEW, LEARNT = 64, 24, 48
"""Tokens of the prompts, of the completions that are sampled, and of those that are learned from."""


def shape_of(config: PreTrainedConfig) -> Shape:
    """Return the shape of a model from its configuration."""
    config = config.get_text_config()
    return Shape(
        layers=config.num_hidden_layers,
        width=config.hidden_size,
        mlp=config.intermediate_size,
        heads=config.num_attention_heads,
        kv_heads=getattr(config, "num_key_value_heads", None) or config.num_attention_heads,
        head_width=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
        vocabulary=config.vocab_size,
        tied=bool(config.tie_word_embeddings),
    )


def calibrate(base: SharedBase, *, rank: int, rows: tuple[int, int] = (4, 32)) -> Hardware:
    """Measure a base on the device that it is on.

    Decoding is measured with few and with many rows, which tells the overhead of a step from the work of a row; training
    on one micro-batch. On a CPU seconds are those of the processor, so that other programs count little.

    Args:
        base: gets an adapter for the while.
        rank: of the adapter.
        rows: few, and many.
    """
    shape, device = shape_of(base.model.config), base.model.device
    memory = PeakMemory(device)
    policy = base.policy("calibration", rank=rank, seed=0)
    try:
        few, many = (_decoding_seconds(policy, count) for count in rows)
        of_row = max(1e-9, (many - few) / (rows[1] - rows[0]))
        of_steps = max(0.0, few - rows[0] * of_row)
        flops = 2.0 * (shape.block_weights + shape.head_weights) + shape.attention_flops(PROMPT + NEW / 2)
        trained, seconds = _training(policy)
    finally:
        base.adapters.remove("calibration")
    bytes_each = base.model.dtype.itemsize
    total = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else _system_memory()
    return Hardware(
        name=f"this machine ({device})",
        train_flops=trained / seconds,
        decode_flops=NEW * flops / of_row,
        bandwidth=1e15,  # what reading the weights takes is part of the overhead that was measured
        memory=total,
        overhead=of_steps / NEW / shape.layers,
        bytes_each=bytes_each,
        held=max(0.0, memory.now() * GIB - shape.weights * bytes_each),
        turn=_turn_seconds(policy),
    )


def clock(device: torch.device) -> Callable[[], float]:
    """Return the clock that measurements go by: the processor's time on a CPU, else that of the wall."""
    return time.process_time if device.type == "cpu" else time.perf_counter


def _decoding_seconds(policy: LLMPolicy, rows: int) -> float:
    """Return the seconds of `NEW` decoding steps of some rows, prompts left out."""
    prompt = _ids(policy.base, PROMPT, seed=0)

    def sample(tokens: int) -> None:
        # A row that ends early is measured as one that does not: nothing else is comparable.
        engine = TorchEngine()
        params = SamplingParams(max_tokens=tokens)
        ends, policy.base.eos_ids = policy.base.eos_ids, frozenset()
        try:
            engine.sample(policy, [prompt] * rows, params, seeds=range(rows))
        finally:
            policy.base.eos_ids = ends

    sample(2)
    long, short = (_seconds(partial(sample, tokens), policy.base.model.device) for tokens in (NEW + 1, 1))
    return max(1e-6, long - short)


def _training(policy: LLMPolicy) -> tuple[float, float]:
    """Return the FLOPs of one update, as the cost model counts them, and its seconds."""
    base = policy.base
    learner = LocalLearner(base)
    groups, group = 4, 8  # about as many tokens as a micro-batch on a CPU has
    rows = tuple(
        Row(_ids(base, PROMPT, seed=place // group), _ids(base, LEARNT, seed=10 + place), (-3.0,) * LEARNT, (-1.0) ** place)
        for place in range(groups * group)
    )

    def update() -> None:
        learner.forward_backward(policy, Batch(rows))
        learner.optim_step(policy)

    update()
    flops = update_flops(
        shape_of(base.model.config),
        tokens=groups * PROMPT + len(rows) * LEARNT,
        completions=len(rows) * LEARNT,
        context=PROMPT,
        rank=base.adapters.rank(policy.name),
        recompute=False,
    )
    return flops, _seconds(update, base.model.device)


def _turn_seconds(policy: LLMPolicy) -> float:
    """Return the seconds of a turn beside the model: the template, the environment, the verifier."""
    contest = agon_env.make("ArithmeticDuel-v0")
    players = {name: Said(policy) for name in contest.players}
    roles = dict(zip(contest.players, contest.roles, strict=True))
    starts = [Start(seed=seed, options={"roles": roles}) for seed in range(16)]

    def play() -> None:
        rollout(contest.fork, players, starts, params=SamplingParams(max_tokens=8), seed=0)

    play()
    return _seconds(play, torch.device("cpu")) / (2 * len(starts))


class Said(Agent):
    """Encodes what it sees, as a policy does, and says always the same."""

    def __init__(self, policy: LLMPolicy) -> None:
        """Encode as `policy`."""
        self.policy = policy

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        """Encode a batch of observations, and answer it."""
        for observation in observations:
            self.policy.chat.encode(observation.messages)
        return [Action(r"It is \boxed{7}.")] * len(observations)


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    """Return the median of some measurements of `work`."""
    now, found = clock(device), []
    for _ in range(REPEATS):
        before = now()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        found.append(now() - before)
    return median(found)


def _ids(base: SharedBase, length: int, *, seed: int) -> tuple[int, ...]:
    vocabulary = base.model.config.get_text_config().vocab_size
    return tuple(np.random.default_rng(seed).integers(vocabulary, size=length).tolist())


def _system_memory() -> float:
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
