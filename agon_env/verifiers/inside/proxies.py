"""What a test has in place of the program's objects: every operation is done by the program, every comparison here."""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator
from typing import Any


def forward(what: str) -> Callable[..., Any]:
    """Return a method that has an operation done by the program."""

    def method(self: Any, *args: Any) -> Any:
        return object.__getattribute__(self, "_session").ask(what, self, *args)

    return method


def forward_pair(what: str) -> Callable[[Any, Any], Any]:
    """Return an operator between two objects of the program; a value of the test is never shown to it."""

    def method(self: Any, other: Any) -> Any:
        return forward(what)(self, other) if isinstance(other, Remote) else NotImplemented

    return method


def forward_truth(what: str) -> Callable[[Any, Any], Any]:
    """The same for a comparison: its result is a truth value, and a member of an enumeration has a value."""

    def method(self: Any, other: Any) -> Any:
        if isinstance(other, Remote):
            return bool(forward(what)(self, other))
        plain = object.__getattribute__(self, "_plain")
        return getattr(operator, what)(plain[0], other) if plain else NotImplemented

    return method


class Remote:
    """Stands for an object of the program: a function, a class, an instance.

    It never equals a value of the test, whatever its `__eq__` says; a member of an enumeration of numbers or texts
    is compared as the number or text.
    """

    def __init__(self, session: Any, number: int, home: tuple[str, str], plain: list[Any]) -> None:
        object.__setattr__(self, "_session", session)
        object.__setattr__(self, "_number", number)
        object.__setattr__(self, "_home", home)
        object.__setattr__(self, "_plain", plain)

    def __getattr__(self, name: str) -> Any:
        return forward("get")(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        forward("set")(self, name, value)

    def __delattr__(self, name: str) -> None:
        forward("delete")(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, or make an instance of the class."""
        return object.__getattribute__(self, "_session").ask("call", self, *args, **kwargs)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, Remote) and forward("isinstance")(instance, self) is True

    def __contains__(self, item: Any) -> bool:
        return any(item is each or item == each for each in self)

    def __iter__(self) -> RemoteIterator:
        return RemoteIterator(self)

    def __next__(self) -> Any:
        return forward("next")(self)

    def __await__(self) -> Generator[Any, Any, Any]:
        return forward("await")(self)
        yield

    def __hash__(self) -> int:
        plain = object.__getattribute__(self, "_plain")
        return hash(plain[0]) if plain else int(forward("hash")(self))

    def __enter__(self) -> Any:
        return forward("enter")(self)

    def __exit__(self, *error: object) -> None:
        forward("exit")(self)

    def __bool__(self) -> bool:
        return forward("bool")(self) is True

    def __format__(self, style: str) -> str:
        return str(forward("format")(self, style))

    __str__, __repr__, __len__ = forward("str"), forward("repr"), forward("len")
    __int__, __float__, __complex__, __index__ = map(forward, ("int", "float", "complex", "index"))
    __round__, __abs__, __neg__, __pos__, __invert__ = map(forward, ("round", "abs", "neg", "pos", "invert"))
    __getitem__, __setitem__, __delitem__ = forward("getitem"), forward("setitem"), forward("delitem")
    __eq__, __ne__, __lt__, __le__, __gt__, __ge__ = map(forward_truth, ("eq", "ne", "lt", "le", "gt", "ge"))
    __add__, __sub__, __mul__, __matmul__ = map(forward_pair, ("add", "sub", "mul", "matmul"))
    __truediv__, __floordiv__, __mod__, __pow__ = map(forward_pair, ("truediv", "floordiv", "mod", "pow"))
    __and__, __or__, __xor__ = map(forward_pair, ("and_", "or_", "xor"))


class RemoteIterator:
    """Takes the items of an object of the program one by one."""

    def __init__(self, remote: Remote) -> None:
        self._session = object.__getattribute__(remote, "_session")
        self.iterator = self._session.ask("iter", remote)
        if not isinstance(self.iterator, Remote):
            raise TypeError("the program's __iter__ returns no iterator")

    def __iter__(self) -> RemoteIterator:
        return self

    def __next__(self) -> Any:
        return self._session.ask("next", self.iterator)


async def wait_for(remote: Remote) -> Any:
    """Await a coroutine of the program."""
    return await remote
