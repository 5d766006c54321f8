"""The conversation of the tests with the process that holds the program, in the test process."""

from __future__ import annotations

import builtins
import importlib
import itertools
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from proxies import Remote, RemoteIterator, wait_for
from wire import Channel, Closed, Codec, WireError, exception_names

PURE_MODULES = frozenset(
    (
        *("bisect", "cmath", "collections", "copy", "datetime", "decimal", "fractions", "functools", "heapq"),
        *("itertools", "json", "math", "operator", "random", "re", "statistics", "string", "typing"),
    )
)
"""Modules that a test may take from the program's imports; it gets this process's own."""
MAX_ITEMS = 1_000_000
TOLD = "text of the program"
"""Attribute of an exception that holds what the program says it says."""


class CantJudge(Exception):
    """The test does something that can't be done across two processes; the program has no part in that."""


class Session:
    """The conversation with the process that holds the program."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._codec = Codec(self._export, self._import)
        self._proxies: dict[int, Remote] = {}
        self._coroutines: dict[Any, Remote] = {}
        self._callbacks: list[Callable[..., Any]] = []
        self._exceptions: dict[str, Any] = {}
        self.broken: Exception | None = None
        """What ended the conversation, in case that a test has caught it."""

    def ask(self, what: str, *args: Any, **kwargs: Any) -> Any:
        """Have something done to objects of the program; return its value, or raise what it raised."""
        try:
            return self._ask(what, args, kwargs)
        except (Closed, WireError, CantJudge) as error:
            self.broken = self.broken or error
            raise

    def _ask(self, what: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        encoded = [self._codec.encode(item) for item in args]
        named = {name: self._codec.encode(item) for name, item in kwargs.items()}
        self._channel.send([what, encoded, named])
        while True:
            reply = self._channel.receive()
            try:
                kind, *rest = reply
                if kind == "ok":
                    value, changed, changed_named = rest
                    result = self._codec.decode(value)
                    for place, content in changed:
                        update(args[place], self._codec.decode(content))
                    for place, content in changed_named:
                        update(kwargs[place], self._codec.decode(content))
                    return result
                if kind == "callback":
                    number, arguments = rest
                    self._call(self._callbacks[number], [self._codec.decode(item) for item in arguments])
                    continue
                names, *parts = rest
                error = self._exception([str(name) for name in names])
                values, attributes, said = map(self._codec.decode, parts)
                state = {str(name): value for name, value in attributes.items()} | {TOLD: str(said)}
                values = list(values)
            except (ValueError, TypeError, LookupError, AttributeError) as broken:
                raise WireError(f"a reply can't be read: {broken}") from None
            raise_in_test(error, values, state, what)

    def look(self, name: str) -> list[Any]:
        """Return what the program calls `name`, in a list that may be empty; a module as this process has it."""
        found = self.ask("look", name)
        if isinstance(found, str):
            return [importlib.import_module(found)] if found in PURE_MODULES else []
        if not isinstance(found, list):
            raise WireError("a reply can't be read")
        return found

    def _call(self, function: Callable[..., Any], arguments: Sequence[Any]) -> None:
        try:
            self._channel.send(["returned", self._codec.encode(function(*arguments))])
        except (Closed, WireError, CantJudge):
            raise
        except Exception as error:
            self._channel.send(["raised", type(error).__name__, [str(item) for item in error.args]])

    def _export(self, value: Any) -> list[Any]:
        if isinstance(value, Remote):
            return ["handle", object.__getattribute__(value, "_number")]
        if isinstance(value, RemoteIterator):
            return self._export(value.iterator)
        if isinstance(value, types.CoroutineType) and value in self._coroutines:
            return self._export(self._coroutines[value])
        if is_iterator(value):
            items: list[Any] = []
            for item in value:
                items.append(self._codec.encode(item))
                if len(items) > MAX_ITEMS:  # a test may take them from the program
                    raise WireError(f"an iterator with more than {MAX_ITEMS} items can't be handed over")
            return ["iterator", items]
        if isinstance(value, BaseException):
            return ["error", exception_names(type(value)), [self._codec.encode(item) for item in value.args]]
        if isinstance(value, type) and issubclass(value, BaseException):
            return ["exception", exception_names(value)]
        if isinstance(value, types.ModuleType) and value.__name__ in PURE_MODULES:
            return ["module", value.__name__]
        if isinstance(value, type):
            if own_copy(value.__name__, (value.__module__, value.__qualname__)) is value:
                return ["class", value.__module__.lstrip("_"), value.__name__]
            if value.__module__ in (__name__, "proxies", "wire", "builtins"):  # what type() tells of a value of the program
                raise WireError(f"the class {value.__name__} can't be handed over")
        elif callable(value):
            self._callbacks.append(value)
            return ["callback", len(self._callbacks) - 1]
        raise CantJudge(f"a test hands over an object of type {type(value).__name__}, which can't be sent to another process")

    def _import(self, tag: str, rest: list[Any]) -> Any:
        if tag in ("handle", "coroutine"):
            number, (module, name), plain = rest
            new = Remote(self, int(number), (str(module), str(name)), plain_values(self._codec.decode(plain)))
            remote = self._proxies.setdefault(int(number), new)
            if tag == "handle":
                return remote
            coroutine = wait_for(remote)  # asyncio takes no other awaitable everywhere
            self._coroutines[coroutine] = remote
            return coroutine
        if tag == "exception":
            return self._exception([str(name) for name in rest[0]])
        raise WireError(f"unknown kind of value: {tag!r}")

    def _exception(self, names: list[str]) -> Any:
        """Return the exception class with these names of itself and its bases: a builtin one, or one made here."""
        name, *bases = names
        known = getattr(builtins, name, None)
        if isinstance(known, type) and issubclass(known, BaseException):
            return known
        if name not in self._exceptions:
            self._exceptions[name] = type(name, (self._exception(bases) if bases else Exception,), {"__str__": told})
        return self._exceptions[name]


def told(self: Any) -> str:
    """Return the text that an exception of the program has there; `__str__` of the classes made here."""
    return str(vars(self).get(TOLD, Exception.__str__(self)))


def plain_values(values: Any) -> list[Any]:
    """Return the number or text that a member of an enumeration is as well, in a list that may be empty."""
    if not isinstance(values, list) or not all(isinstance(value, int | float | str) for value in values):
        raise WireError("a reply can't be read")
    return values


def raise_in_test(error: Any, values: list[Any], state: dict[str, Any], what: str) -> NoReturn:
    """Raise in the test what the program raised."""
    if error is StopIteration and what == "next":
        raise StopIteration(*values)
    if not issubclass(error, Exception) or issubclass(error, StopIteration | StopAsyncIteration):
        # these would end a loop or this process, instead of failing the test
        raise RuntimeError(f"the program raised {error.__name__}")
    try:
        raised = error(*values)
        vars(raised).update(state)
    except Exception:
        raised = RuntimeError(f"the program raised {error.__name__}")
    raise raised


def is_iterator(value: Any) -> bool:
    """Whether a value is an iterator that the interpreter brings along and that may have an end."""
    kind = type(value)
    endless = kind in (itertools.count, itertools.cycle, itertools.repeat)
    return isinstance(value, Iterator) and kind.__module__ in ("builtins", "itertools", "_collections") and not endless


def update(original: Any, new: Any) -> None:
    """Give a mutable argument the content that the program gave its copy."""
    if type(original) is tuple and type(new) is tuple and len(original) == len(new):
        for old, item in zip(original, new, strict=True):
            update(old, item)
    elif isinstance(original, list) and isinstance(new, list):
        if len(original) == len(new):
            for i, item in enumerate(new):
                if type(original[i]) is type(item) and isinstance(item, list | dict | set):
                    update(original[i], item)
                else:
                    original[i] = item
        else:
            original[:] = new
    elif isinstance(original, dict | set) and isinstance(new, dict | set):
        original.clear()
        original.update(new)
    elif isinstance(original, bytearray) and isinstance(new, bytearray):
        original[:] = new
    elif hasattr(original, "popleft") and hasattr(new, "popleft"):
        original.clear()
        original.extend(new)


def own_copy(name: str, home: tuple[str, str]) -> Any:
    """Return this process's own `isclose`, `Counter`, …, where the program has imported it under its name."""
    module, qualname = home
    if qualname != name or module.lstrip("_") not in PURE_MODULES:
        return None
    return getattr(importlib.import_module(module.lstrip("_")), name, None)
