"""Runs in a sandbox and holds the program under test; does what the test process asks, one request at a time.

It is told arguments, never what is expected of the results. The program can do to this process what it likes:
all that leaves it are values.
"""

from __future__ import annotations

import asyncio
import importlib
import operator
import os
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

sys.path.insert(0, os.getcwd())

from wire import Channel, Closed, Codec, WireError, exception_names

MUTABLE = ("list", "dict", "set", "bytearray", "deque", "ordered", "counter")


OPERATORS = (
    *("eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow"),
    *("and_", "or_", "xor", "neg", "pos", "abs", "invert", "index"),
)


class Host:
    """The program, and the objects of it that the other side knows by number."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._objects: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._codec = Codec(self._export, self._import)
        self.module = types.ModuleType("solution")
        self.operations: dict[str, Callable[..., Any]] = {
            "load": self.load,
            "look": self.look,
            "call": lambda thing, *args, **kwargs: thing(*args, **kwargs),
            "get": getattr,
            "set": setattr,
            "delete": delattr,
            "isinstance": isinstance,
            "iter": iter,
            "next": next,
            "await": lambda thing: asyncio.run(thing),
            "bool": bool,
            "str": str,
            "repr": repr,
            "hash": hash,
            "len": len,
            "int": int,
            "float": float,
            "complex": complex,
            "round": round,
            "format": format,
            "getitem": operator.getitem,
            "setitem": operator.setitem,
            "delitem": operator.delitem,
            "enter": lambda thing: type(thing).__enter__(thing),
            "exit": lambda thing: type(thing).__exit__(thing, None, None, None),
        }
        for name in OPERATORS:
            self.operations[name] = getattr(operator, name)

    def serve(self) -> NoReturn:
        """Answer until the other side closes."""
        while True:
            self._channel.send(self._answer(self._channel.receive()))

    def load(self, sources: Sequence[str]) -> None:
        """Run the program: each source in turn, in one namespace."""
        sys.modules["solution"] = self.module
        vars(self.module)["__file__"] = os.path.abspath("solution.py")
        for source in sources:
            exec(compile(source.removeprefix("\ufeff"), "solution.py", "exec", dont_inherit=True), vars(self.module))

    def look(self, name: str) -> list[Any] | str:
        """Return what the program calls `name`, in a list; an empty list if nothing; the bare name of a module."""
        if name not in vars(self.module):
            return []
        found = vars(self.module)[name]
        return found.__name__ if isinstance(found, types.ModuleType) else [found]

    def _answer(self, request: Any) -> list[Any]:
        what, args, kwargs = request
        try:
            values = [self._codec.decode(item) for item in args]
            named = {name: self._codec.decode(item) for name, item in kwargs.items()}
            result = self.operations[what](*values, **named)
            return ["ok", self._codec.encode(result), self._changes(values, args), self._changes(named, kwargs)]
        except Closed:
            raise
        except BaseException as error:
            return self._failure(error)

    def _failure(self, error: BaseException) -> list[Any]:
        """Return what an exception is: its classes, arguments, attributes and text, as far as they can be had."""
        reply: list[Any] = ["raise", exception_names(type(error))]
        parts: list[tuple[Callable[[], Any], Any]] = [
            (lambda: list(error.args), []),
            (lambda: dict(vars(error)), {}),
            (lambda: str(error), ""),
        ]
        for part, nothing in parts:
            try:
                reply.append(self._codec.encode(part()))
            except BaseException:
                reply.append(self._codec.encode(nothing))
        return reply

    def _changes(self, values: Any, encoded: Any) -> list[list[Any]]:
        """Return `[place, new content]` for the arguments that were changed in place."""
        places: Any = encoded.items() if isinstance(encoded, dict) else enumerate(encoded)
        changed = []
        for place, before in places:
            if isinstance(before, list) and before[0] in (*MUTABLE, "tuple"):
                after = self._codec.encode(values[place])
                if after != before:
                    changed.append([place, after])
        return changed

    def _export(self, value: Any) -> list[Any]:
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._objects)
            self._objects[number] = value
        if isinstance(value, type) and issubclass(value, BaseException):
            return ["exception", exception_names(value)]
        home = [getattr(value, "__module__", None), getattr(value, "__qualname__", None)]
        tag = "coroutine" if isinstance(value, types.CoroutineType) else "handle"
        plain: list[Any] = [base(value) for base in (int, float) if isinstance(value, base)]  # a member of an enumeration
        plain += [str.__str__(value)] if isinstance(value, str) else []
        return [tag, number, [item if isinstance(item, str) else "" for item in home], self._codec.encode(plain)]

    def _import(self, tag: str, rest: list[Any]) -> Any:
        if tag == "handle":
            return self._objects[rest[0]]
        if tag == "exception":
            return vars(self.module).get(rest[0][0]) or getattr(sys.modules["builtins"], rest[0][0])
        if tag == "error":
            return self._import("exception", rest)(*map(self._codec.decode, rest[1]))
        if tag == "iterator":
            return iter([self._codec.decode(item) for item in rest[0]])
        if tag == "module":
            return importlib.import_module(rest[0])
        if tag == "class":
            return getattr(importlib.import_module(rest[0]), rest[1])
        if tag == "callback":
            return lambda *args: self._call_back(rest[0], args)
        raise WireError(f"unknown kind of value: {tag!r}")

    def _call_back(self, number: int, args: Sequence[Any]) -> Any:
        self._channel.send(["callback", number, [self._codec.encode(item) for item in args]])
        while True:
            reply = self._channel.receive()
            if reply[0] == "returned":
                return self._codec.decode(reply[1])
            if reply[0] == "raised":
                raise getattr(sys.modules["builtins"], reply[1], RuntimeError)(*reply[2])
            self._channel.send(self._answer(reply))


if __name__ == "__main__":
    read_fd, write_fd = map(int, sys.argv[1:3])
    host = Host(Channel(read_fd, write_fd))
    try:
        host.serve()
    except (Closed, WireError):
        os._exit(0)
