"""One whole GRPO step (sampling, rewards, update) of agon-env's trainer against TRL's `GRPOTrainer`; prints JSON.

    python benchmarks/step_vs_trl.py [--threads 1 2] [--output step_vs_trl.json]

Needs `pip install 'agon-env[bench]'`. All sides have the same model in float32, the same prompts, rewards, group size,
adapters, learning rate and clipping, and every completion has the same number of tokens. TRL generates with transformers,
which is what it does without vLLM. None logs, evaluates or saves. There are two sides of TRL: `trl` is tuned to this
workload, all rows in one batch and no activation computed again; `trl_defaults` is what `GRPOConfig` gives when no more
than the workload is named, 8 rows at a time with activations computed again (but for bfloat16, which a CPU without units
for it computes a hundred times slower). Each side is a process of its own (its peak memory is that of the process, with its
imports); they take turns step by step.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measure import machine, publish
from steps import LEARNING_RATE, Steps, Workload, prompts, race, resolve_model, reward_of, run_agon, workload_from

MAX_STEPS = 10_000
SIDES = ("agon", "trl", "trl_defaults")


def run_trl(work: Workload, steps: Steps, *, tuned: bool) -> None:
    """Train with TRL, which calls back at the end of each step."""
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(work.threads)
    sampled, seconds = [0], [0.0]

    class TimedTrainer(GRPOTrainer):
        def _generate_and_score_completions(self, *args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            found = super()._generate_and_score_completions(*args, **kwargs)
            seconds[0] = time.perf_counter() - start
            return found

    def rewards(completion_ids: list[list[int]], completions: list[list[dict[str, str]]], **_: Any) -> list[float]:
        sampled[0] = sum(map(len, completion_ids))
        return [reward_of(completion[0]["content"]) for completion in completions]

    class TakeTurns(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_training_stop = not steps.begin()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            steps.end(sampled[0], sampling=seconds[0])
            control.should_training_stop = not steps.begin()

    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder,
            use_cpu=True,
            bf16=False,
            max_steps=MAX_STEPS,
            **_batching(work.problems * work.group, tuned=tuned),
            num_generations=work.group,
            max_completion_length=work.new_tokens,
            generation_kwargs={"min_new_tokens": work.new_tokens},
            temperature=1.0,
            top_p=1.0,
            top_k=0,
            learning_rate=LEARNING_RATE,
            lr_scheduler_type="constant",
            max_grad_norm=1.0,
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        trainer = TimedTrainer(
            model=AutoModelForCausalLM.from_pretrained(work.model, dtype=torch.float32),
            reward_funcs=rewards,
            args=config,
            train_dataset=Dataset.from_dict({"prompt": prompts(64 * work.problems)}),
            processing_class=AutoTokenizer.from_pretrained(work.model),
            peft_config=LoraConfig(
                r=work.rank, lora_alpha=work.rank, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"
            ),
            callbacks=[TakeTurns()],
        )
        trainer.train()


def _batching(rows: int, *, tuned: bool) -> dict[str, Any]:
    """Return how TRL cuts a step of so many rows into passes, and what it keeps of them."""
    if tuned:
        return {"per_device_train_batch_size": rows, "gradient_checkpointing": False, "loss_type": "grpo"}
    from transformers import TrainingArguments

    passes, left = divmod(rows, TrainingArguments.per_device_train_batch_size)
    if left:
        raise SystemExit(f"{rows} rows are no multiple of TRL's default batch of {rows - left}; choose other sizes")
    return {"gradient_accumulation_steps": passes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny", help='"tiny" (4 layers, 0.9 M parameters), "embedded" or a folder')
    parser.add_argument("--problems", type=int, default=8)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--steps", type=int, default=7, help="measured steps of each side")
    parser.add_argument("--warmup", type=int, default=2, help="steps before")
    parser.add_argument("--output", help="where to write the JSON as well")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--workload", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        work, steps = workload_from(arguments.workload), Steps()
        if arguments.side == "agon":
            run_agon(work, steps, algorithm="grpo")
        else:
            run_trl(work, steps, tuned=arguments.side == "trl")
        return
    with tempfile.TemporaryDirectory() as folder:
        model = resolve_model(arguments.model, Path(folder) / "tiny")
        results = {
            f"{threads}_threads": race(
                __file__,
                SIDES,
                Workload(model, arguments.problems, arguments.group, arguments.new_tokens, arguments.rank, threads),
                steps=arguments.steps,
                warmup=arguments.warmup,
                python=sys.executable,
            )
            for threads in arguments.threads
        }
    publish({"machine": machine("agon-env", "torch", "transformers", "peft", "trl"), **results}, arguments.output)


if __name__ == "__main__":
    main()
