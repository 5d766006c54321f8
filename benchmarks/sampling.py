"""Tokens per second of `TorchEngine` against `generate` as TRL calls it, and against the bare linear layers.

    python benchmarks/sampling.py [--models smollm2-135m embedded] [--repeats 5] [--own-forward]
                                   [--out sampling.json]

8 prompts × 8 rows of up to 128 new tokens, under a LoRA adapter of rank 8 on all linear layers. Every row ends where
a seeded schedule says (uniform over 1 … 128, so near half on average), on both sides; tokens after a row's end do not
count. One run interleaves the sides and takes the median of each:

`agon`          `TorchEngine`
`own_forward`   with --own-forward: `TorchEngine(lean=False)`, the path of the other families
`generate`      Hugging Face `generate`, with TRL's arguments
`linear`        the limit: the linear layers of the model alone, at the batch sizes that live at each step
`packed`        the same products on weights packed for oneDNN
`bound`         `linear`, and by torch's operators the products of attention with the tokens of each row and with its
                prompt, the softmax between them, and the draw

Needs `pip install 'agon-env[smollm2]'` for SmolLM2. With OMP_NUM_THREADS=1 the clock is the processor time of this
process, which other programs on the machine lengthen little; with more threads it is the time on the wall.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import torch
from measure import machine, publish, spread
from torch import Tensor, nn
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

import agents.engines.torch as engine_module
import agon_env
from agents import LLMPolicy, SamplingParams, SharedBase, TorchEngine
from agents.engines.drawing import draw
from agents.engines.lean import LeanDecoder
from agents.engines.projections import Packed, linear_of

PROMPTS, GROUP, NEW_TOKENS = 8, 8, 128

Run = Callable[[], object]


class Schedule:
    """Which rows are sampled, and where each of them ends."""

    def __init__(self, policy: LLMPolicy) -> None:
        """Take the first prompts of the embedded duel."""
        prompts = []
        for seed in range(PROMPTS):
            env = agon_env.make("DeepMathDuel-v0")
            prompts.append(policy.encode(env.reset(seed=seed)[0]))
        self.prompts = [prompt for prompt in prompts for _ in range(GROUP)]
        self.lengths = np.random.default_rng(0).integers(1, NEW_TOKENS + 1, size=len(self.prompts)).tolist()
        self.live = [sum(length > step for length in self.lengths) for step in range(1, max(self.lengths))]
        """Rows of the forward pass after each token; the first token comes of the prompts."""


def agon(policy: LLMPolicy, engine: TorchEngine, schedule: Schedule) -> list[int]:
    sample_batch = engine_module._sample_batch

    def scheduled(decoder: Any, batch: Sequence[Any], temperature: float, **options: Any) -> Any:
        ends = [replace(row, limit=schedule.lengths[row.seed]) for row in batch]
        return sample_batch(decoder, ends, temperature, **options | {"eos_ids": frozenset()})

    params = SamplingParams(max_tokens=NEW_TOKENS)
    with mock.patch.object(engine_module, "_sample_batch", scheduled):
        found = engine.sample(policy, schedule.prompts, params, seeds=range(len(schedule.prompts)))
    return [len(completion.token_ids) for completion in found]


class EndsAt(LogitsProcessor):
    """Ends each row where the schedule says, and nowhere before."""

    def __init__(self, lengths: Sequence[int], start: int, end_token: int) -> None:
        self.last_R, self.start, self.end_token = torch.tensor(lengths) - 1, start, end_token

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Leave a row that ends nothing but its end."""
        ends_R = self.last_R <= input_ids.shape[1] - self.start
        scores[:, self.end_token] = -torch.inf
        scores[ends_R] = -torch.inf
        scores[ends_R, self.end_token] = 0.0
        return scores


def generate(policy: LLMPolicy, schedule: Schedule) -> list[int]:
    base, end_token = policy.base, min(policy.base.eos_ids)
    width = max(map(len, schedule.prompts))
    pads = [width - len(prompt) for prompt in schedule.prompts]
    ids_RL = torch.tensor([[end_token] * pad + list(prompt) for pad, prompt in zip(pads, schedule.prompts, strict=True)])
    mask_RL = torch.tensor([[0] * pad + [1] * (width - pad) for pad in pads])
    config = GenerationConfig(
        max_new_tokens=NEW_TOKENS, do_sample=True, temperature=1.0, top_p=1.0, top_k=0,
        pad_token_id=end_token, eos_token_id=end_token, disable_compile=True,
    )  # fmt: skip
    ends = LogitsProcessorList([EndsAt(schedule.lengths, width, end_token)])
    torch.manual_seed(0)
    with torch.no_grad(), base.use(policy.name):
        out_RX = base.adapters.peft.generate(
            input_ids=ids_RL, attention_mask=mask_RL, generation_config=config, logits_processor=ends
        )
    return ((out_RX[:, width:] == end_token).int().argmax(-1) + 1).tolist()


def products(policy: LLMPolicy, schedule: Schedule, *, packed: bool) -> Run:
    """Return what runs every linear layer once for each step, without anything between them."""
    model = policy.base.model
    modules = [*model.get_decoder().layers.modules(), model.get_output_embeddings()]
    layers = {id(linear): linear for module in modules if (linear := linear_of(module)) is not None}.values()
    work: list[tuple[int, Callable[[Tensor], Tensor]]] = [
        (layer.in_features, Packed(layer.weight, layer.bias) if packed else partial(nn.functional.linear, weight=layer.weight))
        for layer in layers
    ]
    inputs = {width: torch.randn(len(schedule.prompts), width) for width, _ in work}
    # oneDNN makes a kernel for each number of rows; the decoder's are rounded for that reason.
    step = LeanDecoder.ROW_STEP if packed else 1

    def run() -> None:
        for rows in [-(-live // step) * step for live in schedule.live]:
            for width, product in work:
                product(inputs[width][:rows])

    return run


def bound(policy: LLMPolicy, schedule: Schedule) -> Run:
    """Return what runs linear layers, attention and draw for each step, on numbers of the right shapes.

    Caches are one for each layer, as large as they are in truth, and every row has room for all of its tokens.
    """
    model = policy.base.model
    attention = model.get_decoder().layers[0].self_attn
    linear, layers, width = products(policy, schedule, packed=False), len(model.get_decoder().layers), attention.head_dim
    heads, kv_heads = (
        layer.out_features // width for name in ("q_proj", "k_proj") if (layer := linear_of(getattr(attention, name)))
    )
    rows, longest = len(schedule.prompts), max(map(len, schedule.prompts))
    own = torch.randn(layers, 2, rows * kv_heads, NEW_TOKENS, width)
    prompts = torch.randn(layers, 2, PROMPTS * kv_heads, longest, width)
    q_RGW = torch.randn(rows * kv_heads, heads // kv_heads, width)
    logits_RV, uniform_R = torch.randn(rows, model.config.vocab_size), torch.rand(rows, dtype=torch.float64)

    def attend(layer: int, step: int, live: int) -> None:
        q_NGW, (k, v) = q_RGW[: live * kv_heads], own[layer, :, : live * kv_heads, :step]
        prompt_k, prompt_v = prompts[layer]
        each = -(-live // PROMPTS) * (heads // kv_heads)  # queries of a prompt
        q_PMW = q_RGW.view(-1, width)[: len(prompt_k) * each].view(len(prompt_k), each, width)
        scores = torch.bmm(q_PMW, prompt_k.mT), torch.bmm(q_NGW, k.mT)
        for score, values in zip(scores, (prompt_v, v), strict=True):
            torch.bmm(score.softmax(-1), values)

    def run() -> None:
        linear()
        for step, live in enumerate(schedule.live, 1):
            for layer in range(layers):
                attend(layer, step, live)
            draw(logits_RV[:live], uniform_R[:live], temperature=1.0)

    return run


def measure(source: str, repeats: int, *, own_forward: bool) -> dict[str, Any]:
    base = SharedBase.load(source)
    policy = base.policy("alice", rank=8)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    schedule = Schedule(policy)
    sides: dict[str, Run] = {
        "agon": partial(agon, policy, TorchEngine(), schedule),
        "generate": partial(generate, policy, schedule),
        "linear": products(policy, schedule, packed=False),
        "packed": products(policy, schedule, packed=True),
        "bound": bound(policy, schedule),
    }
    if own_forward:
        sides["own_forward"] = partial(agon, policy, TorchEngine(lean=False), schedule)
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    with torch.no_grad():
        for side in sides.keys() - {"linear", "packed", "bound"}:
            assert sides[side]() == schedule.lengths, side  # and it starts warm
        for _ in range(repeats):
            for side, run in sides.items():
                start = clock()
                run()
                seconds[side].append(clock() - start)
    middle = {side: spread(values)["median"] for side, values in seconds.items()}
    tokens = sum(schedule.lengths)
    return {
        "tokens": tokens,
        "prompt_tokens": [len(prompt) for prompt in schedule.prompts[::GROUP]],
        "seconds": {side: spread(values) for side, values in seconds.items()},
        "tokens_per_second": {side: round(tokens / value, 1) for side, value in middle.items()},
        "times_generate": round(middle["generate"] / middle["agon"], 2),
        "share_of_linear_limit": round(middle["linear"] / middle["agon"], 2),
        "share_of_packed_limit": round(middle["packed"] / middle["agon"], 2),
        "share_of_bound": round(middle["bound"] / middle["agon"], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["smollm2-135m", "embedded"], help="what `SharedBase.load` takes")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each side, interleaved")
    parser.add_argument("--own-forward", action="store_true", help="measure the path of the other families as well")
    parser.add_argument("--out", help="where to write the JSON as well")
    arguments = parser.parse_args()
    report = {
        "machine": machine("torch", "transformers", "peft") | {"threads": torch.get_num_threads()},
        "shape": {"prompts": PROMPTS, "group": GROUP, "new_tokens": NEW_TOKENS, "lora_rank": 8},
        **{source: measure(source, arguments.repeats, own_forward=arguments.own_forward) for source in arguments.models},
    }
    publish(report, arguments.out)


if __name__ == "__main__":
    main()
