"""Makes the embedded model again from nothing: `python -m agents.embedded.make --output FOLDER`."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import tyro
from torch import Tensor
from torch.nn import functional
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from agents.embedded.tokenizer import CONTEXT, build_tokenizer
from agents.embedded.writer import Habits, Writer, draw_beliefs
from agon_env.games.draft_challenge import DraftChallenge
from agon_env.tasks.arithmetic import DEFAULT_DIFFICULTY, Arithmetic
from agon_env.tasks.task import Split

Answer = Callable[[DraftChallenge, str, np.random.Generator], str]


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
    longest: int = 14
    """Greatest number of steps of a chain in training."""
    growth: int = 25
    """Batches after which the chains of reasoning, two steps at first, grow by a step: short ones teach to look up."""
    reasoning_steps: int = 800
    """Batches of pure reasoning, half of them with a draft in view."""
    mixture_steps: int = 250
    """Batches of all behaviours."""
    batch_size: int = 64
    learning_rate: float = 3e-3
    mixture_learning_rate: float = 1e-3
    false_share: float = 0.15
    """Share of the single steps about which the writer has a false belief."""
    habits: Habits = field(default_factory=Habits)
    evaluate: int = 500
    """Held-out problems of the evaluation at the end."""
    threads: int = 1
    """CPU threads."""


POOL = 16
"""Batches that are drawn together and sorted by the length of the prompt, to save padding.

Sorting by the answer too would put guesses in batches of their own, in which each token weighs more."""


def main(config: Make) -> None:
    """Train, save and evaluate."""
    torch.set_num_threads(config.threads)
    torch.manual_seed(config.seed)
    rng = np.random.default_rng(config.seed)
    tokenizer = build_tokenizer()
    model = build_model(config, tokenizer)
    print(f"{model.num_parameters():,} parameters, {len(tokenizer)} tokens", flush=True)
    writer = Writer(draw_beliefs(config.false_share, rng), config.habits)
    reasoning = batches(config, tokenizer, writer, rng, habitual=False)
    fit(model, reasoning, steps=config.reasoning_steps, learning_rate=config.learning_rate)
    mixture = batches(config, tokenizer, writer, rng, habitual=True)
    fit(model, mixture, steps=config.mixture_steps, learning_rate=config.mixture_learning_rate)
    save(model, tokenizer, config.output)
    if config.evaluate:
        for name, value in evaluate(model, tokenizer, problems=config.evaluate).items():
            print(f"{name:12} {value:.3f}")


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


def batches(
    config: Make, tokenizer: PreTrainedTokenizerFast, writer: Writer, rng: np.random.Generator, *, habitual: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield `(ids_BT, is_target_BT)` without end: rendered turns, right-padded, targets are the tokens of the answer."""
    for i in itertools.count():
        longest = config.longest if habitual else min(config.longest, 2 + i * POOL // config.growth)
        contest = DraftChallenge(Arithmetic(difficulty=(1, longest), seed=config.seed + 1))
        turns = [draw_turn(contest, tokenizer, writer, rng, habitual=habitual) for _ in range(POOL * config.batch_size)]
        prompts = tokenizer([prompt for prompt, _ in turns])["input_ids"]
        answers = tokenizer([answer + tokenizer.eos_token for _, answer in turns])["input_ids"]
        rows = sorted(zip(prompts, answers, strict=True), key=lambda row: len(row[0]))
        for j in rng.permutation(POOL):
            yield collate(rows[j * config.batch_size : (j + 1) * config.batch_size], tokenizer.pad_token_id)


def draw_turn(
    contest: DraftChallenge, tokenizer: PreTrainedTokenizerFast, writer: Writer, rng: np.random.Generator, *, habitual: bool
) -> tuple[str, str]:
    """Return one turn of either role: what the player reads, rendered for the model, and what the writer answers.

    The draft is a habitual one even where the answer is reasoned. Drafts that always work out every step are copied
    from before the single steps are learned, and training then often stays there.
    """
    contest.reset(options={"index": int(rng.integers(2**62))})
    draft = None
    if rng.random() < 0.5:
        draft = writer.answer(contest.problem, None, rng)
        contest.step(draft)
    answer = writer.answer(contest.problem, draft, rng) if habitual else writer.reason(contest.problem, rng)
    return render(contest, tokenizer), answer


def render(contest: DraftChallenge, tokenizer: PreTrainedTokenizerFast) -> str:
    """Return the prompt of the player to move in chat format."""
    messages = list(contest.observe().messages)
    return str(tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))


def collate(rows: list[tuple[list[int], list[int]]], pad: int) -> tuple[Tensor, Tensor]:
    """Return `(ids_BT, is_target_BT)`, padded on the right."""
    length = max(len(prompt) + len(answer) for prompt, answer in rows)
    ids_BT = torch.full((len(rows), length), pad)
    is_target_BT = torch.zeros(len(rows), length, dtype=torch.bool)
    for i, (prompt, answer) in enumerate(rows):
        end = len(prompt) + len(answer)
        ids_BT[i, :end] = torch.tensor(prompt + answer)
        is_target_BT[i, len(prompt) : end] = True
    return ids_BT, is_target_BT


def fit(model: Qwen3ForCausalLM, data: Iterator[tuple[Tensor, Tensor]], *, steps: int, learning_rate: float) -> None:
    """Train on the next `steps` batches: AdamW, linear warm-up over a tenth of the steps, then cosine decay."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    warm_up = max(1, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: min((i + 1) / warm_up, 0.5 * (1 + math.cos(math.pi * i / max(1, steps))))
    )
    model.train()
    began = time.monotonic()
    for i, (ids_BT, is_target_BT) in zip(range(steps), data, strict=False):
        loss = answer_loss(model, ids_BT, is_target_BT)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if (i + 1) % 50 == 0 or i + 1 == steps:
            print(f"step {i + 1}/{steps}  loss {loss.item():.4f}  {time.monotonic() - began:.0f} s", flush=True)
    model.eval()


def answer_loss(model: Qwen3ForCausalLM, ids_BT: Tensor, is_target_BT: Tensor) -> Tensor:
    """Return the mean cross-entropy of the answers' tokens; the prompt is only read."""
    hidden_BTD = model.model(input_ids=ids_BT, use_cache=False).last_hidden_state
    logits_NV = model.lm_head(hidden_BTD[:, :-1][is_target_BT[:, 1:]])
    return functional.cross_entropy(logits_NV, ids_BT[:, 1:][is_target_BT[:, 1:]])


def save(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write the Hugging Face folder."""
    model.generation_config = GenerationConfig(
        do_sample=True, top_k=0, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def evaluate(
    model: Qwen3ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    *,
    problems: int,
    difficulty: int = DEFAULT_DIFFICULTY,
    split: Split = "test",
) -> dict[str, float]:
    """Return what the model can do at temperature 1 as drafter and as challenger of its own drafts."""
    contests = [DraftChallenge(Arithmetic(split=split, difficulty=difficulty)) for _ in range(problems)]
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
