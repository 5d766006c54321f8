"""What `agon plan` says of a step, against steps that are run here.

    python benchmarks/plan.py [--steps 3] [--models embedded smollm2-135m] [--out plan.json]

The rates of the machine are measured first, on one micro-batch and a few rows. Then whole training steps of other sizes are
run, and their mean lengths are what the model is asked about. On a CPU with one thread, seconds are those of the processor.
"""

from __future__ import annotations

import argparse
import dataclasses
from statistics import fmean, median
from typing import Any

from measure import machine, publish

from algos.config import PRESETS, TrainConfig
from algos.planning.calibrate import calibrate, clock, shape_of
from algos.planning.cost_model import Workload, estimate
from algos.rollouts import Rollout
from algos.training.run import Run

SIZES = {
    "embedded": [(4, 4, 96), (8, 8, 96), (8, 16, 48), (24, 8, 96)],
    "smollm2-135m": [(1, 4, 24)],
}
"""Model → problems, group size, most tokens."""
BASES = {"embedded": "tiny", "smollm2-135m": "smollm2"}


def main() -> None:
    """Compare, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=list(SIZES))
    parser.add_argument("--sizes", type=int, help="only so many sizes of each model")
    parser.add_argument("--out")
    args = parser.parse_args()
    report: dict[str, Any] = {"machine": machine("torch")}
    for model in args.models:
        for problems, group, tokens in SIZES[model][: args.sizes]:
            config = dataclasses.replace(
                PRESETS[BASES[model]], problems=problems, group_size=group, max_tokens=tokens, threads=1, eval_problems=0
            )
            report[f"{model} {problems}×{group}×{tokens}"] = compare(config, steps=args.steps)
    publish(report, args.out)


def compare(config: TrainConfig, *, steps: int) -> dict[str, Any]:
    """Return seconds and memory of a step, as said and as measured."""
    run = Run.of(dataclasses.replace(config, steps=steps + 1))
    base = run.bases[0]
    hardware = calibrate(base, rank=config.lora_rank)
    now, seconds, sampling, peaks, costs = clock(base.model.device), [], [], [], []
    for step in range(steps + 1):
        before = now()
        stats, played = run.advance()
        if step:  # the first one takes memory and compiles
            seconds.append(now() - before)
            sampling.append(seconds[-1] * stats["time/sample"] / stats["time/step"])
            peaks.append(max(value for name, value in stats.items() if name.startswith("memory/")))
            learned = sum(stats[f"{name}/rows"] for name in run.policies) / len(played.turns)
            budget = next(iter(run.learners.values())).budget.tokens
            work = workload(config, played, learned=learned, token_budget=budget)
            costs.append(estimate(shape_of(base.model.config), work, hardware))
    said = [cost.seconds for cost in costs]
    memory = [max(cost.memory_sampling, cost.memory_training) / 2**30 for cost in costs]
    return {
        "seconds": {"said": round(median(said), 3), "measured": round(median(seconds), 3)},
        "memory_gib": {"said": round(median(memory), 3), "measured": round(median(peaks), 3)},
        "said_of_measured": {
            "seconds": round(median(said) / median(seconds), 2),
            "memory": round(median(memory) / median(peaks), 2),
        },
        "seconds_sampling": {
            "said": round(median(cost.seconds_sampling for cost in costs), 3),
            "measured": round(median(sampling), 3),
        },
    }


def workload(config: TrainConfig, played: Rollout, *, learned: float, token_budget: int) -> Workload:
    """Return the step that was played, by its mean lengths."""
    drafts, answers = (
        [turn for turn in played.turns if turn.role == role and turn.completion is not None]
        for role in ("drafter", "challenger")
    )
    prompt, answer_prompt = (fmean(len(turn.prompt_ids) for turn in turns) for turns in (drafts, answers))
    draft, answer = (fmean(len(turn.completion.token_ids) for turn in turns if turn.completion) for turns in (drafts, answers))
    return Workload(
        problems=config.problems,
        group_size=config.group_size,
        prompt_tokens=prompt,
        draft_tokens=draft,
        answer_tokens=answer,
        answer_extra=answer_prompt - prompt - draft,
        longest=max(len(turn.completion.token_ids) for turn in played.turns if turn.completion),
        rank=config.lora_rank,
        distinct=len({tuple(turn.prompt_ids) for turn in answers}) / len(drafts),
        learning=min(1.0, learned),
        token_budget=token_budget,
        recompute=False,
    )


if __name__ == "__main__":
    main()
