"""Sixty configs of runs that can't be, and what is said of each; every message names the field.

`CONFIGS` is name → (a record as a config file has it, what the message says). `LATE` need the model, or the contest.
"""

from __future__ import annotations

from typing import Any

NAN, INF = float("nan"), float("inf")
_FEW = {"threads": 1, "problems": 2, "group_size": 2, "steps": 1, "eval_problems": 0}

CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    # out of range
    "no problems": ({"problems": 0}, "problems must be at least 1, not 0"),
    "negative steps": ({"steps": -1}, "steps must be at least 0, not -1"),
    "10,000 threads": ({"threads": 10_000}, "threads must be at most .*, not 10,000"),
    "negative threads": ({"threads": -1}, "threads must be at least 0"),
    "a million drafts of a million problems": ({"problems": 10**6, "group_size": 10**6}, "problems × group_size × answers"),
    "10^12 problems": ({"problems": 10**12}, "problems must be at most 1,000,000"),
    "no answers": ({"answers": 0}, "answers must be at least 1"),
    "no tokens": ({"max_tokens": 0}, "max_tokens must be at least 1"),
    "10^18 tokens": ({"max_tokens": 10**18}, "max_tokens must be at most"),
    "rank 0": ({"lora_rank": 0}, "lora_rank must be at least 1"),
    "rank 10^9": ({"lora_rank": 10**9}, "lora_rank must be at most 8,192"),
    "alpha 0": ({"lora_alpha": 0}, "lora_alpha must be at least 1"),
    "a negative seed": ({"seed": -1}, "seed must be at least 0"),
    "a seed of 40 digits": ({"seed": 10**40}, "seed must be at most"),
    "no checkpoints": ({"checkpoint_every": 0}, "checkpoint_every must be at least 1"),
    "no checkpoint kept": ({"keep_checkpoints": 0}, "keep_checkpoints must be at least 1"),
    "negative transcripts": ({"keep_transcripts": -1}, "keep_transcripts must be at least 0"),
    "no rows": ({"max_rows": 0}, "max_rows must be at least 1"),
    "a league of one": ({"league_size": 1}, "league_size must be at least 2"),
    "an empty pool": ({"pool_size": 0}, "pool_size must be at least 1"),
    "no ranks": ({"ranks": 0}, "ranks must be at least 1"),
    "a group of one": ({"group_size": 1}, "a group needs two turns to compare"),
    "no share": ({"opponent": "base", "opponent_share": 0.0}, "opponent_share must be above 0"),
    "a share of 2": ({"opponent_share": 2.0}, "opponent_share must be above 0 and at most 1"),
    "a share of no problem": ({"opponent": "base", "opponent_share": 0.01}, "opponent_share=0.01 of 8 problems is none"),
    "temperature 0": ({"temperature": 0.0}, "temperature must be at least 0.001"),
    "a negative temperature": ({"temperature": -1.0}, "temperature must be at least"),
    "no time for agents": ({"agent_timeout": 0.0}, "agent_timeout must be above 0"),
    # not a number
    "temperature NaN": ({"temperature": NAN}, "temperature must be a finite number, not nan"),
    "an infinite learning rate": ({"optim": {"learning_rate": INF}}, "^optim.learning_rate must be a finite number"),
    "a NaN in betas": ({"optim": {"betas": [0.9, NAN]}}, "^optim.betas"),
    # of another type
    "steps in words": ({"steps": "ten"}, "steps must be a whole number, not 'ten'"),
    "half a problem": ({"problems": 1.5}, "problems must be a whole number"),
    "yes as a number": ({"problems": True}, "problems must be a whole number, not True"),
    "null": ({"seed": None}, "seed must be a whole number, not None"),
    "a list for a text": ({"env": ["ArithmeticDuel-v0"]}, "env must be a text"),
    "an object for a number": ({"steps": {"value": 3}}, "steps must be a whole number"),
    "options as an object": ({"env_options": {"difficulty": 3}}, "env_options must be a list of values"),
    "a section that is a number": ({"optim": 3}, "optim must be a mapping"),
    "a choice that is none": ({"normalize": "both"}, "normalize must be one of 'std', 'mean'"),
    "the whole is a list": ([], "must be a mapping"),  # type: ignore[dict-item]
    # in a section
    "a negative learning rate": ({"optim": {"learning_rate": -1.0}}, "^optim.learning_rate must be a number ≥ 0"),
    "no epochs": ({"optim": {"epochs": 0}}, "^optim.epochs must be at least 1"),
    "betas of 1": ({"optim": {"betas": [0.9, 1.0]}}, r"^optim.betas must be in \[0, 1\)"),
    "an unknown schedule": ({"optim": {"schedule": "sine"}}, "optim.schedule must be one of"),
    "a loss that is none": ({"loss": {"loss_type": "hinge"}}, "loss.loss_type must be one of"),
    "a negative KL": ({"loss": {"kl_coef": -0.1}}, "^loss.kl_coef"),
    "guards that allow less than nothing": ({"guards": {"most_skipped": 0}}, "^guards.most_skipped must be at least 1"),
    # names
    "a field that is none": ({"learning_rate": 1e-3}, "no field 'learning_rate'.*Did you mean .*'optim.learning_rate'"),
    "an algorithm that is none": ({"algorithm": "magic"}, "algorithm must be one of"),
    "an algorithm of a module that is none": ({"algorithm": "nowhere:Thing"}, "nowhere:Thing.*can't be imported"),
    "an opponent that is none": ({"opponent": "nobody"}, "opponent must be"),
    "an option without a value": ({"env_options": ["difficulty"]}, "a contest option is name=value"),
    "a folder above": ({"name": "../elsewhere"}, "name must be that of a folder"),
    "a name with NUL": ({"name": "a\0b"}, "name must be that of a folder"),
    "no model": ({"model": ""}, "model must be a text that is not empty"),
    "a key in a URL": (
        {"opponent": "agent:openai:m@https://me:hunter2secret@host/v1"},
        "opponent holds what looks like a password",
    ),
    # without effect
    "rloo normalises nothing": ({"algorithm": "rloo", "normalize": "mean"}, "normalize='mean' has no effect with rloo"),
}
LATE: dict[str, tuple[dict[str, Any], str]] = {
    "more tokens than the context": (_FEW | {"max_tokens": 10**6}, "max_tokens must be at most .*the context of embedded"),
    "an option that the contest lacks": (_FEW | {"env_options": ["colour=red"]}, "colour"),
}
