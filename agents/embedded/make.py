"""Makes the embedded model again from nothing: `python -m agents.embedded.make --output FOLDER`."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import tyro
from torch import Tensor
from torch.nn import functional
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from agents.embedded.lessons import Batch, Syllabus, batches, render
from agents.embedded.searcher import SearchHabits
from agents.embedded.tokenizer import CONTEXT, build_tokenizer
from agents.embedded.writer import Habits, draw_beliefs
from agon_env.games.draft_challenge import DraftChallenge
from agon_env.tasks.arithmetic import Arithmetic
from agon_env.tasks.chain_search import ChainSearch
from agon_env.tasks.task import Task


@dataclass
class Make:
    """Settings of the embedded model. The defaults make the one that is shipped."""

    output: Path
    """Folder to write to."""
    seed: int = 0
    hidden_size: int = 128
    layers: int = 3
    heads: int = 4
    intermediate_size: int = 384
    study_steps: int = 2400
    """Batches of pure reasoning, half of them with a draft in view; the problems grow."""
    practice_steps: int = 600
    """Batches of all behaviours."""
    batch_tokens: int = 2000
    """Most tokens of a batch, padding included."""
    learning_rate: float = 2e-3
    practice_learning_rate: float = 1e-3
    false_beliefs: float = 0.15
    """Share of the single steps about which the writers have a false belief."""
    chain_habits: Habits = field(default_factory=Habits)
    search_habits: SearchHabits = field(default_factory=SearchHabits)
    evaluate: int = 500
    """Held-out problems of each task in the evaluation at the end."""
    threads: int = 1
    """CPU threads."""


def main(config: Make) -> None:
    """Train, save and evaluate."""
    torch.set_num_threads(config.threads)
    torch.manual_seed(config.seed)
    rng = np.random.default_rng(config.seed)
    tokenizer = build_tokenizer()
    model = build_model(config, tokenizer)
    print(f"{model.num_parameters():,} parameters, {len(tokenizer)} tokens", flush=True)
    syllabus = Syllabus(
        draw_beliefs(config.false_beliefs, rng),
        seed=config.seed + 1,
        chain_habits=config.chain_habits,
        search_habits=config.search_habits,
    )
    study = batches(syllabus.study, tokenizer, rng, tokens=config.batch_tokens)
    fit(model, study, steps=config.study_steps, learning_rate=config.learning_rate)
    practice = batches(lambda _: syllabus.practice(), tokenizer, rng, tokens=config.batch_tokens)
    fit(model, practice, steps=config.practice_steps, learning_rate=config.practice_learning_rate)
    save(model, tokenizer, config.output)
    for task in (Arithmetic(split="test"), ChainSearch(split="test")) if config.evaluate else ():
        for name, value in evaluate(model, tokenizer, task, problems=config.evaluate).items():
            print(f"{task.name:12} {name:12} {value:.3f}")


def build_model(config: Make, tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """Return an untrained model."""
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.heads,
            head_dim=config.hidden_size // config.heads,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            dtype="float32",
        )
    )


def fit(model: Qwen3ForCausalLM, data: Iterator[Batch], *, steps: int, learning_rate: float) -> None:
    """Train on the next `steps` batches: AdamW, linear warm-up over a tenth of the steps, then cosine decay."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    warm_up = max(1, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: min((i + 1) / warm_up, 0.5 * (1 + math.cos(math.pi * i / max(1, steps))))
    )
    model.train()
    began = time.monotonic()
    for i, batch in zip(range(steps), data, strict=False):
        loss = answer_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if (i + 1) % 50 == 0 or i + 1 == steps:
            print(f"step {i + 1}/{steps}  loss {loss.item():.4f}  {time.monotonic() - began:.0f} s", flush=True)
    model.eval()


def answer_loss(model: Qwen3ForCausalLM, batch: Batch) -> Tensor:
    """Return the cross-entropy of the answers' tokens, over their typical number; the prompts are only read."""
    hidden_BTD = model.model(input_ids=batch.ids_BT, use_cache=False).last_hidden_state
    logits_NV = model.lm_head(hidden_BTD[:, :-1][batch.is_target_BT[:, 1:]])
    targets_N = batch.ids_BT[:, 1:][batch.is_target_BT[:, 1:]]
    return functional.cross_entropy(logits_NV, targets_N, reduction="sum") / batch.typical_targets


def save(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write the Hugging Face folder."""
    model.generation_config = GenerationConfig(
        do_sample=True, top_k=0, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def evaluate(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, task: Task, *, problems: int) -> dict[str, float]:
    """Return what the model can do at temperature 1 as drafter and as challenger of its own drafts."""
    contests = [DraftChallenge(task) for _ in range(problems)]
    for i, contest in enumerate(contests):
        contest.reset(options={"index": i})
    tokens: list[int] = []
    for _ in DraftChallenge.roles:
        answers = sample(model, tokenizer, [render(contest, tokenizer) for contest in contests])
        for contest, (text, length) in zip(contests, answers, strict=True):
            contest.step(text)
            tokens.append(length)
    draft_P, answer_P = np.array([list(contest.score().values()) for contest in contests], dtype=float).T
    return {
        "alone": share(draft_P),
        "with draft": share(answer_P),
        "fix rate": share(answer_P[draft_P == 0]),
        "break rate": 1 - share(answer_P[draft_P == 1]),
        "tokens": float(np.mean(tokens)),
    }


def share(right_N: np.ndarray) -> float:
    """Return the mean of the scores; not a number if there are none."""
    return float(right_N.mean()) if right_N.size else math.nan


@torch.no_grad()
def sample(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, prompts: list[str], *, temperature: float = 1.0
) -> list[tuple[str, int]]:
    """Return for each prompt a sampled answer and its number of tokens."""
    out: list[tuple[str, int]] = []
    for i in range(0, len(prompts), 128):
        batch = tokenizer(prompts[i : i + 128], return_tensors="pt", padding=True)
        how = {"do_sample": True, "temperature": temperature, "top_k": 0} if temperature else {"do_sample": False}
        rows = model.generate(**batch, max_new_tokens=160, **how)[:, batch["input_ids"].shape[1] :].tolist()
        answers = [row[: row.index(tokenizer.eos_token_id)] if tokenizer.eos_token_id in row else row for row in rows]
        out += [(str(tokenizer.decode(answer)), len(answer) + 1) for answer in answers]
    return out


if __name__ == "__main__":
    main(tyro.cli(Make, description=__doc__))
