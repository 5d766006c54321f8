"""`CodeTests`: what a program has to do, in one of three shapes, and the JSON that holds it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Kind = Literal["stdio", "assert", "call"]


class BadTests(ValueError):
    """Tests that can't be read; the message says what they should be."""


@dataclass(frozen=True)
class CodeTests:
    """The tests of one problem.

    - "stdio": each test is `{"input": text, "output": text}`; the program reads and prints.
    - "assert": each test is Python text that runs after the program, for example `"assert add(2, 3) == 5"`.
    - "call": each test is `{"args": [...], "expected": value}` in plain JSON, for `function` or `Solution().function`.
    """

    kind: Kind
    tests: tuple[Any, ...]
    setup: str = ""
    """For "assert": Python text that runs before the tests, apart from the program."""
    prelude: str = ""
    """For "assert" and "call": Python text that runs before the program and with it, for example imports."""
    function: str = ""
    """What is tested: needed for "call"; for "assert" it settles which name that is also a builtin is the program's."""

    def __post_init__(self) -> None:
        """Check the shape.

        Raises:
            BadTests: it is another one.
        """
        if self.kind not in get_args(Kind):
            raise BadTests(f"kind is one of {', '.join(get_args(Kind))}, not {self.kind!r}")
        for name in ("setup", "prelude", "function"):
            if not isinstance(getattr(self, name), str):
                raise BadTests(f"{name} is text, not {getattr(self, name)!r}")
        if self.kind == "call" and not self.function:
            raise BadTests('tests of kind "call" need the name of the function')
        for number, test in enumerate(self.tests, 1):
            if not _fits(self.kind, test):
                raise BadTests(f"test {number} of kind {self.kind!r} has another shape: {str(test)[:80]}")

    def to_json(self) -> str:
        """Return one line of JSON, from which `from_json` makes the same tests; the gold of a problem."""
        return json.dumps({key: value for key, value in asdict(self).items() if value or key == "tests"})

    @classmethod
    def from_json(cls, text: str) -> CodeTests:
        """Read what `to_json` wrote.

        Raises:
            BadTests: the text is something else.
        """
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            raise BadTests("the tests are not JSON") from None
        return cls.from_dict(data)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CodeTests:
        """Make tests of a mapping with the names of the fields; unknown ones are ignored.

        Raises:
            BadTests: a field is missing or has another shape.
        """
        if not isinstance(data, Mapping) or "kind" not in data or not isinstance(data.get("tests"), list | tuple):
            raise BadTests('tests are an object with "kind" and a list "tests"')
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        return cls(**known | {"tests": tuple(data["tests"])})


def _fits(kind: str, test: Any) -> bool:
    if kind == "assert":
        return isinstance(test, str)
    if not isinstance(test, Mapping):
        return False
    if kind == "stdio":
        return isinstance(test.get("input"), str) and isinstance(test.get("output"), str)
    return isinstance(test.get("args"), list | tuple) and "expected" in test
