"""Runs in a sandbox of its own and holds the tests; asks the process with the program for values, and compares.

A test is run as it is written; the names that it takes from the program lead to proxies. Calls go over the
channel, plain results come back as fresh objects of builtin types, and every comparison is made here, with this
process's own builtins. The only output is one line of JSON.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import importlib
import io
import itertools
import json
import operator
import os
import sys
import types
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NoReturn

sys.path.insert(0, os.getcwd())

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
            if value.__module__ in (__name__, "wire", "builtins"):  # what type() tells of a value of the program
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


async def wait_for(remote: Remote) -> Any:
    """Await a coroutine of the program."""
    return await remote


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

    def __init__(self, session: Session, number: int, home: tuple[str, str], plain: list[Any]) -> None:
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


class Names:
    """Decides which names of a test lead to the program."""

    def __init__(self, session: Session, trees: Sequence[ast.AST], entry_point: str) -> None:
        self._session = session
        bound = {name for tree in trees for name in bound_names(tree)}
        called = {name for tree in trees for name in called_names(tree)}
        targets = {entry_point} if entry_point else called - bound - vars(builtins).keys()
        # a program may define abs() for itself, but a check that calls abs() means the real one, unless
        # the tests call nothing else: then it is what they test
        self._shadowed = frozenset({entry_point} if targets else called)
        self._bound = bound
        self._given: set[str] = set()

    def fill(self, tree: ast.AST, namespace: dict[str, Any]) -> None:
        """Look up the names that a test reads, and put what they lead to into its namespace."""
        read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        for name in sorted(read - self._bound - (namespace.keys() - self._given)):
            if hasattr(builtins, name) and name not in self._shadowed:
                continue
            found = self._session.look(name)
            if found and isinstance(found[0], Remote):
                found = [own_copy(name, object.__getattribute__(found[0], "_home")) or found[0]]
            if found:
                namespace[name] = found[0]
                self._given.add(name)
            elif name in self._given:  # the program has deleted it
                del namespace[name]
                self._given.remove(name)


def own_copy(name: str, home: tuple[str, str]) -> Any:
    """Return this process's own `isclose`, `Counter`, …, where the program has imported it under its name."""
    module, qualname = home
    if qualname != name or module.lstrip("_") not in PURE_MODULES:
        return None
    return getattr(importlib.import_module(module.lstrip("_")), name, None)


def called_names(tree: ast.AST) -> Iterator[str]:
    """Return the names that a test calls."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


def bound_names(tree: ast.AST) -> Iterator[str]:
    """Return the names that a test defines, at any depth: what is local somewhere need not be looked up."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).split(".")[0]
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name


def helpers(prelude: str, entry_point: str) -> ast.Module:
    """Return what the tests have a copy of: the prelude without its classes and without what is to be completed.

    A program can redefine what stands in its prelude; a test that uses a helper means this one. Classes stay with
    the program, because their instances are handed to it.
    """
    tree = ast.parse(prelude.removeprefix("\ufeff"))
    tree.body = [node for node in tree.body if not is_programs(node, entry_point)]
    return tree


def is_programs(node: ast.stmt, entry_point: str) -> bool:
    """Whether a statement of the prelude is a class, or a function that the program completes."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name == entry_point or is_stub(node)
    return isinstance(node, ast.ClassDef)


def is_stub(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function has no body yet: a docstring, `...`, `pass`, or the exception that says so."""
    return all(
        isinstance(node, ast.Pass | ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in function.body
    )


def run_statements(session: Session, job: dict[str, Any]) -> str | None:
    """Run the tests one by one.

    Returns:
        None if all passed, else what went wrong.
    """
    steps = []
    try:
        copied = helpers(job["prelude"], job["entry_point"])
        # a class in an annotation may be the program's
        code = compile(copied, "prelude", "exec", flags=__future__.annotations.compiler_flag, dont_inherit=True)
        steps.append((0, copied, code))
        for number, text in enumerate((job["setup"], *job["tests"])):
            tree = ast.parse(text.removeprefix("\ufeff"))
            steps.append((number, tree, compile(tree, f"test {number}", "exec", dont_inherit=True)))
    except (SyntaxError, ValueError, RecursionError) as error:
        raise CantJudge(f"a test is not Python: {error}") from None
    trees = [tree for _, tree, _ in steps[1:]]
    if not any(tree.body for tree in trees[1:]):
        return "no tests"
    names = Names(session, trees, job["entry_point"])
    namespace: dict[str, Any] = {"__name__": "tests", "__builtins__": builtins}
    for number, tree, code in steps:
        try:
            names.fill(tree, namespace)
            exec(code, namespace)
        except (Closed, CantJudge):
            raise
        except BaseException as error:
            return f"test {number}: {in_words(error)}" if number else f"set-up of the tests: {in_words(error)}"
    return None


def run_calls(session: Session, job: dict[str, Any]) -> str | None:
    """Call a function of the program with each list of arguments, and compare the result."""
    name = job["function"]
    for number, test in enumerate(job["tests"], 1):
        try:
            found = session.look(name)
            if not found and (classes := session.look("Solution")):
                found = [getattr(classes[0](), name)]
            if not found or not callable(found[0]):
                return f"test {number}: the program defines no function {name}"
            if not equal(found[0](*test["args"]), test["expected"]):
                return f"test {number}: wrong result"
        except (Closed, CantJudge):
            raise
        except Exception as error:
            return f"test {number}: {in_words(error)}"
    return None


def equal(result: Any, expected: Any) -> bool:
    """Compare a result with a value from JSON, in which a tuple is a list and every key a string."""
    if isinstance(result, list | tuple) and isinstance(expected, list | tuple):
        return len(result) == len(expected) and all(map(equal, result, expected))
    if isinstance(result, dict) and isinstance(expected, dict):
        known = {key if isinstance(key, str) else json.dumps(key, default=str): value for key, value in result.items()}
        return known.keys() == expected.keys() and all(equal(known[key], expected[key]) for key in known)
    return operator.eq(result, expected) is True


def in_words(error: BaseException) -> str:
    """Return a short reason; the text may be made by the program, and so be anything but a text."""
    try:
        text = " ".join(str(error).split())[:200]
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def judge(job: dict[str, Any], channel: Channel) -> dict[str, str]:
    """Return the verdict as a small dictionary."""
    try:
        session = Session(channel)
        try:
            session.ask("load", job["sources"])
        except (Closed, WireError):
            raise
        except Exception as error:
            return {"verdict": "fail", "reason": f"the program itself: {in_words(error)}"}
        failure = run_statements(session, job) if job["kind"] == "assert" else run_calls(session, job)
        if session.broken:
            raise session.broken
    except Closed:
        return {"verdict": "ended", "reason": "the program ended"}
    except CantJudge as error:
        return {"verdict": "error", "reason": str(error)}
    except WireError as error:
        return {"verdict": "fail", "reason": str(error)}
    return {"verdict": "fail", "reason": failure} if failure else {"verdict": "pass", "reason": "passed"}


if __name__ == "__main__":
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    sys.stdout = io.StringIO()  # what a test prints is not a verdict
    verdict = judge(json.load(sys.stdin), Channel(*map(int, sys.argv[1:3])))
    print(json.dumps(verdict), file=out, flush=True)
    os._exit(0)
