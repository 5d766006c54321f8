"""One cooperative step of two agents: agon-env's trainer against CoMLRL's `MAGRPOTrainer`; prints JSON.

    python benchmarks/step_vs_comlrl.py [--python PYTHON] [--parts small real] [--output step_vs_comlrl.json]

Needs `pip install 'agon-env[bench]'`, or an environment of its own for CoMLRL (it brings wandb and more), whose
interpreter is named by `--python` and must have agon-env too.

In a step every agent answers every problem in a group, a team reward pays both, and both are updated. The agents answer side
by side, as CoMLRL's do: agon-env plays its duel without exchange, so that both sides read the same prompts. Model, rewards,
group size and the number of sampled tokens are the same. What differs is what is compared: CoMLRL trains one full copy of
the model per agent (`comlrl`; `comlrl_lora` gives each copy a PEFT adapter of the same rank instead), agon-env two
adapters on one frozen base. CoMLRL's defaults are kept where they do not name the workload, but for its buffer: all
problems are updated on together, not two by two, which is the faster way. Each side is a process of its own; the sides take
turns step by step. All is measured on a small model, of whose memory the imports are most, in a minute or two, and on a
real one with fewer problems in a quarter of an hour.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from measure import machine, publish
from steps import LEARNING_RATE, Steps, Workload, prompts, race, resolve_model, reward_of, run_agon, workload_from

MAX_EPOCHS = 10_000
SIDES = ("agon", "comlrl", "comlrl_lora")
PARTS = ("small", "real")


class _Over(Exception):
    """No further step is wanted."""


def run_comlrl(work: Workload, steps: Steps, *, lora: bool) -> None:
    """Train with CoMLRL; one of its epochs is one step here: every problem once, then the updates."""
    import torch
    from comlrl.trainers.reinforce import MAGRPOConfig, MAGRPOTrainer
    from datasets import Dataset
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(work.threads)
    tokenizer = AutoTokenizer.from_pretrained(work.model)
    texts = [tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) for chat in prompts(work.problems)]
    # CoMLRL takes the first padding token for the end of a prompt; in some chat templates it stands in the midst of it.
    used = set(tokenizer(texts).input_ids[0])
    tokenizer.pad_token_id = next(token for token in tokenizer.all_special_ids if token not in used)
    adapter = LoraConfig(
        r=work.rank, lora_alpha=work.rank, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    agents = [AutoModelForCausalLM.from_pretrained(work.model, dtype=torch.float32) for _ in range(2)]
    if lora:
        agents = [get_peft_model(agent, adapter) for agent in agents]
    sampled = [0]

    class TakingTurns(MAGRPOTrainer):
        started = False

        def get_train_dataloader(self) -> Any:
            if self.started:
                steps.end(sampled[0])
            self.started, sampled[0] = True, 0
            if not steps.begin():
                raise _Over
            return super().get_train_dataloader()

        def _generate_completions(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            found = super()._generate_completions(*args, **kwargs)
            sampled[0] += sum(len(tokens) for tokens in found["completion_input_ids"][0])
            return found

    trainer = TakingTurns(
        agents=agents,
        num_agents=2,
        tokenizer=tokenizer,
        train_dataset=Dataset.from_dict({"prompt": texts}),
        reward_func=lambda drafts, answers: [reward_of(answer) for answer in answers],
        formatters=[lambda item: item["prompt"]] * 2,
        args=MAGRPOConfig(
            num_train_epochs=MAX_EPOCHS,
            agent_learning_rate=LEARNING_RATE,
            num_agents=2,
            num_generations=work.group,
            max_new_tokens=work.new_tokens,
            temperature=1.0,
            top_p=1.0,
            top_k=0,
            num_turns=1,
            eval_interval=0,
            rollout_buffer_size=work.problems,
        ),
    )
    trainer.verbose = False
    try:
        trainer.train(min_new_tokens=work.new_tokens)
    except _Over:
        return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=int, nargs=3, default=[8, 8, 32], metavar=("PROBLEMS", "GROUP", "TOKENS"))
    parser.add_argument("--real", type=int, nargs=3, default=[2, 8, 32], metavar=("PROBLEMS", "GROUP", "TOKENS"))
    parser.add_argument("--models", nargs=2, default=["embedded", "smollm2-135m"], help="the small one, and the real one")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, nargs=2, default=[5, 5], help="measured steps of each side, for either model")
    parser.add_argument("--warmup", type=int, default=1, help="steps before")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has comlrl and agon-env")
    parser.add_argument("--output", help="where to write the JSON as well")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--workload", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        work, steps = workload_from(arguments.workload), Steps()
        if arguments.side == "agon":
            run_agon(work, steps, algorithm="cooperative_grpo")
        else:
            run_comlrl(work, steps, lora=arguments.side == "comlrl_lora")
        return
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        all_sizes = (arguments.small, arguments.real)
        for part, name, sizes, steps in zip(PARTS, arguments.models, all_sizes, arguments.steps, strict=True):
            if part not in arguments.parts:
                continue
            model = resolve_model(name, Path(folder) / "tiny")
            work = Workload(model, *sizes, rank=arguments.rank, threads=arguments.threads)
            results[name] = race(__file__, SIDES, work, steps=steps, warmup=arguments.warmup, python=arguments.python)
            results[name]["workload"] = {**asdict(work), "model": name}
    publish({"machine": machine("agon-env", "torch", "transformers", "peft"), **results}, arguments.output)


if __name__ == "__main__":
    main()
