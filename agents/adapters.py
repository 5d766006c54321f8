"""The adapters of one frozen model: the only file that touches PEFT's adapter state.

PEFT's own switches are slow (they walk every module and set `requires_grad`, about 50 ms on 36 layers) and
have side effects: `set_adapter` freezes the adapters that it leaves, `disable_adapter` unfreezes the active
one on exit. Here every adapter stays trainable all the time and a switch sets two plain attributes on each
LoRA layer, which is what PEFT's forward reads. Where these attributes are missing, the public calls are used
and `requires_grad` is put back.

The layers keep PEFT's parameters and their names. Only the way they multiply is replaced (see `agents.lora`), where
that comes to the same.
"""

from __future__ import annotations

import copy
import hashlib
import re
import threading
import types
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import Linear as LoraLinear
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn
from transformers import PreTrainedModel

from agents.adapter_files import AdapterSpec, read_folder, write_folder
from agents.errors import AdapterError, AdapterMismatch, AdapterSwitched
from agents.lora import LoraWeights, lora_linear

BASE = "base"
"""The name of no adapter at all: the frozen model itself."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_TOWERS = re.compile(r"(^|\.)(embed_)?(vision|visual|audio)")
"""Parts of multimodal models that never see text."""


class Adapters:
    """Named LoRA adapters on one frozen model, of which at most one is active."""

    def __init__(self, model: PreTrainedModel) -> None:
        """Freeze `model` (a Hugging Face causal language model) and watch its backward passes."""
        self.model = model
        self.peft: PeftModel | None = None
        self._layers: list[LoraLayer] = []
        self._parameters: dict[str, dict[str, nn.Parameter]] = {}
        self._fast = True
        self._lock = threading.RLock()
        model.requires_grad_(False)
        _decoder(model).register_forward_hook(self._watch)

    # --- which adapters there are -------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The adapters, in the order in which they were added."""
        return tuple(self._parameters)

    def add(self, name: str, spec: AdapterSpec, *, seed: int) -> None:
        """Add a trainable adapter that starts as the identity: A is random by `seed`, B is 0.

        The weights are float32 whatever the base is. The global random generators are left alone.

        Raises:
            AdapterError: the name is taken or can't be used.
        """
        self._check_new(name)
        config = LoraConfig(
            r=spec.rank,
            lora_alpha=spec.rank if spec.alpha is None else spec.alpha,  # type: ignore[arg-type]  # a float will do
            target_modules=self._targets(spec.target_modules),
            lora_dropout=0.0,
            bias="none",
            task_type="CAUSAL_LM",
        )
        with self._lock, torch.random.fork_rng(devices=self._cuda_devices()), warnings.catch_warnings():
            # PEFT asks the model in a way that transformers has renamed.
            warnings.filterwarnings("ignore", message=".is_gradient_checkpointing. is deprecated", category=FutureWarning)
            active, flags = self.active, self._flags()
            if self.peft is None:
                self.peft = get_peft_model(self.model, config, adapter_name=name)
            else:
                self.peft.add_adapter(name, config)
            self._layers = self._lora_layers()
            own = re.compile(rf"\.lora_\w+\.{re.escape(name)}(\.|$)")
            self._parameters[name] = {key: p for key, p in self.model.named_parameters() if own.search(key)}
            self._fast = self._can_switch_fast()
            if self._fast:
                _make_lean(self._layers)
            self._select(active)
            _restore(flags)
            for parameter in self._parameters[name].values():
                parameter.requires_grad_(True)
        try:
            self.reset(name, seed=seed)
        except BaseException:
            self.remove(name)
            raise

    def remove(self, name: str) -> None:
        """Take an adapter out of the model; its name is free again. The active one can't be removed."""
        self._known(name)
        with self._lock:
            active = self.active
            if name == active:
                raise AdapterError(f"the adapter {name!r} is in use; remove it after its `with base.use({name!r}):` block")
            assert self.peft is not None
            del self._parameters[name]
            flags = self._flags()
            if self._parameters:
                with warnings.catch_warnings():  # PEFT tells which adapter it takes instead; none, as `_select` sees to
                    warnings.simplefilter("ignore")
                    self.peft.delete_adapter(name)
            else:
                self.peft.unload()
                self.peft = None
            self._layers = self._lora_layers()
            self._select(active)
            _restore(flags)

    def parameters(self, name: str) -> list[nn.Parameter]:
        """Return the parameters of one adapter: always the same objects, in the same order."""
        return list(self._known(name).values())

    def named_parameters(self, name: str) -> dict[str, nn.Parameter]:
        """Return the parameters of one adapter by their names in the model."""
        return dict(self._known(name))

    def reset(self, name: str, *, seed: int) -> None:
        """Put an adapter back to what `add` makes of `seed`."""
        self._known(name)
        with torch.random.fork_rng(devices=self._cuda_devices()), torch.no_grad():
            torch.manual_seed(seed)
            for layer in self._layers:
                layer.reset_lora_parameters(name, init_lora_weights=True)

    # --- which one is active ------------------------------------------------------------------------

    @property
    def active(self) -> str | None:
        """The adapter that a forward pass uses now; None for the bare model. Read from PEFT's own state."""
        if not self._layers or self._layers[0].disable_adapters:
            return None
        (name,) = self._layers[0].active_adapters
        return name

    @contextmanager
    def use(self, name: str | None) -> Iterator[None]:
        """Run the block with one adapter; None or "base" is the bare model. Nests, and puts back what was.

        A forward pass and its backward pass belong into the same block; a backward pass that meets another
        adapter raises `AdapterSwitched`. Other threads wait until the block ends.
        """
        wanted = None if name in (None, BASE) else name
        if wanted is not None:
            self._known(wanted)
        with self._lock:
            before = self.active
            self._select(wanted)
            try:
                yield
            finally:
                self._select(before)

    # --- files --------------------------------------------------------------------------------------

    def save(self, name: str, folder: str | Path) -> None:
        """Write one adapter to its own folder, in the layout that `PeftModel.from_pretrained` loads.

        The folder is complete or absent.
        """
        tensors = {key: tensor.detach().cpu().contiguous().clone() for key, tensor in self.state(name).items()}
        write_folder(folder, tensors, self._saved_config(name))

    def load(self, name: str, folder: str | Path) -> None:
        """Read the weights of an adapter from a folder that `save` or PEFT wrote.

        Raises:
            AdapterMismatch: the folder holds no adapter, or one of another shape; nothing is changed.
        """
        tensors, saved = read_folder(folder)
        config = self._peft_config(name)
        for field in ("r", "lora_alpha"):
            if saved[field] != getattr(config, field):
                raise AdapterMismatch(
                    f"the adapter in {folder} has {field}={saved[field]}, but {name!r} has {getattr(config, field)}"
                )
        expected = self.state(name)
        if missing := sorted(expected.keys() - tensors.keys()):
            raise AdapterMismatch(f"the adapter in {folder} lacks {len(missing)} tensors of {name!r}, for example {missing[0]}")
        if unknown := sorted(tensors.keys() - expected.keys()):
            raise AdapterMismatch(
                f"the adapter in {folder} has {len(unknown)} tensors that {name!r} lacks, for example {unknown[0]}"
            )
        for key, tensor in tensors.items():
            if tensor.shape != expected[key].shape:
                raise AdapterMismatch(
                    f"{key} in {folder} has the shape {tuple(tensor.shape)}, not {tuple(expected[key].shape)}"
                )
        with torch.no_grad():
            for key, tensor in tensors.items():
                expected[key].copy_(tensor)

    def state(self, name: str) -> dict[str, Tensor]:
        """Return the tensors of one adapter under PEFT's names for files, which do not hold the adapter's name."""
        own = re.compile(rf"(\.lora_\w+)\.{re.escape(name)}(?=\.|$)")
        return {f"base_model.model.{own.sub(lambda match: match[1], key)}": p.data for key, p in self._known(name).items()}

    # --- what it costs ------------------------------------------------------------------------------

    def spec(self, name: str) -> AdapterSpec:
        """Return the shape of one adapter."""
        config = self._peft_config(name)
        targets = config.target_modules
        return AdapterSpec(config.r, config.lora_alpha, targets if isinstance(targets, str) else tuple(sorted(targets)))

    def rank(self, name: str) -> int:
        """Return the rank of one adapter."""
        return self._peft_config(name).r

    def count(self, name: str) -> int:
        """Return how many parameters one adapter has."""
        return sum(parameter.numel() for parameter in self._known(name).values())

    def overhead(self, name: str) -> float:
        """Return the memory of one adapter as a share of the base model's. Works on the meta device too."""
        adapter = sum(parameter.nbytes for parameter in self._known(name).values())
        return adapter / sum(tensor.nbytes for tensor in self._base_tensors().values())

    def base_checksum(self) -> str:
        """Return a SHA-256 over every weight of the frozen model; the same before and after adapters are added."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self._base_tensors().items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    # --- how it works -------------------------------------------------------------------------------

    def _select(self, name: str | None) -> None:
        if not self._layers:
            return
        if self._fast:
            # Past `nn.Module.__setattr__`, which looks through parameters, buffers and modules first.
            state: dict[str, Any] = {"_disable_adapters": name is None} | ({} if name is None else {"_active_adapter": [name]})
            for layer in self._layers:
                vars(layer).update(state)
            return
        tuner: Any = self.peft.base_model if self.peft is not None else None
        flags = self._flags()
        if name is None:
            tuner.disable_adapter_layers()
        else:
            tuner.set_adapter(name)
            tuner.enable_adapter_layers()
        _restore(flags)

    def _lora_layers(self) -> list[LoraLayer]:
        return [module for module in self.model.modules() if isinstance(module, LoraLayer)]

    def _flags(self) -> list[tuple[nn.Parameter, bool]]:
        return [(parameter, parameter.requires_grad) for group in self._parameters.values() for parameter in group.values()]

    def _can_switch_fast(self) -> bool:
        """Return whether PEFT still keeps its state where the fast switch writes it."""
        layer = self._layers[0]
        if not (hasattr(layer, "_active_adapter") and hasattr(layer, "_disable_adapters")):
            return False
        before = layer._active_adapter, layer._disable_adapters
        layer._active_adapter, layer._disable_adapters = ["probe"], True
        heard = layer.active_adapters == ["probe"] and layer.disable_adapters
        layer._active_adapter, layer._disable_adapters = before
        return heard

    def _watch(self, _module: nn.Module, _args: Any, output: Any) -> None:
        """Tie the output of a forward pass to the adapter that made it."""
        hidden = output[0] if not isinstance(output, Tensor) else output
        if not hidden.requires_grad:
            return
        used = self.active

        def check(_gradient: Tensor) -> None:
            if self.active != used:
                raise AdapterSwitched(
                    f"a forward pass ran with {used or BASE!r}, but its backward pass meets {self.active or BASE!r}; "
                    f"run both in the same `with base.use({used!r}):` block",
                )

        hidden.register_hook(check)

    def _known(self, name: str) -> dict[str, nn.Parameter]:
        if name not in self._parameters:
            there_are = ", ".join(self._parameters) or "none yet"
            raise AdapterError(f"there is no adapter {name!r}; there are: {there_are}. Add one with base.policy({name!r})")
        return self._parameters[name]

    def _check_new(self, name: str) -> None:
        if name in self._parameters:
            raise AdapterError(f"there is an adapter {name!r} already; choose another name, or reset it")
        if name in (BASE, "default"):
            raise AdapterError(f"{name!r} can't name an adapter: PEFT and this library give it a meaning of its own")
        # PEFT keeps adapters in an nn.ModuleDict and finds their tensors by name within dotted paths.
        in_paths = {part for path, _ in self.model.named_parameters() for part in path.split(".")}
        if not _NAME.fullmatch(name) or name.startswith("lora_") or name in in_paths or hasattr(nn.ModuleDict, name):
            raise AdapterError(f"{name!r} can't name an adapter; take letters, digits, '-' and '_', for example \"alice\"")

    def _targets(self, target_modules: str | Sequence[str]) -> str | list[str]:
        """Return what PEFT is to adapt; "all-linear" leaves out the parts that never see text."""
        if isinstance(target_modules, str):
            has_towers = any(_TOWERS.search(name) for name, _ in self.model.named_modules())
            if target_modules != "all-linear" or not has_towers:
                return target_modules
            head = self.model.get_output_embeddings()
            return [
                name.replace(".base_layer", "")
                for name, module in self.model.named_modules()
                if isinstance(module, nn.Linear) and module is not head and not _TOWERS.search(name) and ".lora_" not in name
            ]
        return list(target_modules)

    def _peft_config(self, name: str) -> Any:
        self._known(name)
        assert self.peft is not None
        return self.peft.peft_config[name]

    def _saved_config(self, name: str) -> LoraConfig:
        config = copy.copy(self._peft_config(name))
        config.inference_mode = True
        if isinstance(config.target_modules, set):
            config.target_modules = sorted(config.target_modules)  # a set is written in an order of its own each time
        return config

    def _base_tensors(self) -> dict[str, Tensor]:
        adapted = {id(parameter) for group in self._parameters.values() for parameter in group.values()}
        tensors: dict[str, Tensor] = {name: p for name, p in self.model.named_parameters() if id(p) not in adapted}
        tensors |= dict(self.model.named_buffers())
        return {name.replace(".base_layer", ""): tensor for name, tensor in tensors.items()}

    def _cuda_devices(self) -> list[torch.device]:
        return sorted({p.device for p in self.model.parameters() if p.device.type == "cuda"}, key=str)


def _make_lean(layers: Sequence[LoraLayer]) -> None:
    """Have plain LoRA layers multiply by `_lean_forward`; those of other kinds keep PEFT's way."""
    for layer in layers:
        if type(layer) is LoraLinear and type(layer.get_base_layer()) is nn.Linear:
            layer.forward = types.MethodType(_lean_forward, layer)  # type: ignore[method-assign]


def _lean_forward(layer: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return what PEFT's `forward` of a LoRA layer returns, which is asked itself in all but the usual case."""
    weights = None if args or kwargs or x.dim() < 2 else weights_for(layer, x)
    return LoraLinear.forward(layer, x, *args, **kwargs) if weights is None else lora_linear(x, weights)


def weights_for(module: nn.Module, x: Tensor) -> LoraWeights | None:
    """Return what a linear layer, adapted or not, multiplies `x` by under the adapter that is active.

    Returns:
        None where the usual product is not all there is to it: the layer is of another kind, its weights are trained or
        of another type, several adapters are active or one is merged.
    """
    layer: Any = module
    base = layer.base_layer if type(layer) is LoraLinear else layer
    if type(base) is not nn.Linear or torch.is_autocast_enabled(x.device.type):
        return None
    weight, bias = base.weight, base.bias
    if weight.requires_grad or (bias is not None and bias.requires_grad) or weight.dtype != x.dtype:
        return None
    if base is layer:
        return LoraWeights(weight, bias)
    if layer.merged_adapters or len(layer._active_adapter) != 1:
        return None
    (name,) = layer._active_adapter
    if layer._disable_adapters or name not in layer.lora_A:
        return LoraWeights(weight, bias)
    a, b = layer.lora_A[name].weight, layer.lora_B[name].weight
    return LoraWeights(weight, bias, (a, b), layer.scaling[name]) if a.dtype == x.dtype else None


def _restore(flags: list[tuple[nn.Parameter, bool]]) -> None:
    for parameter, requires_grad in flags:
        parameter.requires_grad_(requires_grad)


def _decoder(model: PreTrainedModel) -> nn.Module:
    """Return the part of the model whose output every gradient passes through, whoever computes the logits."""
    decoder = model.get_decoder()
    return decoder if isinstance(decoder, nn.Module) else model
