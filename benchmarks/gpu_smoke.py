"""A few minutes on a GPU: does everything work there, how fast, in how much memory? Prints JSON.

    python benchmarks/gpu_smoke.py [--model embedded] [--problems 8] [--group 8] [--new-tokens 128] [--steps 3] [--out gpu.json]

Each part is tried for itself; one that fails is reported with its error, and the others go on:

`engine`     the torch engine: tokens per second with 2, 16 and 128 rows of both adapters; greedy tokens against `generate`
`learner`    forward and backward in bfloat16 and with recomputation: tokens per second, peak memory; each adapter moves alone
`step`       whole training steps of the duel: seconds by phase, peak memory
`vllm`       the same prompts through vLLM, if it is installed: tokens per second, the canary's mismatch, memory after sleep
`plan`       what the cost model says of the step, with the rates that it measures here

On a machine without a GPU it runs on the CPU, which shows that it runs.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch
from measure import machine, publish

from agents.engines.served import ServedEngine
from agents.engines.torch import TorchEngine
from agents.engines.vllm import VLLM, installed_version
from agents.loading import default_device
from agents.policy import LLMPolicy
from agents.sampling import Request, SamplingParams, sample_many
from agents.shared_base import SharedBase
from algos.config import TINY
from algos.learner import LocalLearner
from algos.learning.memory import PeakMemory
from algos.learning.optim import OptimConfig
from algos.planning.calibrate import calibrate, shape_of
from algos.planning.cost_model import Workload, estimate
from algos.training.run import Run
from algos.types import Batch, Row

GREEDY = SamplingParams(max_tokens=16, temperature=0)


def main() -> None:
    """Try every part and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="embedded")
    for name, default in (("problems", 8), ("group", 8), ("new-tokens", 128), ("steps", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--out")
    args = parser.parse_args()
    device = default_device()
    base = SharedBase.load(args.model)
    policies = [base.policy(name, rank=32, seed=seed) for seed, name in enumerate(("alice", "bob"))]
    for seed, policy in enumerate(policies):
        stir(policy, seed=seed)
    parts: dict[str, Callable[[], Any]] = {
        "engine": lambda: engine(policies, args.new_tokens),
        "learner": lambda: learner(policies, args.new_tokens),
        "step": lambda: step(args),
        "vllm": lambda: vllm(policies, args.new_tokens),
        "plan": lambda: plan(base, args),
    }
    report: dict[str, Any] = {"machine": machine("torch", "transformers", "peft"), "device": device_name(device)}
    for name, part in parts.items():
        begun = time.perf_counter()
        try:
            found: Any = part()
        except Exception as error:  # a smoke test tells of every part
            traceback.print_exc()
            found = {"failed": f"{type(error).__name__}: {error}"}
        report[name] = {**found, "took_seconds": round(time.perf_counter() - begun, 1)}
    publish(report, args.out)


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def stir(policy: LLMPolicy, *, seed: int) -> None:
    """Move an adapter away from the identity."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_((0.01 * torch.randn(parameter.shape, generator=generator)).to(parameter.device))


def prompt_of(policy: LLMPolicy) -> tuple[int, ...]:
    question = "A train goes 60 km in 45 minutes. How fast is it, in km/h? Show your work."
    return tuple(policy.chat.encode([{"role": "user", "content": question}]))


def engine(policies: list[LLMPolicy], new_tokens: int) -> dict[str, Any]:
    """Return tokens per second of the torch engine, and whether its greedy tokens are those of `generate`."""
    base, found = policies[0].base, {}
    memory = PeakMemory(base.model.device)
    params = SamplingParams(max_tokens=new_tokens)
    for rows in (1, 16, 128):
        half = max(1, rows // 2)
        requests = [Request(policy, [prompt_of(policy)] * half, params, range(half)) for policy in policies]
        sample_many(requests)  # kernels are compiled, memory is got
        memory.reset()
        seconds, tokens = timed(base, lambda requests=requests: sample_many(requests))
        found[f"tokens_per_second_{2 * half}_rows"] = round(tokens / seconds)
        found[f"peak_gib_{2 * half}_rows"] = round(memory.peak(), 2)
    prompt = prompt_of(policies[0])
    (ours,) = TorchEngine().sample(policies[0], [prompt], GREEDY, seeds=[0])
    ids = torch.tensor([prompt], device=base.model.device)
    with torch.no_grad(), base.use(policies[0].name):
        whole = base.model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=16, pad_token_id=0
        )
    theirs = whole[0, len(prompt) :].tolist()[: len(ours.token_ids)]
    return {**found, "greedy_tokens_equal": f"{sum(a == b for a, b in zip(ours.token_ids, theirs, strict=True))}/{len(theirs)}"}


def learner(policies: list[LLMPolicy], new_tokens: int) -> dict[str, Any]:
    """Return tokens per second and peak memory of updates, and how far each adapter moved when one learned."""
    base, found = policies[0].base, {}
    memory = PeakMemory(base.model.device)
    params = SamplingParams(max_tokens=new_tokens)
    prompts = [prompt_of(policies[0])] * 16
    said = policies[0].sample(prompts, params=params, seeds=range(16))
    rows = tuple(
        Row(prompt, one.token_ids, one.logprobs, (-1.0) ** place)
        for place, (prompt, one) in enumerate(zip(prompts, said, strict=True))
    )
    tokens = sum(len(row.completion_ids) for row in rows)
    for recompute in (False, True):
        does = LocalLearner(base, optim=OptimConfig(learning_rate=1e-4, recompute=recompute))
        before = [[parameter.clone() for parameter in policy.parameters()] for policy in policies]

        def update(does: LocalLearner = does) -> list[Any]:
            does.forward_backward(policies[0], Batch(rows))
            does.optim_step(policies[0])
            return []

        update()
        memory.reset()
        seconds, _ = timed(base, update)
        name = "recompute" if recompute else "kept"
        found[f"tokens_per_second_{name}"] = round(tokens / seconds)
        found[f"peak_gib_{name}"] = round(memory.peak(), 2)
        moved = [
            max(float((now - then).abs().max()) for now, then in zip(policy.parameters(), old, strict=True))
            for policy, old in zip(policies, before, strict=True)
        ]
        found[f"moved_{name}"] = [f"{each:.1e}" for each in moved]
    scored = LocalLearner(base).logprobs(policies[0], [dataclasses.replace(row, advantage=0.0) for row in rows])
    gap = [abs(a - b) for row, one in zip(rows, scored, strict=True) for a, b in zip(row.old_logprobs, one, strict=True)]
    return {**found, "tokens": tokens, "mean_change_of_a_log_probability": round(sum(gap) / len(gap), 5)}


def step(args: argparse.Namespace) -> dict[str, Any]:
    """Return the metrics of whole steps, of the last one."""
    config = dataclasses.replace(
        TINY, model=args.model, problems=args.problems, group_size=args.group, max_tokens=args.new_tokens, eval_problems=0
    )
    run = Run.of(dataclasses.replace(config, steps=args.steps, threads=0, lora_rank=32, lora_alpha=32))
    for _ in range(args.steps):
        stats, _ = run.advance()
    return {name: round(value, 3) for name, value in stats.items() if name.startswith(("time/", "memory/", "progress/"))}


def vllm(policies: list[LLMPolicy], new_tokens: int) -> dict[str, Any]:
    """Return tokens per second of vLLM with both adapters, the mismatch, and the memory that sleeping gives back."""
    if installed_version() is None:
        return {"skipped": "vLLM is not installed"}
    base = policies[0].base
    served = ServedEngine(lambda base: VLLM(base, max_context=1024))
    memory = PeakMemory(base.model.device)
    params, found = SamplingParams(max_tokens=new_tokens), {}
    for rows in (16, 128):
        requests = [Request(policy, [prompt_of(policy)] * (rows // 2), params, range(rows // 2)) for policy in policies]
        served.sample_many(requests)
        seconds, tokens = timed(base, lambda requests=requests: served.sample_many(requests))
        found[f"tokens_per_second_{rows}_rows"] = round(tokens / seconds)
    awake = memory.now()
    served.rest()
    again = served.sample(policies[0], [prompt_of(policies[0])], GREEDY, seeds=[0])  # wakes it
    found |= {"gib_awake": round(awake, 2), "mismatch_nats": f"{served._serving(base)._noise:.1e}", "woke": len(again) == 1}
    return found


def plan(base: SharedBase, args: argparse.Namespace) -> dict[str, Any]:
    """Return what the cost model says of a step here."""
    work = Workload(
        problems=args.problems,
        group_size=args.group,
        prompt_tokens=80,
        draft_tokens=args.new_tokens / 2,
        answer_tokens=args.new_tokens / 2,
        longest=args.new_tokens,
        recompute=False,
    )
    hardware = calibrate(base, rank=work.rank)
    cost = estimate(shape_of(base.model.config), work, hardware)
    return {
        "train_flops": f"{hardware.train_flops:.2e}",
        "decode_flops": f"{hardware.decode_flops:.2e}",
        "overhead_us": round(1e6 * hardware.overhead, 1),
        "seconds_sampling": round(cost.seconds_sampling, 2),
        "seconds_training": round(cost.seconds_training, 2),
        "memory_training_gb": round(cost.memory_training / 1e9, 2),
    }


def timed(base: SharedBase, work: Callable[[], list[Any]]) -> tuple[float, int]:
    """Return the seconds of `work`, and the tokens that it sampled."""
    begun = time.perf_counter()
    found = work()
    if base.model.device.type == "cuda":
        torch.cuda.synchronize()
    completions = [one for group in found for one in (group if isinstance(group, list) else [group])]
    return time.perf_counter() - begun, sum(len(one.token_ids) for one in completions)


if __name__ == "__main__":
    main()
