"""What a run's config may hold. Every message names the field and its range."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

from agents.sampling import MIN_TEMPERATURE
from algos.algorithm import Algorithm
from algos.algorithm_registry import owners
from algos.errors import ConfigError
from algos.playing.opponents import check_opponent
from algos.training.overlay import read_value
from algos.training.redaction import holds_secret

if TYPE_CHECKING:
    from algos.config import TrainConfig

MOST_THREADS = max(64, 4 * (os.cpu_count() or 1))
"""A processor gets no faster with more threads than it has cores; thousands of them never come to an end."""
MOST_CONTESTS = 1_000_000
"""Of one step; they are held in memory together."""

RANGES: Mapping[str, tuple[int, int]] = {
    "steps": (0, 10**9),
    "sample_budget": (0, 10**15),
    "problems": (1, MOST_CONTESTS),
    "group_size": (1, MOST_CONTESTS),
    "answers": (1, MOST_CONTESTS),
    "max_tokens": (1, 10**7),
    "max_rows": (1, 10**9),
    "lora_rank": (1, 8192),
    "lora_alpha": (1, 10**6),
    "opponents_per_step": (1, 10_000),
    "snapshot_every": (1, 10**9),
    "pool_size": (1, 10_000),
    "league_size": (2, 1000),
    "eval_problems": (0, 10**7),
    "eval_every": (0, 10**9),
    "seed": (0, 2**32 - 1),
    "checkpoint_every": (1, 10**9),
    "keep_checkpoints": (1, 10_000),
    "keep_transcripts": (0, 10**9),
    "threads": (0, MOST_THREADS),
    "ranks": (1, 1024),
}
"""Field → its least and greatest value."""

OF_ALGORITHMS = ("discount", "baseline_decay", "gamma", "lam", "whiten", "critic", "league_size", "matchmaking")
"""Fields that nobody reads but the algorithms that have them. (`swap_roles` is read by the judge too.)"""
OF_OPPONENTS: Mapping[str, str] = {
    "opponent_share": "an opponent",
    "opponents_per_step": "a pool",
    "snapshot_every": "a pool",
    "pool_size": "a pool",
}
"""Field → without what as `opponent` nobody reads it."""

_FOLDER = re.compile(r"(?!\.{1,2}$)[^/\\\0]{1,200}")


def check_config(config: TrainConfig) -> None:
    """Refuse a config that no run can have, before anything is loaded.

    Raises:
        ConfigError: the message names the field, its value and what it may be.
    """
    _check_types(config)
    _check_finite(config)
    for name, (least, most) in RANGES.items():
        value = getattr(config, name)
        if value is not None and value < least:
            raise ConfigError(f"{name} must be at least {least}, not {value}")
        if value is not None and value > most:
            raise ConfigError(f"{name} must be at most {most:,}, not {value:,}")
    contests = config.problems * config.group_size * config.answers
    if contests > MOST_CONTESTS:
        raise ConfigError(
            f"problems × group_size × answers must be at most {MOST_CONTESTS:,} contests in a step, not {contests:,}"
        )
    if not config.temperature >= MIN_TEMPERATURE:
        raise ConfigError(
            f"temperature must be at least {MIN_TEMPERATURE} to learn from what is sampled, not {config.temperature}"
        )
    if config.agent_timeout is not None and not config.agent_timeout > 0:
        raise ConfigError(f"agent_timeout must be above 0 seconds, or None to wait for ever, not {config.agent_timeout}")
    _check_opponent(config)
    _check_texts(config)


def check_settings(config: TrainConfig, algorithm: type[Algorithm]) -> None:
    """Refuse settings that would have no effect: those of other algorithms, and of opponents where there are none.

    Raises:
        ConfigError: the message names the field, its value, and what has it.
    """
    for name, default in idle_settings(type(config), algorithm).items():
        others = ", ".join(owners(name)) if name in OF_ALGORITHMS else ""
        _check_idle(name, getattr(config, name), default, f"{config.algorithm}{f', only with {others}' if others else ''}")
    kind = config.opponent.partition(":")[0]
    for name, needed in OF_OPPONENTS.items():
        if kind != "pool" and (needed == "a pool" or kind == "rival"):
            example = "pool:uniform" if needed == "a pool" else "base"
            where = f'opponent="{config.opponent}", only with {needed} such as "{example}"'
            _check_idle(name, getattr(config, name), _default(type(config), name), where)


def idle_settings(kind: type[TrainConfig], algorithm: type[Algorithm]) -> dict[str, Any]:
    """Return the fields of a config that have no effect with an algorithm, each with its default."""
    idle = [*algorithm.ignores, *(name for name in OF_ALGORITHMS if not algorithm.takes(name))]
    return {name: _default(kind, name) for name in idle}


def _check_idle(name: str, value: Any, default: Any, where: str) -> None:
    if is_dataclass(default):
        for field in fields(default):
            _check_idle(f"{name}.{field.name}", getattr(value, field.name), getattr(default, field.name), where)
    elif value != default:
        raise ConfigError(f"{name}={value!r} has no effect with {where}: leave it at {default!r}")


def _default(kind: type[TrainConfig], name: str) -> Any:
    field = kind.__dataclass_fields__[name]
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _check_opponent(config: TrainConfig) -> None:
    check_opponent(config.opponent)
    if not 0 < config.opponent_share <= 1:
        raise ConfigError(
            f'opponent_share must be above 0 and at most 1, not {config.opponent_share}; for none: opponent="rival"'
        )
    if config.opponent != "rival" and not round(config.opponent_share * config.problems):
        raise ConfigError(
            f"opponent_share={config.opponent_share} of {config.problems} problems is none: raise one of them, or set "
            'opponent="rival"'
        )


def _check_texts(config: TrainConfig) -> None:
    if config.name and not _FOLDER.fullmatch(config.name):
        raise ConfigError(f"name must be that of a folder, without / and at most 200 characters, not {config.name[:300]!r}")
    for name in ("output_dir", "model", "env", "device"):
        value = getattr(config, name)
        if not value or "\0" in value:
            raise ConfigError(f"{name} must be a text that is not empty and holds no NUL, not {value!r}")
    for name, value in _leaves(config):
        if isinstance(value, str) and holds_secret(value):
            raise ConfigError(
                f"{name} holds what looks like a password or a key, and a run's config is written to its folder: give it by an "
                "environment variable"
            )


def _check_types(config: Any, *, within: str = "") -> None:
    hints = get_type_hints(type(config))
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(hints[field.name]):
            if not isinstance(value, hints[field.name]):
                raise ConfigError(f"{field.name} must be a {hints[field.name].__name__}, not {value!r}")
            _check_types(value, within=f"{within}{field.name}.")
        else:
            read_value(hints[field.name], value, within + field.name)


def _check_finite(config: Any) -> None:
    """Refuse numbers that are infinite or NaN, wherever they are: a run's config is kept as JSON, which has no such."""
    for name, value in _leaves(config):
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{name} must be a finite number, not {value}")


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every plain value in a config with the name of its field, for example `optim.betas`."""
    if is_dataclass(value):
        for field in fields(value):
            yield from _leaves(getattr(value, field.name), f"{name}.{field.name}" if name else field.name)
    elif isinstance(value, tuple):
        for item in value:
            yield from _leaves(item, name)
    else:
        yield name, value
