"""The torch engine and vLLM, both on this CPU: the same prompts, the same two adapters, the same number of tokens.

    python benchmarks/sampling_vs_vllm.py [--prompts 4] [--rows 4] [--new-tokens 48] [--repeats 3] [--out sampling_vs_vllm.json]

SmolLM2-135M in float32 with two LoRA adapters of rank 8 on all linear layers; half of the rows are of each. End-of-sequence
tokens do not end a row, so that both sides compute the same number of tokens. The sides are interleaved and each figure is a
median; seconds are those on the wall, for vLLM computes in threads of its own. vLLM runs in eager mode, as it does on this
CPU in the tests. Run it in the environment that `.ci/vllm` makes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from measure import machine, publish, spread

import agon_env
from agents.engines.served import ServedEngine
from agents.engines.torch import TorchEngine
from agents.engines.vllm import VLLM, installed_version
from agents.policy import LLMPolicy
from agents.sampling import Completion, Request, SamplingParams
from agents.shared_base import SharedBase


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("prompts", 4), ("rows", 4), ("new-tokens", 48), ("repeats", 3), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--out")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    base = SharedBase.load("smollm2-135m", device="cpu")
    policies = [base.policy(name, rank=8, seed=seed) for seed, name in enumerate(("alice", "bob"))]
    for seed, policy in enumerate(policies):
        stir(policy, seed=seed)
    ends, base.eos_ids = base.eos_ids, frozenset()
    contest = agon_env.make("DeepMathDuel-v0")
    prompts = [policies[0].encode(contest.reset(seed=seed)[0]) for seed in range(args.prompts)]
    rows = [prompt for prompt in prompts for _ in range(args.rows)]
    params = SamplingParams(max_tokens=args.new_tokens)
    requests = [Request(policy, rows, params, range(len(rows))) for policy in policies]
    served = ServedEngine(lambda base: VLLM(base, max_context=1024, max_adapters=2))
    sides: dict[str, Callable[[], list[list[Completion]]]] = {
        "torch": lambda: TorchEngine().sample_many(requests),
        "vllm": lambda: served.sample_many(requests),
    }
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for repeat in range(args.repeats + 1):
        for side, sample in sides.items():
            begun = time.perf_counter()
            found = sample()
            assert all(len(one.token_ids) == args.new_tokens for each in found for one in each)
            if repeat:
                seconds[side].append(time.perf_counter() - begun)
    base.eos_ids = ends
    tokens = 2 * len(rows) * args.new_tokens
    publish(report(args, seconds, tokens, prompts), args.out)


def report(args: argparse.Namespace, seconds: dict[str, list[float]], tokens: int, prompts: list[Any]) -> dict[str, Any]:
    medians = {side: spread(values)["median"] for side, values in seconds.items()}
    return {
        "machine": {**machine("torch", "transformers"), "vllm": installed_version(), "threads": args.threads},
        "rows": 2 * len(prompts) * args.rows,
        "prompt_tokens": spread([len(prompt) for prompt in prompts], digits=0),
        "tokens": tokens,
        "seconds": {side: spread(values) for side, values in seconds.items()},
        "tokens_per_second": {side: round(tokens / median) for side, median in medians.items()},
        "torch_times_as_fast_as_vllm": round(medians["vllm"] / medians["torch"], 2),
    }


def stir(policy: LLMPolicy, *, seed: int) -> None:
    """Move an adapter away from the identity."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator))


if __name__ == "__main__":
    main()
