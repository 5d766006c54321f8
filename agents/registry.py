"""The registry of players: `make("random")`, `make("hf:PATH")`, and whatever plug-ins add.

An id is a name, or a name and an argument separated by a colon. Other distributions add players through the
entry-point group `agon_env.agents`: the entry point's name is the player's name, and it leads to a function
that makes one. They are read when a name is first missed, never on import.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agents.agent import Agent
from agon_env.errors import Error, NameNotFound, RegistrationError
from agon_env.plugins import Plugins


@dataclass(frozen=True)
class _Entry:
    maker: str | Callable[..., Agent]
    description: str


_entries: dict[str, _Entry] = {
    "random": _Entry("agents.scripted:Random", "a legal text where the game names them (env=), garbage elsewhere"),
    "oracle": _Entry("agents.scripted:Oracle", "the game's own solution (env=)"),
    "copycat": _Entry("agents.scripted:Copycat", "what was said last, repeated (env=)"),
    "human": _Entry("agents.human:Human", "a person at the terminal"),
    "hf": _Entry("agents.shared_base:load_policy", "hf:SOURCE, a Hugging Face model: a folder or a hub id (adapter=, params=)"),
    "embedded": _Entry(lambda **kwargs: make("hf:embedded", **kwargs), "the small model in this package"),
    "openai": _Entry(
        "agents.served:Served", "openai:MODEL@URL, behind an OpenAI-compatible server (max_tokens=, temperature=)"
    ),
    "smollm2-135m": _Entry(lambda **kwargs: make("hf:smollm2-135m", **kwargs), "SmolLM2-135M-Instruct, from a PyPI package"),
}


def make(id: str, /, **kwargs: Any) -> Agent:
    """Return the player with this id.

    Args:
        id: `name` or `name:argument`, for example "random", "human", "embedded", "hf:Qwen/Qwen3-0.6B".
        **kwargs: go to what makes the player, after the argument.

    Raises:
        NameNotFound: there is no such player.
        Error: the id has an argument that the player does not take, or lacks one.
    """
    name, colon, argument = id.partition(":")
    maker = _maker(name)
    try:
        agent = maker(argument, **kwargs) if colon else maker(**kwargs)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise  # it comes from within the maker
        raise Error(f"the player {id!r} can't be made: {error}") from error
    if not isinstance(agent, Agent):
        raise Error(f"the player {id!r} is made as a {type(agent).__name__}; it must be an agents.Agent")
    return agent


def register(name: str, maker: str | Callable[..., Agent], *, description: str | None = None, force: bool = False) -> None:
    """Add a player.

    Args:
        name: what it is called; without a colon.
        maker: a class or function that returns an `Agent`, or where it is: "module:attribute". For the id
            `name:argument` it gets the argument first.
        description: a few words for `list_agents`; default: the first line of the maker's docstring.
        force: replace what is registered under the name.

    Raises:
        RegistrationError: the name is taken, or can't be used.
    """
    if not name or ":" in name or name.split() != [name]:
        raise RegistrationError(f"{name!r} can't name a player; leave out colons and spaces")
    if name in _entries and not force:
        raise RegistrationError(f"there is a player {name!r} already; choose another name, or pass force=True")
    if description is None:
        description = maker if isinstance(maker, str) else (inspect.getdoc(maker) or "").partition("\n")[0]
    _entries[name] = _Entry(maker, description)


def list_agents() -> dict[str, str]:
    """Return all players, those of plug-ins included: name → what it is."""
    _plugins.load()
    return {name: entry.description for name, entry in sorted(_entries.items())}


def broken_plugins() -> dict[str, str]:
    """Return the plug-ins that could not be loaded: name → why."""
    _plugins.load()
    return dict(_plugins.broken)


def _maker(name: str) -> Callable[..., Agent]:
    if name not in _entries:
        _plugins.load()
    if name not in _entries:
        near = difflib.get_close_matches(name, _entries, n=1, cutoff=0.75)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        if name == "run":
            hint = (
                " The policies of a run are loaded by algos.training.trained.load_trained(FOLDER); agon play takes run:FOLDER."
            )
        raise NameNotFound(
            f"there is no player {name!r}.{hint} There are: {', '.join(sorted(_entries))}.{_plugins.complaints()}"
        )
    maker = _entries[name].maker
    if isinstance(maker, str):
        module, _, attribute = maker.partition(":")
        maker = getattr(importlib.import_module(module), attribute)
    assert callable(maker)
    return maker


def _accept(name: str, loaded: Any) -> None:
    if not callable(loaded):
        raise RegistrationError(f"it leads to a {type(loaded).__name__}, not to something that makes an agent")
    register(name, loaded)


_plugins = Plugins("agon_env.agents", _accept)
