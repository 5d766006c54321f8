"""The policies of a run, each on its base: one base for all, or several models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agents.engines.tinker import TinkerEngine
from agents.policy import LLMPolicy
from agents.sampling import Engine, SamplingParams
from agents.shared_base import SharedBase
from algos.errors import ConfigError

if TYPE_CHECKING:
    from algos.config import TrainConfig

LEAST_PROMPT = 16
"""Tokens that are kept free for a prompt. Longer ones are cut to what there is, or refused, by `on_long_prompt`."""


def load_bases(config: TrainConfig, names: Sequence[str], engine: Engine) -> dict[str, SharedBase]:
    """Return policy → base; policies that name the same model share it.

    Raises:
        ConfigError: there are more models than policies, or one has no room for a prompt beside `max_tokens`.
    """
    models = policy_models(config, names)
    device = None if config.device == "auto" else config.device
    loaded = {
        model: engine.base(model) if isinstance(engine, TinkerEngine) else SharedBase.load(model, device=device, engine=engine)
        for model in dict.fromkeys(models.values())
    }
    for base in loaded.values():
        room = base.context_length - LEAST_PROMPT
        if config.max_tokens > room:
            raise ConfigError(
                f"max_tokens must be at most {room}, not {config.max_tokens}: the context of {base.name} has "
                f"{base.context_length} tokens, of which a prompt needs {LEAST_PROMPT} at least"
            )
    return {name: loaded[model] for name, model in models.items()}


def policy_models(config: TrainConfig, names: Sequence[str]) -> dict[str, str]:
    """Return policy → its base, as the config names it.

    Raises:
        ConfigError: there are more models than policies.
    """
    if len(config.rival_models) >= len(names):
        raise ConfigError(
            f"rival_models names {len(config.rival_models)} models beside {config.model!r}, but {config.algorithm} trains "
            f"{', '.join(names)}: leave some out, or take an algorithm that trains more policies"
        )
    models = [config.model, *config.rival_models]
    models += [config.model] * (len(names) - len(models))
    return dict(zip(names, models, strict=True))


def make_policy(
    base: SharedBase, name: str | None, config: TrainConfig, *, seed: int = 0, adapter: Path | None = None
) -> LLMPolicy:
    """Return a policy of a run: a new adapter, a saved one, or the bare base (`name` None)."""
    return base.policy(
        name,
        rank=config.lora_rank,
        alpha=config.lora_alpha,
        seed=seed,
        adapter=adapter,
        params=sampling_params(config),
        thinking=config.thinking,
        on_long_prompt=config.on_long_prompt,
    )


def sampling_params(config: TrainConfig) -> SamplingParams:
    """Return how the policies of a run sample, in training and in evaluation."""
    return SamplingParams(max_tokens=config.max_tokens, temperature=config.temperature)


def same_tokens(one: LLMPolicy, other: LLMPolicy) -> bool:
    """Return whether two policies read and write the same tokens, so that one can score what the other said."""
    if one.base is other.base:
        return True
    return one.base.tokenizer.get_vocab() == other.base.tokenizer.get_vocab() and one.base.eos_ids == other.base.eos_ids
