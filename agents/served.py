"""`Served`: a model behind an OpenAI-compatible server as a player, `openai:MODEL@URL`."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from agents.agent import Agent
from agents.errors import DependencyNotInstalled, Error, ServerFailed
from agon_env.types import Action, Observation

OPENAI_KEY = "OPENAI_API_KEY"
LONGEST = 500
"""Characters of what a server says that a message repeats."""
_HINT = f"{OPENAI_KEY} goes to api.openai.com, this machine and the server that OPENAI_BASE_URL names: set that, or api_key_env"
_PLACE = re.compile(r"(?P<model>.+?)@(?P<url>https?://.+)", re.DOTALL)


class Served(Agent):
    """Asks a server for every move, several at a time. What a model reasons apart from its answer is not played."""

    def __init__(
        self,
        place: str,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        api_key_env: str | None = None,
        timeout: float = 600.0,
        concurrency: int = 16,
        seed: int | None = None,
    ) -> None:
        """Make a player.

        Args:
            place: `MODEL@URL`, for example "pair@http://127.0.0.1:8000/v1".
            max_tokens: most tokens of one answer; default: the server's.
            temperature: default: the server's.
            api_key_env: the environment variable with the server's key; a server without one takes any. Default:
                OPENAI_API_KEY for api.openai.com, for this machine and for the server that OPENAI_BASE_URL names, and none
                for others: whoever writes a config must not have the key sent to a place of theirs.
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
        self.model, self.url = found["model"], _without_password(found["url"])
        if api_key_env is None and _has_the_key(found["url"]):
            api_key_env = OPENAI_KEY
        key = os.environ.get(api_key_env or "") or "none"
        self._withheld = api_key_env is None and OPENAI_KEY in os.environ
        self._client = openai.OpenAI(base_url=found["url"], api_key=key, timeout=timeout, max_retries=4)
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
            ServerFailed: it did not answer, refused, or said something else than a completion.
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
            return _read(reply)
        except (openai.OpenAIError, ValueError, RecursionError) as error:  # the client does not catch what no JSON leads to
            hint = f"; {_HINT}" if self._withheld and isinstance(error, openai.AuthenticationError) else ""
            said = str(error)[:LONGEST]
            raise ServerFailed(f"{self.model} at {self.url} gave no answer: {said}{hint}") from error


def _read(reply: Any) -> tuple[Action, int]:
    """Return the text of a completion, and the tokens that it took by the server's account.

    Raises:
        ValueError: it is none; the client believes whatever it is sent.
    """
    try:
        choice = reply.choices[0]
        text = choice.message.content
        cut = choice.finish_reason == "length"
    except (AttributeError, IndexError, KeyError, TypeError):
        raise ValueError("it sent something else than a completion") from None
    if not isinstance(text, str | None):
        raise ValueError(f"it sent no text, but {type(text).__name__}")
    spent = getattr(reply.usage, "completion_tokens", None)
    return Action(text or "", truncated=cut), spent if isinstance(spent, int) and spent > 0 else 0


def _has_the_key(url: str) -> bool:
    """Return whether OPENAI_API_KEY is meant for the server of a URL."""
    known = ("https://api.openai.com/v1", os.environ.get("OPENAI_BASE_URL", ""))
    return _is_loopback(urlsplit(url).hostname) or _origin(url) in map(_origin, known)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _is_loopback(host: str | None) -> bool:
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return host == "localhost"


def _without_password(url: str) -> str:
    """Return a URL as it may stand in messages."""
    try:
        parts = urlsplit(url)
        return parts._replace(netloc=f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or "").geturl()
    except ValueError as error:
        raise Error(f"{url!r} is no URL: {error}") from None
