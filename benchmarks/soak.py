"""Train for a long time, and hold a thousand contests in which one player in ten fails: what grows, and what gets lost?

    python benchmarks/soak.py --minutes 60 --output docs/results/soak.json --plot docs/results/soak.png

A child process trains at small scale, with evaluations, checkpoints and transcripts; this process watches its memory, its file
handles, threads and child processes, and ends it by SIGTERM. Growth is the median of the last fifth over that of the second.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

from measure import machine, publish

import agents
import agon_env
from algos.config import TINY
from algos.trainer import train
from algos.training.console import RunConsole
from algos.training.interruption import Interrupted

WATCHED = {
    "memory": "memory (MiB)",
    "files": "open files",
    "threads": "threads",
    "processes": "child processes",
}
CONFIG = replace(
    TINY, problems=2, group_size=4, max_tokens=48, steps=10**9, eval_problems=16, eval_every=20, checkpoint_every=10
)
TERMINATED = 143


def soak(*, minutes: float, every: float, env: str) -> dict[str, Any]:
    """Train in a child for so many minutes, and return what was seen of it."""
    with tempfile.TemporaryDirectory(prefix="agon-soak-") as folder:
        run = Path(folder) / "run"
        child = os.fork()
        if not child:
            os._exit(_train(folder, env))
        seen: list[dict[str, float]] = []
        start = time.monotonic()
        while time.monotonic() < start + 60 * minutes:
            time.sleep(every)
            if (run / "metrics.jsonl").exists():
                seen.append({"minute": round((time.monotonic() - start) / 60, 3), **look(child)})
        os.kill(child, signal.SIGTERM)
        _, status = os.waitpid(child, 0)
        steps = (run / "metrics.jsonl").read_bytes().count(b"\n")
        events = (run / "events.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    growth = {name: grown([each[name] for each in seen]) for name in WATCHED}
    return {
        "minutes": minutes,
        "env": env,
        "steps": steps,
        "ended by SIGTERM as documented": os.waitstatus_to_exitcode(status) == TERMINATED,
        "events": len(events),
        "growth": growth,
        "seen": seen,
    }


def _train(folder: str, env: str) -> int:
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            from rich.console import Console

            train(replace(CONFIG, env=env, output_dir=folder, name="run"), console=RunConsole(Console(file=nowhere)))
    except Interrupted as stopped:
        return stopped.exit_code
    return 1


def look(process: int) -> dict[str, float]:
    """Return what a process holds now."""
    status = dict(
        line.split(":\t", 1)
        for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").split("\n")
        if ":\t" in line
    )
    children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="utf-8").split()
    return {
        "memory": round(int(status["VmRSS"].split()[0]) / 1024, 1),
        "files": len(os.listdir(f"/proc/{process}/fd")),
        "threads": int(status["Threads"]),
        "processes": len(children),
    }


def grown(values: Sequence[float]) -> float:
    """Return by what factor the median of the last fifth exceeds that of the second, when everything is warm."""
    fifth = max(1, len(values) // 5)
    before, after = median(values[fifth : 2 * fifth]), median(values[-fifth:])
    return round(after / before, 4) if before else float(after != 0)


def contests(*, count: int, players: int, seed: int) -> dict[str, Any]:
    """Play contests between players of which one in ten hangs or raises, and account for every outcome."""
    luck = random.Random(seed)
    bad = set(luck.sample(range(players), players // 10))
    made = [_player(number, bad) for number in range(players)]
    pairs = list(islice(cycle(combinations(range(players), 2)), count))
    luck.shuffle(pairs)
    envs = [agon_env.make("ArithmeticDuel-v0", reward="competitive") for _ in pairs]
    for number, env in enumerate(envs):
        env.reset(seed=number)
    threads, start = threading.active_count(), time.monotonic()
    played = agents.play(envs, [{"alice": made[one], "bob": made[other]} for one, other in pairs], timeout=0.5)
    seconds = time.monotonic() - start
    reasons, wrong = Counter[str](), 0
    for (one, other), each in zip(pairs, played, strict=True):
        outcome = each.contest.outcome
        first_bad = "alice" if one in bad else "bob" if other in bad else None
        if outcome is None:
            wrong += 1
            continue
        reasons["completed" if outcome.reason == "completed" else "forfeit"] += 1
        wrong += (outcome.reason == "completed") != (first_bad is None)
        wrong += first_bad is not None and f"no move: {first_bad} " not in outcome.reason
    return {
        "contests": len(pairs),
        "players": players,
        "of which fail": len(bad),
        "outcomes": dict(reasons),
        "not accounted for, or blamed on another": wrong,
        "seconds": round(seconds, 1),
        "threads left over": threading.active_count() - threads,
    }


def _player(number: int, bad: set[int]) -> agents.Agent:
    if number not in bad:
        return agents.as_agent(lambda obs: f"\\boxed{{{number}}}")
    if number % 2:
        return agents.as_agent(lambda obs: time.sleep(10**6) or "never")

    def fail(_: object) -> str:
        raise RuntimeError(f"player {number} is broken")

    return agents.as_agent(fail)


def plot(seen: Sequence[dict[str, float]], file: str) -> None:
    """Draw what was seen over time."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(WATCHED), 1, sharex=True, figsize=(7, 7), constrained_layout=True)
    for axis, (name, label) in zip(axes, WATCHED.items(), strict=True):
        axis.plot([each["minute"] for each in seen], [each[name] for each in seen], linewidth=1)
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[-1].set_xlabel("minutes")
    figure.savefig(file, dpi=110)


def main() -> int:
    """Run both; the exit code is 1 if anything grew by more than 5 %, or an outcome is not accounted for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long to train")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two looks")
    parser.add_argument("--env", default="ArithmeticDuel-v0", help="contest to train on")
    parser.add_argument("--contests", type=int, default=1000, help="contests with failing players")
    parser.add_argument("--players", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", help="JSON file to write")
    parser.add_argument("--plot", help="PNG file to draw")
    arguments = parser.parse_args()
    report: dict[str, Any] = {"machine": machine("torch", "transformers", "peft")}
    report["training"] = soak(minutes=arguments.minutes, every=arguments.every, env=arguments.env)
    report["failing players"] = contests(count=arguments.contests, players=arguments.players, seed=arguments.seed)
    if arguments.plot:
        plot(report["training"]["seen"], arguments.plot)
    publish(report, arguments.output)
    grew = [name for name, factor in report["training"]["growth"].items() if factor > 1.05]
    failing = report["failing players"]
    return int(
        bool(
            grew
            or failing["not accounted for, or blamed on another"]
            or failing["threads left over"] > failing["of which fail"]
        )
    )


if __name__ == "__main__":
    sys.exit(main())
