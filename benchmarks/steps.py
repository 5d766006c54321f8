"""Whole training steps of several libraries side by side: each in a process of its own, taking turns step by step.

The parent (`race`) imports none of the libraries, so that what a child reports as its peak memory is its own. A child
(`Steps`) waits for the word before every step, so that two steps never overlap and a busy moment of the machine meets all
sides alike. `Workload` is what all sides have in common: the model, the prompts, the lengths, the rewards.

    python benchmarks/steps.py FOLDER      writes the random model that the benchmarks call "tiny"
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from measure import spread

LEARNING_RATE = 1e-4
ENV = "BenchmarkTask"
INSTRUCTION = "Think first."


@dataclass(frozen=True)
class Workload:
    """One training step, the same for every side."""

    model: str
    """A folder with a model, or a name that agon-env knows."""
    problems: int
    group: int
    """Completions of each prompt."""
    new_tokens: int
    """Tokens of every completion: no side may end one earlier."""
    rank: int
    """Of the adapters on all linear layers; α is the same number."""
    threads: int


def reward_of(text: str) -> float:
    """Return a number in [0, 1) that depends on every character: no group is without spread, no time is spent on it."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass")) / 2**32


def question(index: int) -> str:
    """Return a question; all take about as many tokens."""
    return f"What is {index * 7919 % 900 + 100} + {index * 104729 % 900 + 100}?"


def prompts(count: int) -> list[list[dict[str, str]]]:
    """Return what the models read, as chat messages."""
    return [[{"role": "user", "content": f"{question(index)}\n\n{INSTRUCTION}"}] for index in range(count)]


# --- a child ----------------------------------------------------------------------------------------


class Steps:
    """A child's end: `while steps.begin(): …; steps.end(tokens)`."""

    def __init__(self) -> None:
        """Keep standard output for the reports; whatever else is printed goes to standard error."""
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._started = self._cpu = 0.0

    def begin(self) -> bool:
        """Wait for the word; False when there is nothing more to do, and the peak memory has been told."""
        more = sys.stdin.readline().strip() == "step"
        if not more:
            self._tell({"peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if _MAC else 2**10)})
        self._started, self._cpu = time.perf_counter(), time.process_time()
        return more

    def end(self, tokens: int, *, sampling: float | None = None) -> None:
        """Report a step in which so many tokens were sampled, in so many seconds of it."""
        seconds, cpu_seconds = time.perf_counter() - self._started, time.process_time() - self._cpu
        self._tell({"seconds": seconds, "cpu_seconds": cpu_seconds, "tokens": tokens, "sampling": sampling})

    def _tell(self, record: Mapping[str, float | None]) -> None:
        self._out.write(json.dumps(record) + "\n")
        self._out.flush()


_MAC = sys.platform == "darwin"


def workload_from(text: str) -> Workload:
    """Read what `race` wrote."""
    return Workload(**json.loads(text))


# --- the parent -------------------------------------------------------------------------------------


class _Child:
    def __init__(self, command: Sequence[str], threads: int) -> None:
        env = {**os.environ, "OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false", "WANDB_MODE": "disabled"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr, text=True, encoding="utf-8", env=env
        )

    def ask(self, word: str) -> dict[str, float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"a side ended early, with exit status {self._process.wait()}; see its error above")
        return json.loads(answer)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def race(script: str, sides: Sequence[str], workload: Workload, *, steps: int, warmup: int, python: str) -> dict[str, Any]:
    """Run `script --side SIDE` for every side, taking turns; the first is compared with the others.

    Args:
        script: the file of the benchmark.
        sides: what they are called; the first is ours.
        workload: what each of them does.
        steps: measured steps of each side.
        warmup: steps before, which are not measured.
        python: the interpreter that has the libraries.

    Returns:
        For each side its seconds per step, tokens per step and peak memory, and how the first compares.
    """
    text = json.dumps(asdict(workload))
    children = {side: _Child([python, script, "--side", side, "--workload", text], workload.threads) for side in sides}
    try:
        for child in children.values():
            for _ in range(warmup):
                child.ask("step")
        records: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
        for _ in range(steps):
            for side, child in children.items():
                records[side].append(child.ask("step"))
        peaks = {side: child.ask("stop")["peak_mib"] for side, child in children.items()}
    finally:
        for child in children.values():
            child.stop()
    seconds, cpu_seconds = (
        {side: spread([record[key] for record in records[side]]) for side in sides} for key in ("seconds", "cpu_seconds")
    )
    ours = sides[0]
    return {
        "workload": {**asdict(workload), "model": Path(workload.model).name},
        **{
            side: {
                "seconds_per_step": seconds[side],
                "processor_seconds_per_step": cpu_seconds[side]["median"],
                **_sampling(records[side]),
                "tokens_per_step": spread([record["tokens"] for record in records[side]], 0)["median"],
                "peak_mib": round(peaks[side]),
            }
            for side in sides
        },
        "times_as_fast_as": {
            side: round(seconds[side]["median"] / seconds[ours]["median"], 2) for side in sides if side != ours
        },
        "share_of_the_peak_memory_of": {side: round(peaks[ours] / peaks[side], 3) for side in sides if side != ours},
    }


def _sampling(records: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the part of a step that is sampling with its rewards, if the side has told it."""
    known = [record["sampling"] for record in records if record["sampling"] is not None]
    return {"of_which_sampling": spread(known)["median"]} if known else {}


# --- ours -------------------------------------------------------------------------------------------


def run_agon(work: Workload, steps: Steps, *, algorithm: str) -> None:
    """Train with agon-env's own trainer: a solo contest by "grpo", a duel without exchange by "cooperative_grpo"."""
    import agon_env
    from agon_env.games import DraftChallenge, Solo
    from agon_env.tasks import Problem
    from agon_env.verifiers import Verdict
    from algos.config import TINY, OptimConfig, TrainConfig
    from algos.trainer import Run

    class Crc:
        def score(self, completion: str, gold: str) -> Verdict:
            return Verdict(reward_of(completion), None, "crc")

        def score_many(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
            return [self.score(*pair) for pair in pairs]

    class BenchmarkTask:
        name = source = "benchmark"
        instruction = INSTRUCTION
        verifier = Crc()
        size = None

        def __getitem__(self, index: int) -> Problem:
            return Problem(str(index), question(index), "")

        def solution(self, problem: Problem) -> str:
            return ""

    duel = algorithm == "cooperative_grpo"
    game = (
        (lambda **options: DraftChallenge(BenchmarkTask(), reveal="nothing", **options))
        if duel
        else (lambda **options: Solo(BenchmarkTask(), **options))
    )
    agon_env.register(f"{ENV}-v0", game)
    config = TrainConfig(
        env=f"{ENV}-v0",
        env_options=("credit_truncated=true",),  # every completion is cut off at the common length
        algorithm=algorithm,
        model=work.model,
        problems=work.problems,
        group_size=work.group,
        max_tokens=work.new_tokens,
        lora_rank=work.rank,
        lora_alpha=work.rank,
        optim=OptimConfig(learning_rate=LEARNING_RATE),
        loss=TINY.loss,
        eval_problems=0,
        threads=work.threads,
        device="cpu",
    )
    run = Run.of(config)
    for policy in run.policies.values():
        policy.base.eos_ids = frozenset()  # so that no completion ends before the others do
    while steps.begin():
        stats, _ = run.advance()
        steps.end(int(stats["progress/tokens"]), sampling=stats["time/sample"])


def resolve_model(name: str, folder: Path) -> str:
    """Return the folder of a model: "tiny" is made in `folder`, "embedded" and "smollm2-135m" are agon-env's, by their path.

    Runs in a process of its own, so that the parent stays small.
    """
    if Path(name).is_dir():
        return name
    command = [sys.executable, __file__, name, str(folder)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip().split("\n")[-1]


def _make(name: str, folder: str) -> str:
    from agents import embedded
    from agents.loading import smollm2_path

    if name == "embedded":
        return str(embedded.path())
    if name == "smollm2-135m":
        return str(smollm2_path())
    import torch
    from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(embedded.path())
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=32,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    torch.manual_seed(0)
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


if __name__ == "__main__":
    print(_make(*sys.argv[1:3]))
