"""`Served`: a model behind an OpenAI-compatible server as a player, `openai:MODEL@URL`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from agents.agent import Agent
from agents.errors import DependencyNotInstalled, Error, ServerFailed
from agon_env.types import Action, Observation

_PLACE = re.compile(r"(?P<model>.+?)@(?P<url>https?://.+)", re.DOTALL)


class Served(Agent):
    """Asks a server for every move, several at a time. What a model reasons apart from its answer is not played."""

    def __init__(
        self,
        place: str,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        timeout: float = 600.0,
        concurrency: int = 16,
        seed: int | None = None,
    ) -> None:
        """Make a player.

        Args:
            place: `MODEL@URL`, for example "pair@http://127.0.0.1:8000/v1".
            max_tokens: most tokens of one answer; default: the server's.
            temperature: default: the server's.
            api_key_env: the environment variable with the server's key; a server without one takes any.
            timeout: seconds for one answer.
            concurrency: most requests at one time.
            seed: begins the seeds that are sent along; None sends none.

        Raises:
            Error: `place` is no such thing.
            DependencyNotInstalled: the package `openai` is missing.
        """
        found = _PLACE.fullmatch(place)
        if found is None:
            raise Error(f"a served model is named MODEL@URL, for example openai:pair@http://127.0.0.1:8000/v1, not {place!r}")
        try:
            import openai
        except ModuleNotFoundError as error:
            raise DependencyNotInstalled('openai:MODEL@URL needs the package openai: pip install "agon-env[openai]"') from error
        self.model, self.url = found["model"], found["url"]
        key = os.environ.get(api_key_env) or "none"
        self._client = openai.OpenAI(base_url=self.url, api_key=key, timeout=timeout, max_retries=4)
        self._options = {"max_tokens": max_tokens, "temperature": temperature}
        self._concurrency = concurrency
        self._seeds: np.random.Generator | None = None
        self.tokens_spent = 0
        """Tokens that the server says it has sampled for this player."""
        if seed is not None:
            self.seed(seed)

    def seed(self, seed: int) -> None:
        """Send seeds along from now on, beginning with this one."""
        self._seeds = np.random.default_rng([seed, *self.model.encode()])

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        """Ask the server about each observation.

        Raises:
            ServerFailed: it did not answer, or refused.
        """
        seeds = (
            [None] * len(observations) if self._seeds is None else self._seeds.integers(2**31, size=len(observations)).tolist()
        )
        with ThreadPoolExecutor(self._concurrency) as pool:
            replies = list(pool.map(self._ask, observations, seeds))
        self.tokens_spent += sum(spent for _, spent in replies)
        return [action for action, _ in replies]

    def _ask(self, observation: Observation, seed: int | None) -> tuple[Action, int]:
        import openai

        asked: dict[str, Any] = {key: value for key, value in {**self._options, "seed": seed}.items() if value is not None}
        asked["messages"] = list(observation.messages)
        try:
            reply = self._client.chat.completions.create(model=self.model, **asked)
        except openai.OpenAIError as error:
            raise ServerFailed(f"{self.model} at {self.url} gave no answer: {error}") from error
        choice = reply.choices[0]
        spent = reply.usage.completion_tokens if reply.usage is not None else 0
        return Action(choice.message.content or "", truncated=choice.finish_reason == "length"), spent
