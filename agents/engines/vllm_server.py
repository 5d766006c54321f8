r"""A vLLM server elsewhere, as the sampler of a base; it is spoken to by HTTP, and vllm need not be installed here.

Start it so that adapters can be changed while it runs, and with log-probabilities at the sampling temperature:

    VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 VLLM_SERVER_DEV_MODE=1 python -m vllm.entrypoints.openai.api_server --model MODEL \
        --enable-lora --max-loras 4 --max-cpu-loras 4 --max-lora-rank 32 \
        --logprobs-mode processed_logprobs --generation-config vllm

It reads adapters from the folder that this process writes them to, so both must see the same file system.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from agents.engines.canary import Reading
from agents.engines.served import ServedAdapter, ServedRow
from agents.engines.vllm import COMMON
from agents.errors import ServerFailed
from agents.sampling import Completion

if TYPE_CHECKING:
    from agents.shared_base import SharedBase

NEUTRAL: dict[str, Any] = {
    **COMMON,
    "bad_words": [],
    "add_special_tokens": False,
    "stream": False,
    "echo": False,
    "return_token_ids": True,
    "return_tokens_as_token_ids": True,
}
"""Fields of a request that would change what is sampled or told, each set: an unset one may come from the model's files."""
BLOCK = 128
"""At least as many tokens as a block of the server's prefix cache has."""


class VLLMServer:
    """A `Backend` behind a URL."""

    block = BLOCK

    def __init__(self, base: SharedBase, url: str, *, at_once: int = 256, timeout: float = 600.0) -> None:
        """Speak to a server.

        Args:
            base: the model that it must serve; the canary finds out whether it does.
            url: for example "http://localhost:8000"; it may end in "/v1".
            at_once: most requests that are under way.
            timeout: seconds to wait for one answer.

        Raises:
            ServerFailed: nobody answers, or the server's adapters can't be changed.
        """
        self._url, self._timeout = url.rstrip("/").removesuffix("/v1"), timeout
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="vllm")
        models = json.loads(self._call("/v1/models", None))["data"]
        self._held: set[str] = set()
        self._mark = uuid.uuid4().hex[:8]  # the server may hold what others have sent, or a run before this one
        self._model = next((model["id"] for model in models if not model.get("parent")), models[0]["id"])

    def load(self, adapter: ServedAdapter) -> None:
        """Have the server read an adapter."""
        self._call("/v1/load_lora_adapter", {"lora_name": self._name(adapter), "lora_path": str(adapter.folder)})
        self._held.add(self._name(adapter))

    def unload(self, adapter: ServedAdapter) -> None:
        """Have the server forget an adapter."""
        self._unload(self._name(adapter))

    def reset_cache(self) -> None:
        """Have the server forget all keys and values of prompts."""
        self._call("/reset_prefix_cache", {})

    def generate(self, rows: Sequence[ServedRow], *, temperature: float, eos_ids: frozenset[int]) -> list[Completion]:
        """Return one completion for each row."""

        def ask(row: ServedRow) -> Completion:
            choice = self._complete(
                row.prompt,
                row.adapter,
                temperature=temperature,
                seed=row.seed,
                max_tokens=row.max_tokens,
                stop_token_ids=sorted(eos_ids),
                logprobs=0,
            )
            return Completion(
                tuple(choice["token_ids"]),
                tuple(choice["logprobs"]["token_logprobs"]),
                "stop" if choice["finish_reason"] == "stop" else "length",
            )

        return list(self._pool.map(ask, rows))

    def next_logprobs(self, prompts: Sequence[Sequence[int]], adapter: ServedAdapter | None, *, top: int) -> Reading:
        """Return the log-probabilities of the likeliest next tokens after each prompt."""

        def ask(prompt: Sequence[int]) -> dict[int, float]:
            choice = self._complete(prompt, adapter, temperature=0.0, seed=0, max_tokens=1, stop_token_ids=[], logprobs=top)
            (likeliest,) = choice["logprobs"]["top_logprobs"]
            return {int(token.removeprefix("token_id:")): logprob for token, logprob in likeliest.items()}

        return list(self._pool.map(ask, prompts))

    def rest(self) -> None:
        """Do nothing: the server's memory is its own."""

    def close(self) -> None:
        """Have the server forget what it still has of this run, if it is there."""
        with suppress(ServerFailed):
            for name in sorted(self._held):
                self._unload(name)
        self._pool.shutdown()

    def _unload(self, name: str) -> None:
        self._call("/v1/unload_lora_adapter", {"lora_name": name})
        self._held.discard(name)

    def _name(self, adapter: ServedAdapter) -> str:
        return f"{adapter.name}-{self._mark}"

    def _complete(self, prompt: Sequence[int], adapter: ServedAdapter | None, **asked: Any) -> dict[str, Any]:
        model = self._model if adapter is None else self._name(adapter)
        answer = json.loads(self._call("/v1/completions", {"model": model, "prompt": list(prompt), **NEUTRAL, **asked}))
        if answer["model"] != model:
            raise ServerFailed(f"{self._url} was asked for {model!r} and answered as {answer['model']!r}")
        choice: dict[str, Any] = answer["choices"][0]
        return choice

    def _call(self, path: str, body: dict[str, Any] | None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as response:
                found: bytes = response.read()
        except urllib.error.HTTPError as error:
            hint = ""
            if error.code == 404:
                hint = (
                    "; start it with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1, VLLM_SERVER_DEV_MODE=1 and --enable-lora, on a file "
                    "system on which it can read the adapters that are written here"
                )
            raise ServerFailed(
                f"{self._url}{path} answered {error.code}: {error.read().decode(errors='replace')[:500]}{hint}"
            ) from error
        except OSError as error:
            raise ServerFailed(f"{self._url}{path} does not answer: {error}") from error
        return found
