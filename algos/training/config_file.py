"""A run in one file: `TrainConfig` as YAML or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from algos.config import TrainConfig
from algos.errors import ConfigError
from algos.training.overlay import overlay
from algos.training.run_folder import write_text


def read_config_file(path: Path, *, default: TrainConfig) -> TrainConfig:
    """Return `default` with the fields that the file names.

    Args:
        path: YAML, of which JSON is a part; the `config.json` of a run is such a file.
        default: gives the fields that the file leaves out.

    Raises:
        FileNotFoundError: there is no such file.
        ConfigError: it can't be read, names a field that does not exist, or gives one a value that it can't have.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no config file {path}")
    try:
        record = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: such as the 45th of a month
        raise ConfigError(f"{path} is neither YAML nor JSON: {error}") from error
    try:
        return overlay(default, {} if record is None else record)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def write_config_file(config: TrainConfig, path: Path) -> None:
    """Write every field of `config`; the ending of the name says whether as JSON or as YAML.

    Raises:
        ConfigError: the name ends in something else.
    """
    record: Mapping[str, Any] = config.to_dict()
    if path.suffix == ".json":
        text = json.dumps(record, indent=2) + "\n"
    elif path.suffix in (".yaml", ".yml"):
        text = yaml.safe_dump(record, sort_keys=False, allow_unicode=True)
    else:
        raise ConfigError(f"a config is written as .yaml or .json, which {str(path)!r} does not say")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
