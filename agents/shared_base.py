"""`SharedBase`: one frozen language model that any number of policies share, each with its own adapter."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agents.adapter_files import AdapterSpec, read_spec
from agents.adapters import BASE, Adapters
from agents.engines.torch import TorchEngine
from agents.loading import eos_token_ids, load_model
from agents.policy import LLMPolicy
from agents.sampling import Engine, SamplingParams

if TYPE_CHECKING:
    import torch
    from torch import nn
    from transformers import PreTrainedModel


class SharedBase:
    """A frozen model with its tokenizer, its adapters and the policies made of them.

    Example:
        ```python
        base = SharedBase.load("embedded")
        alice, bob = base.policy("alice"), base.policy("bob")
        with base.use("alice"):  # forward and backward of alice's batch
            ...
        ```
    """

    def __init__(self, model: PreTrainedModel, tokenizer: Any, *, engine: Engine | None = None, name: str = "model") -> None:
        """Freeze a model and share it.

        Args:
            model: a Hugging Face causal language model; it is frozen and put in evaluation mode.
            tokenizer: its tokenizer.
            engine: what generates tokens for its policies; default: `TorchEngine()`.
            name: what it is called in messages.
        """
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.engine: Engine = engine if engine is not None else TorchEngine()
        self.name = name
        self.adapters = Adapters(model)
        self.eos_ids: frozenset[int] = eos_token_ids(model, tokenizer)
        config = model.config.get_text_config()
        self.context_length: int = config.max_position_embeddings

    @classmethod
    def load(
        cls,
        source: str | Path,
        *,
        dtype: str | torch.dtype | None = None,
        device: str | torch.device | None = None,
        chat_template: str | None = None,
        revision: str | None = None,
        trust_remote_code: bool = False,
        engine: Engine | None = None,
    ) -> SharedBase:
        """Load a model and share it; see `agents.loading.load_model` for the arguments."""
        model, tokenizer = load_model(
            source,
            dtype=dtype,
            device=device,
            chat_template=chat_template,
            revision=revision,
            trust_remote_code=trust_remote_code,
        )
        return cls(model, tokenizer, engine=engine, name=str(source))

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.device

    @property
    def dtype(self) -> torch.dtype:
        """What the model computes in."""
        return self.model.dtype

    # --- policies -----------------------------------------------------------------------------------

    def policy(
        self,
        name: str | None = None,
        *,
        rank: int = 32,
        alpha: float | None = None,
        target_modules: str | tuple[str, ...] = "all-linear",
        seed: int | None = None,
        adapter: str | Path | None = None,
        params: SamplingParams | None = None,
        engine: Engine | None = None,
        thinking: bool | None = None,
        on_long_prompt: Literal["error", "cut"] = "error",
    ) -> LLMPolicy:
        """Return a player: a new trainable adapter, or the bare base.

        Args:
            name: names the adapter; None or "base" is the frozen model without any.
            rank: of the LoRA factors.
            alpha: the update is scaled by alpha / rank; None is the rank, so that it is not.
            target_modules: what is adapted.
            seed: of the adapter's start and of the player's stream of samples. Default: follows from the name,
                so that two policies do not start alike.
            adapter: a folder with a saved adapter; its rank, alpha and targets take the place of those given here.
            params: how it samples.
            engine: what generates its tokens; default: the base's.
            thinking: see `LLMPolicy`.
            on_long_prompt: see `LLMPolicy`.

        Raises:
            AdapterError: the name is taken or can't be used.
            AdapterMismatch: `adapter` holds no adapter, or one of another model.
        """
        name = name or BASE
        seed = zlib.crc32(name.encode()) if seed is None else seed
        policy = LLMPolicy(
            self,
            name,
            params=params or SamplingParams(),
            engine=engine or self.engine,
            thinking=thinking,
            on_long_prompt=on_long_prompt,
            seed=seed,
        )
        if name != BASE:
            spec = AdapterSpec(rank, alpha, target_modules) if adapter is None else read_spec(adapter)
            self.adapters.add(name, spec, seed=seed)
        if name != BASE and adapter is not None:
            try:
                self.adapters.load(name, adapter)
            except BaseException:
                self.adapters.remove(name)
                raise
        return policy

    # --- adapters -----------------------------------------------------------------------------------

    def use(self, name: str | None) -> AbstractContextManager[None]:
        """Run a block with one adapter (None or "base": none); forward and backward belong into the same block."""
        return self.adapters.use(name)

    @property
    def active(self) -> str | None:
        """The adapter that a forward pass uses now; None for the bare model."""
        return self.adapters.active

    def parameters(self, name: str) -> list[nn.Parameter]:
        """Return the parameters of one adapter: always the same objects, in the same order; none for "base"."""
        return [] if name == BASE else self.adapters.parameters(name)

    def save(self, name: str, folder: str | Path) -> None:
        """Write one adapter to its own folder, in PEFT's layout, complete or not at all."""
        self.adapters.save(name, folder)

    def load_adapter(self, name: str, folder: str | Path) -> None:
        """Read the weights of an existing adapter from a folder."""
        self.adapters.load(name, folder)

    def reset(self, name: str, *, seed: int) -> None:
        """Put an adapter back to the start that `seed` gives."""
        self.adapters.reset(name, seed=seed)

    def checksum(self) -> str:
        """Return a SHA-256 over the frozen weights; it never changes."""
        return self.adapters.base_checksum()

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield what a banner says about the model and its adapters, as (what, value)."""
        parameters = list(self.model.parameters())
        trained = {id(p) for name in self.adapters.names for p in self.adapters.parameters(name)}
        count = sum(p.numel() for p in parameters if id(p) not in trained)
        yield "base", f"{self.name}: {count:,} parameters, frozen, {parameters[0].dtype} on {parameters[0].device}"
        if self.adapters.names:
            yield "adapters", "\n".join(map(self._adapter_fact, self.adapters.names))

    def _adapter_fact(self, name: str) -> str:
        adapters = self.adapters
        return (
            f"{name}: LoRA r={adapters.rank(name)}, {adapters.count(name):,} parameters, "
            f"{adapters.overhead(name):.1%} of the base's memory"
        )


def load_policy(
    source: str | Path,
    *,
    name: str | None = None,
    adapter: str | Path | None = None,
    params: SamplingParams | None = None,
    seed: int | None = None,
    thinking: bool | None = None,
    on_long_prompt: Literal["error", "cut"] = "error",
    **load_options: Any,
) -> LLMPolicy:
    """Return one player on a model of its own: what `agents.make("hf:SOURCE")` makes.

    Args:
        source: see `agents.loading.load_model`.
        name: of the adapter; default: "player" with a saved adapter, else the bare model.
        adapter: a folder with a saved adapter.
        params: see `SharedBase.policy`, as for the others.
        seed: of its samples.
        thinking: whether the chat template turns thinking on.
        on_long_prompt: what becomes of a prompt that is too long.
        **load_options: see `agents.loading.load_model`.
    """
    return SharedBase.load(source, **load_options).policy(
        name or ("player" if adapter is not None else None),
        adapter=adapter,
        params=params,
        seed=seed,
        thinking=thinking,
        on_long_prompt=on_long_prompt,
    )
