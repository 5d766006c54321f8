"""How values travel between the process that runs the tests and the process that runs the program.

Both of them are sandboxes that hold this file, so it imports the standard library alone. Values of plain types
go as JSON; the reader builds fresh objects of exactly these types, so that nothing that a program has
overridden (`__eq__`, `__repr__`, `abs`) takes part in a comparison. Everything else stays where it is, and is
represented on the other side by a handle.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import json
from collections.abc import Callable, Iterable
from typing import Any

MAX_BYTES = 32 << 20
"""Bytes of one message."""
MAX_DEPTH = 300
SMALL = 1 << 60

VIEWS: dict[str, Any] = {"keys": type({}.keys()), "values": type({}.values()), "items": type({}.items())}
FUNCTIONS = frozenset(
    (
        *("abs", "all", "any", "bin", "bool", "bytearray", "bytes", "callable", "chr", "complex", "dict", "divmod"),
        *("enumerate", "filter", "float", "format", "frozenset", "hash", "hex", "id", "int", "isinstance", "issubclass"),
        *("iter", "len", "list", "map", "max", "min", "next", "object", "oct", "ord", "pow", "range", "repr", "reversed"),
        *("round", "set", "slice", "sorted", "str", "sum", "tuple", "type", "zip"),
    )
)
"""Builtins that travel by name; none of them reaches beyond its arguments."""
DATES: dict[str, Any] = {kind.__name__: kind for kind in (datetime.date, datetime.time, datetime.datetime, datetime.timedelta)}
BUILTINS = vars(__import__("builtins")).copy()
NAME_OF = {id(BUILTINS[name]): name for name in FUNCTIONS}


class WireError(Exception):
    """A value can't be sent, or a message can't be read."""


class Closed(Exception):
    """The other side has gone."""


class Channel:
    """Messages as lines of JSON over two file descriptors."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._in = open(read_fd, "rb", closefd=False)  # noqa: SIM115
        self._out = open(write_fd, "wb", buffering=0, closefd=False)  # noqa: SIM115

    def send(self, message: Any) -> None:
        """Send one message.

        Raises:
            Closed: nobody reads it.
            WireError: it is too long.
        """
        try:
            line = json.dumps(message).encode("ascii") + b"\n"
        except (ValueError, TypeError, RecursionError) as error:
            raise WireError(str(error)) from None
        if len(line) > MAX_BYTES:
            raise WireError(f"a message has {len(line)} bytes, more than {MAX_BYTES}")
        view = memoryview(line)
        try:
            while view:
                view = view[self._out.write(view) :]
        except OSError:
            raise Closed from None

    def receive(self) -> Any:
        """Return the next message.

        Raises:
            Closed: there is none.
            WireError: it is no JSON, or too long.
        """
        try:
            line = self._in.readline(MAX_BYTES + 1)
        except OSError:
            raise Closed from None
        if not line:
            raise Closed
        if not line.endswith(b"\n"):
            raise WireError("a message is too long")
        try:
            return json.loads(line)
        except (ValueError, RecursionError):
            raise WireError("a message is not JSON") from None


class Codec:
    """Turns values into JSON and back; `export` and `import_` deal with what is not plain."""

    def __init__(self, export: Callable[[Any], Any], import_: Callable[[str, list[Any]], Any]) -> None:
        self._export = export
        self._import = import_

    def encode(self, value: Any, depth: int = 0) -> Any:
        """Return JSON for a value: plain types by content (a subclass counts as its base), others by `export`."""
        if value is None or value is True or value is False:
            return value
        if depth > MAX_DEPTH:
            raise WireError("a value is nested too deeply, or contains itself")
        kind = type(value)
        if kind in (str, float):
            return value
        if kind is int:
            return value if -SMALL < value < SMALL else ["int", hex(value)]

        def items(values: Iterable[Any]) -> list[Any]:
            return [self.encode(item, depth + 1) for item in values]

        if id(value) in NAME_OF and BUILTINS[NAME_OF[id(value)]] is value:
            return ["builtin", NAME_OF[id(value)]]
        if isinstance(value, tuple):
            fields = getattr(kind, "_fields", None)
            if kind is not tuple and isinstance(fields, tuple) and all(isinstance(name, str) for name in fields):
                return ["named", kind.__name__, list(fields), items(tuple.__iter__(value))]
            return ["tuple", items(tuple.__iter__(value))]
        if isinstance(value, list):
            return ["list", items(list.__iter__(value))]
        if isinstance(value, dict):
            tag = "ordered" if isinstance(value, collections.OrderedDict) else "dict"
            tag = "counter" if isinstance(value, collections.Counter) else tag
            return [tag, [[self.encode(k, depth + 1), self.encode(v, depth + 1)] for k, v in dict.items(value)]]
        if isinstance(value, set):
            return ["set", items(set.__iter__(value))]
        if isinstance(value, frozenset):
            return ["frozenset", items(frozenset.__iter__(value))]
        for tag, view in VIEWS.items():
            if isinstance(value, view):
                return [tag, items(value)]
        if is_enum(kind):
            return self._export(value)
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int):
            return self.encode(int.__int__(value))
        if isinstance(value, float):
            return float.__float__(value)
        if isinstance(value, complex):
            return ["complex", value.real, value.imag]
        if isinstance(value, bytes | bytearray):
            return ["bytes" if isinstance(value, bytes) else "bytearray", bytes(value).hex()]
        if kind is collections.deque:
            return ["deque", items(value), value.maxlen]
        if kind is range:
            return ["range", *items((value.start, value.stop, value.step))]
        if kind is slice:
            return ["slice", *items((value.start, value.stop, value.step))]
        if value is Ellipsis:
            return ["ellipsis"]
        if kind is decimal.Decimal:
            return ["decimal", str(value)]
        if kind is fractions.Fraction:
            return ["fraction", self.encode(value.numerator), self.encode(value.denominator)]
        if kind in (datetime.date, datetime.time, datetime.datetime) and getattr(value, "tzinfo", None) is None:
            names = ("year", "month", "day", "hour", "minute", "second", "microsecond")
            return ["date", kind.__name__, [getattr(value, name) for name in names if hasattr(value, name)]]
        if kind is datetime.timedelta:
            return ["date", "timedelta", [value.days, value.seconds, value.microseconds]]
        return self._export(value)

    def decode(self, data: Any) -> Any:
        """Return the value that `encode` was given.

        Raises:
            WireError: the data is not of that form.
        """
        try:
            return self._decode(data)
        except WireError:
            raise
        except Exception as error:
            raise WireError(f"a value can't be read: {type(error).__name__}") from None

    def _decode(self, data: Any) -> Any:
        if data is None or isinstance(data, bool | int | float | str):
            return data
        tag, *rest = data

        def items(values: Iterable[Any]) -> list[Any]:
            return [self._decode(item) for item in values]

        plain: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
        if tag in plain:
            return plain[tag](items(rest[0]))
        if tag == "dict":
            return {self._decode(key): self._decode(value) for key, value in rest[0]}
        if tag in ("ordered", "counter"):
            kind = collections.OrderedDict if tag == "ordered" else collections.Counter
            return kind({self._decode(key): self._decode(value) for key, value in rest[0]})
        if tag == "keys":
            return dict.fromkeys(items(rest[0])).keys()
        if tag == "values":
            return dict(enumerate(items(rest[0]))).values()
        if tag == "items":
            return dict(items(rest[0])).items()
        if tag == "int":
            return int(rest[0], 16)
        if tag == "named":
            return collections.namedtuple(str(rest[0]), [str(name) for name in rest[1]], rename=True)(*items(rest[2]))
        if tag == "complex":
            return complex(float(rest[0]), float(rest[1]))
        if tag in ("bytes", "bytearray"):
            return (bytes if tag == "bytes" else bytearray).fromhex(rest[0])
        if tag == "deque":
            return collections.deque(items(rest[0]), rest[1])
        if tag in ("range", "slice"):
            return {"range": range, "slice": slice}[tag](*items(rest))
        if tag == "ellipsis":
            return Ellipsis
        if tag == "decimal":
            return decimal.Decimal(rest[0])
        if tag == "fraction":
            return fractions.Fraction(*items(rest))
        if tag == "date":
            return DATES[rest[0]](*map(int, rest[1]))
        if tag == "builtin":
            if rest[0] not in FUNCTIONS:
                raise WireError(f"{rest[0]!r} does not travel")
            return BUILTINS[rest[0]]
        return self._import(tag, rest)


def is_enum(kind: type) -> bool:
    """Whether a class is an enumeration, whose members are more than their values."""
    return any(base.__module__ == "enum" for base in kind.__mro__)


def exception_names(kind: type) -> list[str]:
    """Return the names of an exception class and its bases, the most special first."""
    return [base.__name__ for base in kind.__mro__ if issubclass(base, BaseException)]
