"""Two workers against one, what travels, what a lost worker changes, and two ranks against one process.

    python benchmarks/scale.py [--only ray ranks] [--steps 5] [--problems 16] [--group 4] [--new-tokens 64] [--out scale.json]

Whole training steps of the duel with the embedded model, on two cores: with one Ray worker, with two, and with two of which
one is killed (kill -9) in the middle of a step. The runs are interleaved. `times_as_fast` is the ratio of the medians of the
time that is spent playing: on the wall; and, for a machine that is shared with others, by the processor's time of the worker
that worked longest. Then 20 steps of the learner on the same rows in one process and on two gloo ranks: in many micro-batches,
in a few, in those of the usual size, and in one, for which only one of the ranks has anything to do.

Needs `pip install 'agon-env[ray]'`.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from measure import machine, publish, spread

from agents.policy import LLMPolicy
from agents.shared_base import SharedBase
from algos.config import TINY, TrainConfig
from algos.learner import LocalLearner
from algos.learning.optim import OptimConfig
from algos.parallel.launch import launch
from algos.parallel.ranked import RankedLearner
from algos.parallel.ranks import Ranks
from algos.parallel.ray_config import LOCAL, RayConfig
from algos.parallel.work import adapter_tensors, digest_of
from algos.training.run import Run
from algos.types import Batch, Row

LEARNER_STEPS = 20
ROWS = 36
BUDGETS = (128, 400, None, 4096)
"""Most tokens of a micro-batch, of some 1,900 in a step; None: as many as usual."""
PARTS = ("ray", "ranks")


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("steps", 5), ("problems", 16), ("group", 4), ("new-tokens", 64)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--out")
    args = parser.parse_args()
    config = dataclasses.replace(
        TINY, problems=args.problems, group_size=args.group, max_tokens=args.new_tokens, eval_problems=0, steps=args.steps + 1
    )
    parts = {"ray": lambda: workers(config), "ranks": ranks}
    report: dict[str, Any] = {"machine": machine("torch", "ray")} | {name: parts[name]() for name in args.only}
    publish(report, args.out)


def workers(config: TrainConfig) -> dict[str, Any]:
    """Train with one worker, with two, and with two of which one dies."""
    sides = {"1": 1, "2": 2, "2, one killed": 2}
    runs = {
        side: Run.of(dataclasses.replace(config, ray=RayConfig(LOCAL, workers=count, cpus=0.25)))
        for side, count in sides.items()
    }
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    longest: dict[str, list[float]] = {side: [] for side in sides}
    sent: list[int] = []
    for step in range(config.steps):
        for side, run in runs.items():
            assert run.workers is not None
            killed = side == "2, one killed" and step == config.steps // 2
            if killed:
                kill = threading.Timer(np.median(seconds["2"]) / 2, os.kill, (run.workers.pids()[0], signal.SIGKILL))
                kill.start()
            before = run.workers.sent.adapters
            pids = run.workers.pids()
            idle = [processor_seconds(pid) for pid in pids]
            stats, _ = run.advance()
            if step:  # the first one loads models
                seconds[side].append(stats["time/sample"])
                if not killed:
                    longest[side].append(max(processor_seconds(pid) - then for pid, then in zip(pids, idle, strict=True)))
                sent.append(run.workers.sent.adapters - before)
            if killed:
                print(f"a worker was killed in step {step}: {stats['time/sample']:.1f} s instead of {seconds['2'][-1]:.1f} s")
    first = runs["1"]
    digests = {side: [digest(policy) for policy in run.policies.values()] for side, run in runs.items()}
    replaced = {side: run.workers.sent.replaced for side, run in runs.items() if run.workers is not None}
    for run in runs.values():
        run.close()
    return {
        "contests_per_step": config.problems * config.group_size,
        "seconds_playing": {side: spread(values) for side, values in seconds.items()},
        "processor_seconds_of_the_longest_worker": {side: spread(values) for side, values in longest.items()},
        "times_as_fast": {
            "wall": round(float(np.median(seconds["1"]) / np.median(seconds["2"])), 2),
            "processor": round(float(np.median(longest["1"]) / np.median(longest["2"])), 2),
        },
        "bytes_sent_per_step": spread(sent, digits=0),
        "bytes_of_the_adapters": sum(4 * policy.base.adapters.count(policy.name) for policy in first.policies.values()),
        "workers_replaced": replaced,
        "same_weights_to_the_last_bit": {side: found == digests["1"] for side, found in digests.items()},
    }


def processor_seconds(pid: int) -> float:
    """Return the processor's time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def digest(policy: LLMPolicy) -> str:
    return digest_of(adapter_tensors(policy))


def ranks() -> dict[str, Any]:
    """Learn on the same rows in one process and on two ranks."""
    found: list[dict[str, Any]] = []
    for budget in BUDGETS:
        (alone, pieces), (together, _) = learn(None, budget), launch(learn_ranked, budget, ranks=2)
        differences = [float(np.abs(one - other).max()) for one, other in zip(alone, together, strict=True)]
        moved = max(float(np.abs(one).max()) for one in alone)
        found.append(
            {
                "micro_batches_of_a_step": spread(pieces, digits=0),
                "greatest_difference_of_a_weight": max(differences),
                "greatest_weight": round(moved, 4),
            }
        )
    return {"steps": LEARNER_STEPS, "rows_of_a_step": ROWS, "by_size_of_micro_batches": found}


def learn_ranked(budget: int | None) -> tuple[list[np.ndarray], list[int]]:
    return learn(Ranks.current(), budget)


def learn(ranks: Ranks | None, budget: int | None) -> tuple[list[np.ndarray], list[int]]:
    """Return the adapter after 20 steps on rows of very different lengths, and the micro-batches of each made by this rank."""
    base = SharedBase.load("embedded", device="cpu")
    policy = base.policy("alice", rank=8, alpha=16, seed=1)
    optim = OptimConfig(learning_rate=1e-3, token_budget=budget)
    learner = LocalLearner(base, optim=optim) if ranks is None else RankedLearner(base, ranks=ranks, optim=optim)
    pieces = []
    for step in range(LEARNER_STEPS):
        drawn = rows(step)
        scored = learner.logprobs(policy, drawn)  # the policy has said them itself, as in training
        own = [dataclasses.replace(row, old_logprobs=logp) for row, logp in zip(drawn, scored, strict=True)]
        pieces.append(len(learner._cut(own, learner.budget.tokens)))
        learner.forward_backward(policy, Batch(tuple(own)))
        learner.optim_step(policy)
    return [parameter.detach().numpy() for parameter in policy.parameters()], pieces


def rows(step: int) -> Sequence[Row]:
    rng = np.random.default_rng(step)

    def ids(length: int) -> tuple[int, ...]:
        return tuple(rng.integers(10, 200, size=length).tolist())

    found = []
    for _ in range(ROWS):
        completion = ids(int(rng.integers(1, 60)))
        old = tuple((-5.5 + rng.normal(size=len(completion))).tolist())
        found.append(Row(ids(int(rng.integers(4, 40))), completion, old, advantage=float(rng.normal())))
    return found


if __name__ == "__main__":
    main()
