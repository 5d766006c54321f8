"""LoRA adapters as files, in PEFT's layout: their shape, their configuration, their weights."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peft import LoraConfig
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from agents.errors import AdapterMismatch

WEIGHTS_FILE = "adapter_model.safetensors"
CONFIG_FILE = "adapter_config.json"

_FREE_FIELDS = {
    # read into the spec, or their tensors show whether they fit
    *("r", "lora_alpha", "target_modules", "exclude_modules", "layers_to_transform", "layers_pattern"),
    # about training, or about the file
    *("lora_dropout", "inference_mode", "task_type", "base_model_name_or_path", "revision", "peft_version", "auto_mapping"),
    # about the start alone, or without effect while another field has its default
    *("loftq_config", "eva_config", "corda_config", "lora_ga_config", "megatron_core", "qalora_group_size"),
    # set by PEFT, by the kind of layer
    "fan_in_fan_out",
}
"""Fields of a saved configuration that may have any value."""
_STARTS = (True, False, "gaussian", "orthogonal", "eva")
"""Values of `init_lora_weights` that leave the base's weights alone."""


@dataclass(frozen=True)
class AdapterSpec:
    """The shape of a LoRA adapter. There is no dropout: old and new log-probabilities must agree."""

    rank: int = 32
    """Rank of the two factors."""
    alpha: float | None = None
    """The update is scaled by alpha / rank; None is the rank, so that it is not."""
    target_modules: str | tuple[str, ...] = "all-linear"
    """Names of the linear layers that are adapted; "all-linear" takes every one but the output head."""

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ValueError(f"the rank of an adapter must be at least 1, not {self.rank}")


def write_folder(folder: str | Path, tensors: Mapping[str, Tensor], config: LoraConfig) -> None:
    """Write an adapter that `PeftModel.from_pretrained` loads: complete or not at all, written aside and renamed."""
    folder = Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside, old = (folder.with_name(f".{folder.name}.{os.getpid()}.{end}") for end in ("new", "old"))
    for left_over in (aside, old):
        shutil.rmtree(left_over, ignore_errors=True)
    aside.mkdir()
    save_file(dict(tensors), aside / WEIGHTS_FILE, metadata={"format": "pt"})
    config.save_pretrained(str(aside))
    for path in aside.iterdir():
        _sync(path)
    if folder.exists():
        folder.rename(old)
    aside.rename(folder)
    _sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def read_folder(folder: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the configuration of a saved adapter.

    Raises:
        AdapterMismatch: the folder does not hold one, or one that is not plain LoRA, or not of numbers.
    """
    weights, config = Path(folder) / WEIGHTS_FILE, Path(folder) / CONFIG_FILE
    if not weights.is_file() or not config.is_file():
        raise AdapterMismatch(f"{folder} holds no adapter: it lacks {config.name if weights.is_file() else weights.name}")
    try:
        tensors, saved = load_file(weights), dict(json.loads(config.read_text(encoding="utf-8")))
    except (SafetensorError, ValueError, TypeError, RecursionError) as error:
        raise AdapterMismatch(f"the adapter in {folder} can't be read: {error}") from error
    checked = _checked_config(saved, folder)
    _check_tensors(tensors, checked["r"], folder)
    return tensors, checked


def read_spec(folder: str | Path) -> AdapterSpec:
    """Return the shape of a saved adapter."""
    tensors, config = read_folder(folder)
    targets = config["target_modules"]
    if isinstance(targets, str) and targets != "all-linear":
        # A pattern, which could be written to take for ever: what it has matched says the same.
        targets = sorted({name.removeprefix("base_model.model.").partition(".lora_")[0] for name in tensors})
    return AdapterSpec(
        rank=config["r"],
        alpha=config["lora_alpha"],
        target_modules=targets if isinstance(targets, str) else tuple(targets),
    )


def _checked_config(saved: dict[str, Any], folder: str | Path) -> dict[str, Any]:
    """Return a saved configuration with PEFT's defaults in its gaps, if the adapter is plain LoRA.

    Anything else would be computed otherwise than it was trained, without a sign: other scales for some layers,
    changed base weights, another kind of layer.
    """
    plain = LoraConfig().to_dict()
    config = {**plain, **saved}
    start = config.pop("init_lora_weights")
    odd = {field: value for field, value in config.items() if field not in _FREE_FIELDS and value != plain.get(field)}
    odd = {field: value for field, value in odd.items() if value or plain.get(field)}  # None, False and {} are alike
    if start not in _STARTS:
        odd["init_lora_weights"] = start
    if odd:
        field, value = next(iter(odd.items()))
        raise AdapterMismatch(
            f"the adapter in {folder} has {field}={value!r}, which plain LoRA does not; "
            "merge it into its base with PEFT, or train one without that option"
        )
    targets = config["target_modules"]
    if not targets:
        raise AdapterMismatch(f"the adapter in {folder} does not say which layers it adapts (target_modules)")
    named = targets if isinstance(targets, list) else [targets]
    fit = {
        "r": type(config["r"]) is int and config["r"] >= 1,
        "lora_alpha": type(config["lora_alpha"]) in (int, float) and 0 < config["lora_alpha"] < math.inf,
        "target_modules": all(isinstance(name, str) for name in named),
    }
    for field, fits in fit.items():
        if not fits:
            raise AdapterMismatch(f"the adapter in {folder} has {field}={config[field]!r}, which can't be")
    return config


def _check_tensors(tensors: Mapping[str, Tensor], rank: int, folder: str | Path) -> None:
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not bool(tensor.isfinite().all()):
            raise AdapterMismatch(f"{name} in {folder} holds what is no finite number; it was saved by a run that had diverged")
        if ".lora_A." in name and tensor.shape[:1] != (rank,):
            raise AdapterMismatch(f"{name} in {folder} has the shape {tuple(tensor.shape)}, but its config says r={rank}")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
