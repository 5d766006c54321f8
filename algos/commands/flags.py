"""What the commands' signatures are made of: flags with a range, flags that may be left out; and how they become `--help`."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_args, get_origin, get_type_hints

import docstring_parser
import tyro
from rich.console import Console
from rich.text import Text

from algos.errors import ConfigError


@dataclass(frozen=True)
class Range:
    """What a number may be; part of the annotation of a parameter."""

    least: float
    most: float = math.inf

    def check(self, flag: str, value: float) -> None:
        """Refuse a number.

        Raises:
            ConfigError: it is out of range, or none; the message names the flag and the range.
        """
        if not self.least <= value <= self.most:
            may = f"at least {self.least}" if self.most == math.inf else f"from {self.least} to {self.most}"
            raise ConfigError(f"{flag} must be {may}, not {value}")


AUTO = docstring_parser.DocstringStyle.AUTO
MOST_SECONDS = 10**7
"""More than that can't be waited for on all systems."""

Count: TypeAlias = Annotated[int, Range(1)]
Seed: TypeAlias = Annotated[int, Range(0, 2**32 - 1)]
Port: TypeAlias = Annotated[int, Range(0, 65535)]
Temperature: TypeAlias = Annotated[float, Range(0, 1000)]
Seconds: TypeAlias = Annotated[float, Range(0.001, MOST_SECONDS)]
SecondsOrNone: TypeAlias = Annotated[float, Range(0, MOST_SECONDS)]

Env: TypeAlias = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
Run: TypeAlias = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
File: TypeAlias = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
Names: TypeAlias = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME [NAME …]", help_behavior_hint="")]
Options: TypeAlias = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE [NAME=VALUE …]", help_behavior_hint="")]

CountIfAny: TypeAlias = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint=""), Range(1)]
EnvIfAny: TypeAlias = Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[ENV]", help_behavior_hint="")]
NameIfAny: TypeAlias = Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")]
PathIfAny: TypeAlias = Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")]


def checked(command: Callable[..., int]) -> Callable[..., int]:
    """Return a command that refuses numbers out of their `Range`."""
    ranges = {name: found for name, hint in get_type_hints(command, include_extras=True).items() if (found := _range(hint))}
    signature = inspect.signature(command)

    @functools.wraps(command)
    def within(*args: Any, **kwargs: Any) -> int:
        given: Mapping[str, Any] = signature.bind(*args, **kwargs).arguments
        for name, allowed in ranges.items():
            if given.get(name) is not None:
                allowed.check(f"--{name.replace('_', '-')}", given[name])
        return command(*args, **kwargs)

    return within


@contextmanager
def readable_help(args: Sequence[str]) -> Iterator[None]:
    """Have tyro print a help that can be read, where `args` ask for one.

    It breaks the lines of flags alone where the terminal ends, and takes the indented lines of a field's docstring for lines
    of their own.
    """
    if not {"-h", "--help"}.intersection(args):
        yield
        return
    parse, kept = docstring_parser.parse_from_object, _Kept()

    def joined(obj: Any, style: docstring_parser.DocstringStyle = AUTO) -> docstring_parser.Docstring:
        found = parse(obj, style)
        for field in found.params:
            field.description = " ".join((field.description or "").split())
        return found

    docstring_parser.parse_from_object = joined
    try:
        with contextlib.redirect_stdout(kept):
            yield
    finally:
        docstring_parser.parse_from_object = parse
        Console(highlight=False).print(Text.from_ansi(kept.getvalue().rstrip("\n")))


class _Kept(io.StringIO):
    """Output that is kept, and looks like the real one: tyro draws with what that can show."""

    encoding = getattr(sys.__stdout__, "encoding", "utf-8")

    def isatty(self) -> bool:
        return sys.__stdout__ is not None and sys.__stdout__.isatty()


def _range(hint: Any) -> Range | None:
    parts = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((part for part in parts if isinstance(part, Range)), None)
