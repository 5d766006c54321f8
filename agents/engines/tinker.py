"""A base that is elsewhere, behind the Tinker API, with an adapter for each policy. The only file that imports tinker.

Here are its tokenizer and the names of its policies; weights, gradients and optimisers stay there, and only token ids,
numbers and names cross. Each policy has a training client; what samples it is a snapshot that is taken of its weights when
it is first sampled with after an update, so that no sampler can have an older version of them.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import torch

from agents.adapter_files import CONFIG_FILE, WEIGHTS_FILE
from agents.adapters import BASE
from agents.engines.served import luck_of, room_for
from agents.errors import AdapterError, DependencyNotInstalled, Error, ServerFailed
from agents.loading import load_tokenizer
from agents.policy import LLMPolicy
from agents.sampling import Completion, Request, SamplingParams

if TYPE_CHECKING:
    from agents.shared_base import SharedBase

PATIENCE = 3600.0
"""Seconds to wait for one answer; the client tries again by itself meanwhile where the service is busy or away."""


def answer(ask: Callable[[], Any], doing: str, *, patience: float = PATIENCE) -> Any:
    """Return what the service answers.

    Args:
        ask: asks, and returns a future of the tinker client, which tries again after 408, 409, 429, 5xx and lost connections,
            for five minutes.
        doing: what is asked for, for the message.
        patience: seconds.

    Raises:
        ServerFailed: it refused, lost the request, or was not heard of.
    """
    try:
        return ask().result(patience)
    except Error:  # of ours, out of a loss
        raise
    except TimeoutError as error:
        raise ServerFailed(f"{doing}: no answer of the Tinker service for {patience:.0f} s") from error
    except Exception as error:  # the client raises what it meets, ValueErrors among it
        hint = ""
        if getattr(error, "status_code", None) in (401, 403):
            hint = ". It refuses the key: set TINKER_API_KEY"
        raise ServerFailed(f"{doing}: the Tinker service failed, {type(error).__name__}: {error}{hint}") from error


class TinkerBase:
    """A model that a Tinker service has; for players and algorithms what a `SharedBase` is, without its weights."""

    device = torch.device("cpu")
    """Where the numbers are that come back."""
    dtype = torch.bfloat16
    """What the service computes in, as far as is known: its sampler and its learner are not equal to the last bit."""

    def __init__(self, model: str, *, url: str | None, engine: TinkerEngine) -> None:
        """Begin a session with the service.

        Args:
            model: its name there, which is also where the tokenizer is loaded from.
            url: of the service; None is the client's own choice ($TINKER_BASE_URL, else Thinking Machines').
            engine: samples for the policies.

        Raises:
            DependencyNotInstalled: the package tinker is missing.
            ServerFailed: there is no key.
            ModelNotFound: no tokenizer can be loaded.
        """
        try:
            import tinker
        except ModuleNotFoundError as error:
            raise DependencyNotInstalled('a remote learner needs the package tinker: pip install "agon-env[tinker]"') from error
        self.name, self.url, self.engine = model, url, engine
        self.tokenizer, self.eos_ids, self.context_length = load_tokenizer(model)
        self._service = tinker.ServiceClient(base_url=url)
        self._trainers: dict[str, Any] = {}
        self._samplers: dict[str, Any] = {}
        self._exports = 0

    def policy(
        self,
        name: str | None = None,
        *,
        rank: int = 32,
        alpha: float | None = None,
        seed: int | None = None,
        adapter: str | Path | None = None,
        params: SamplingParams | None = None,
        thinking: bool | None = None,
        on_long_prompt: Literal["error", "cut"] = "error",
    ) -> LLMPolicy:
        """Return a player: a new adapter at the service, or the bare base.

        Args:
            name: names it; None or "base" is the bare base.
            rank: of the adapter.
            alpha: is the service's own; what is given here is not sent.
            seed: of the adapter's start.
            adapter: refused: adapters can't be sent there.
            params: see `SharedBase.policy`, as for the others.
            thinking: whether the chat template turns thinking on.
            on_long_prompt: what becomes of a prompt that is too long.

        Raises:
            AdapterError: the name is taken, or a saved adapter is named.
            ServerFailed: the service does not make it.
        """
        name = name or BASE
        if adapter is not None:
            raise AdapterError(f"the adapter in {adapter} can't be sent to a Tinker service; train and play it here")
        if name in self._trainers:
            raise AdapterError(f"there is an adapter {name!r} already; choose another name")
        if name != BASE:
            make = self._service.create_lora_training_client
            self._trainers[name] = answer(
                lambda: make(base_model=self.name, rank=rank, seed=seed, train_unembed=False),
                f"a new adapter {name!r} on {self.name}",
            )
        return LLMPolicy(
            cast("SharedBase", self),  # as far as a player goes they are alike
            name,
            params=params or SamplingParams(),
            engine=self.engine,
            thinking=thinking,
            on_long_prompt=on_long_prompt,
            seed=seed or 0,
        )

    # --- what is there ------------------------------------------------------------------------------

    def trainer(self, name: str) -> Any:
        """Return the training client of a policy."""
        return self._trainers[name]

    def sampler(self, name: str) -> Any:
        """Return a sampling client of a policy's weights as they are now, or of the bare base."""
        if name not in self._samplers:
            if name == BASE:
                make = partial(self._service.create_sampling_client, base_model=self.name)
            else:
                make = self._trainers[name].save_weights_and_get_sampling_client
            self._samplers[name] = answer(make, f"a sampler of {name!r}")
        return self._samplers[name]

    def moved(self, name: str) -> None:
        """Forget the sampling client of a policy whose weights have changed."""
        self._samplers.pop(name, None)

    def resume(self, name: str, path: str) -> None:
        """Put a policy and its optimiser back to a state that the service has kept."""
        make = partial(self._service.create_training_client_from_state_with_optimizer, path)
        self._trainers[name] = answer(make, f"{name!r} as it was in {path}")
        self.moved(name)

    def save(self, name: str, folder: str | Path) -> None:
        """Have the service export an adapter, and bring it here.

        Raises:
            ServerFailed: it exports no PEFT adapter.
        """
        import tinker

        doing, place = f"the export of {name!r}", Path(folder)
        exported = answer(partial(self._trainers[name].save_weights_external, f"{name}-{self._exports}"), doing)
        self._exports += 1
        files = answer(lambda: tinker.RestClient(base_url=self.url).get_external_weights_urls(exported.path), doing).urls
        if missing := [file for file in (CONFIG_FILE, WEIGHTS_FILE) if file not in files]:
            raise ServerFailed(f"{doing}: the service has exported {sorted(files)}, without {missing[0]}")
        place.mkdir(parents=True, exist_ok=True)
        for file in (CONFIG_FILE, WEIGHTS_FILE):
            try:
                urllib.request.urlretrieve(files[file], place / file)
            except OSError as error:
                raise ServerFailed(f"{doing}: {file} can't be brought here: {error}") from error

    # --- what a run asks of any base ----------------------------------------------------------------

    def parameters(self, name: str) -> list[Any]:
        """Return nothing: the weights are elsewhere."""
        return []

    def load_adapter(self, name: str, folder: str | Path) -> None:
        """Do nothing: the service has the weights, and goes on from them with the optimiser (`resume`)."""

    def checksum(self) -> str:
        """Return the name that the service has for the base, which stands for its weights."""
        return f"tinker:{self.name}"

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield what a banner says, as (what, value)."""
        yield "base", f"{self.name}, at {self.url or 'the Tinker service'}"
        if self._trainers:
            yield "adapters", "\n".join(f"{name}: {trainer.model_id}" for name, trainer in self._trainers.items())


class TinkerEngine:
    """Samples at the service, all rows of a call at once."""

    def __init__(self, url: str | None = None) -> None:
        """Sample at the service behind `url`; None is the client's own choice."""
        self.url = url
        self.progress: Callable[[int, int], None] | None = None
        """Told, after every row, how many rows have ended and how many there are."""

    def base(self, model: str) -> SharedBase:
        """Return a model of the service."""
        return cast("SharedBase", TinkerBase(model, url=self.url, engine=self))

    def sample(
        self, policy: LLMPolicy, prompts: Sequence[Sequence[int]], params: SamplingParams, *, seeds: Sequence[int]
    ) -> list[Completion]:
        """Return one completion for each prompt; see `agents.sampling.Engine`."""
        return self.sample_many([Request(policy, prompts, params, seeds)])[0]

    def sample_many(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """Return the completions of several requests.

        Raises:
            PromptTooLong: a prompt fills the model's context.
            ServerFailed: the service does not answer, or not as it is known to.
        """
        asked = [list(_ask(request)) for request in requests]
        found: list[list[Completion]] = []
        rows, done = sum(map(len, asked)), 0
        for request, futures in zip(requests, asked, strict=True):
            found.append([])
            for future in futures:
                reply = answer(partial(lambda asked: asked, future), f"a completion of {request.policy.name!r}")
                found[-1].append(_completion(reply.sequences[0], request.policy))
                done += 1
                if self.progress is not None:
                    self.progress(done, rows)
        return found


def _ask(request: Request) -> Iterator[Any]:
    from tinker import ModelInput
    from tinker import SamplingParams as Asked

    base = request.policy.base
    sampler = cast(TinkerBase, base).sampler(request.policy.name)
    begun = request.begun or [0] * len(request.prompts)
    for prompt, seed, before in zip(request.prompts, request.seeds, begun, strict=True):
        asked = Asked(
            max_tokens=room_for(base, prompt, request.params),
            seed=luck_of(seed, before),
            stop=sorted(base.eos_ids),
            temperature=request.params.temperature,
            top_k=-1,
            top_p=1.0,
        )
        yield sampler.sample(ModelInput.from_ints(list(prompt)), num_samples=1, sampling_params=asked)


def _completion(sequence: Any, policy: LLMPolicy) -> Completion:
    tokens, logprobs = tuple(sequence.tokens), sequence.logprobs
    if logprobs is None or len(logprobs) != len(tokens):
        raise ServerFailed("the Tinker service gives no log-probability for each token that it samples")
    ended = sequence.stop_reason == "stop"
    if ended and (not tokens or tokens[-1] not in policy.base.eos_ids):
        raise ServerFailed(
            "the Tinker service has ended a completion without a token that ends one: it is another tokenizer, or another "
            "service, than is known here"
        )
    return Completion(tokens, tuple(logprobs), "stop" if ended else "length")
