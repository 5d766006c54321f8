"""Rows of the well-known sets of programming problems, each in its own shape, and the problems that they hold."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import pickle
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from agon_env.tasks.rows import BadRow, Row
from agon_env.tasks.task import Problem, normalise_question
from agon_env.verifiers.code_tests import BadTests, CodeTests

PACKING = (zlib.error, pickle.UnpicklingError)
MAX_TEST_BYTES = 256 << 20
"""Bytes that the packed tests of one problem may unpack to."""
LEVELS = {"introductory": 1.0, "interview": 2.0, "competition": 3.0, "easy": 1.0, "medium": 2.0, "hard": 3.0}
"""Words for difficulty → numbers, which alone can be filtered by."""
PYTHON3 = 3
"""The number of Python 3 in the column `solutions` of CodeContests."""
STARTER_IMPORTS = """\
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import *
from typing import *
from builtins import *
import bisect, collections, functools, heapq, itertools, math, operator, random, re, string, typing
"""
"""What the sites of these problems import for a function that is to be completed; its starter code says `List[int]`."""
STDIO_HINT = "The program reads from standard input and prints to standard output."


@dataclass(frozen=True)
class Parsed:
    """What a row holds, whatever its shape."""

    question: str
    tests: CodeTests
    solution: str | None = None
    difficulty: float | None = None
    topic: str | None = None
    id: str | None = None


def humaneval(row: Row) -> Parsed:
    """Read `task_id, prompt, entry_point, test, canonical_solution`."""
    prompt, name = _text(row, "prompt"), _text(row, "entry_point")
    solution = row.get("canonical_solution")
    # the prompt holds imports and helpers that solutions, and even tests, rely on
    tests = CodeTests("assert", (f"check({name})",), setup=_text(row, "test"), prelude=prompt, function=name)
    return Parsed(
        f"Complete this Python function; write it out in full.\n\n```python\n{prompt.rstrip()}\n```",
        tests,
        prompt + solution if isinstance(solution, str) else None,
        id=_id(row, "task_id"),
    )


def mbpp(row: Row) -> Parsed:
    """Read `text` (or `prompt`), `code, test_list`, and `test_setup_code` or `test_imports`."""
    text = row.get("text") or _text(row, "prompt")
    tests = row.get("test_list")
    if not isinstance(tests, Sequence) or isinstance(tests, str) or not tests:
        raise BadRow("no test_list")
    imports = row.get("test_imports")
    setup = row.get("test_setup_code") or ("\n".join(imports) if isinstance(imports, list) else "")
    solution = row.get("code")
    return Parsed(
        # the name of the function stands in the tests alone
        f"{text}\n\nYour code should pass this test, and others like it:\n\n```python\n{tests[0].strip()}\n```",
        CodeTests("assert", tuple(tests), setup=setup),
        solution.replace("\r\n", "\n") if isinstance(solution, str) else None,
        id=_id(row, "task_id"),
    )


def livecodebench(row: Row) -> Parsed:
    """Read `question_content, starter_code, public_test_cases, private_test_cases, metadata, difficulty`."""
    tests = _cases(row.get("public_test_cases")) + _cases(row.get("private_test_cases"))
    if not tests:
        raise BadRow("no tests")
    question = _text(row, "question_content")
    starter = row.get("starter_code") or ""
    functional = {test.get("testtype") for test in tests} == {"functional"}
    if functional:
        name = _json(row.get("metadata") or "{}").get("func_name")
        made = CodeTests(
            "call",
            tuple({"args": [_json(line) for line in _lines(test)], "expected": _json(test["output"])} for test in tests),
            prelude=STARTER_IMPORTS,
            function=_checked(name, "metadata"),
        )
    else:
        made = CodeTests(
            "stdio",
            tuple({"input": _checked(t.get("input"), "input"), "output": _checked(t.get("output"), "output")} for t in tests),
        )
    return Parsed(
        _with_starter(question, starter, functional=functional),
        made,
        difficulty=LEVELS.get(str(row.get("difficulty")).casefold()),
        topic=row.get("platform") if isinstance(row.get("platform"), str) else None,
        id=_id(row, "question_id"),
    )


def apps(row: Row) -> Parsed:
    """Read `question, solutions, input_output, difficulty, starter_code`, where three columns hold JSON as text."""
    cases = _json(row.get("input_output") or "{}")
    inputs, outputs, name = cases.get("inputs") or [], cases.get("outputs") or [], cases.get("fn_name")
    if not inputs or len(inputs) != len(outputs):
        raise BadRow("no tests")
    if name:
        # a result stands in a list of its own, in all tests of a problem or in none
        boxed = all(isinstance(output, list) and len(output) == 1 for output in outputs)
        tests = CodeTests(
            "call",
            tuple(
                {"args": list(args), "expected": output[0] if boxed else output}
                for args, output in zip(map(_list, inputs), outputs, strict=True)
            ),
            prelude=STARTER_IMPORTS,
            function=_checked(name, "fn_name"),
        )
    else:
        pairs = zip(map(_joined, inputs), map(_joined, outputs), strict=True)
        tests = CodeTests("stdio", tuple({"input": given, "output": wanted} for given, wanted in pairs))
    solutions = _json(row.get("solutions") or "[]")
    return Parsed(
        _with_starter(_text(row, "question"), row.get("starter_code") or "", functional=bool(name)),
        tests,
        solutions[0] if solutions and isinstance(solutions[0], str) else None,
        LEVELS.get(str(row.get("difficulty")).casefold()),
        id=_id(row, "problem_id"),
    )


def codecontests(row: Row) -> Parsed:
    """Read `name, description`, the three columns of tests, `solutions`, `cf_rating`, and the names of files."""
    question = _text(row, "description")
    if row.get("input_file") or row.get("output_file"):
        raise BadRow("reads or writes files")
    if "<image>" in question:
        raise BadRow("question needs an image")
    tests = []
    for column in ("public_tests", "private_tests", "generated_tests"):
        cases = row.get(column) or {}
        tests += [
            {"input": _checked(given, column), "output": _checked(wanted, column)}
            for given, wanted in zip(cases.get("input") or [], cases.get("output") or [], strict=False)
        ]
    if not tests:
        raise BadRow("no tests")
    solutions = row.get("solutions") or {}
    python = [
        text
        for text, number in zip(solutions.get("solution") or [], solutions.get("language") or [], strict=False)
        if number == PYTHON3
    ]
    rating = row.get("cf_rating")
    return Parsed(
        f"{question}\n\n{STDIO_HINT}",
        CodeTests("stdio", tuple(tests)),
        python[0] if python else None,
        float(rating) if isinstance(rating, int | float) and rating > 0 else None,
        id=_id(row, "name"),
    )


def agon(row: Row) -> Parsed:
    """Read `question, kind, tests`, and what else `CodeTests` has; `solution, difficulty, topic` are optional."""
    question, tests = _text(row, "question"), CodeTests.from_dict(row)
    if not tests.tests:
        raise BadRow("no tests")
    difficulty, topic, solution = row.get("difficulty"), row.get("topic"), row.get("solution")
    return Parsed(
        question,
        tests,
        solution if isinstance(solution, str) else None,
        float(difficulty) if isinstance(difficulty, int | float) else LEVELS.get(str(difficulty).casefold()),
        topic if isinstance(topic, str) else None,
        _id(row, "id"),
    )


SHAPES: dict[str, Callable[[Row], Parsed]] = {
    "agon": agon,
    "humaneval": humaneval,
    "mbpp": mbpp,
    "livecodebench": livecodebench,
    "apps": apps,
    "codecontests": codecontests,
}
"""Name of a shape → what reads a row of it."""


def read_problem(row: Row, shape: str, *, max_tests: int | None = None) -> tuple[Problem, str | None]:
    """Return the problem in a row, and its solution if there is one.

    Raises:
        BadRow: the row can't be used.
    """
    try:
        parsed = SHAPES[shape](row)
    except BadTests:
        raise BadRow("tests have another shape") from None
    except (TypeError, AttributeError, LookupError, ValueError, RecursionError, EOFError, *PACKING) as error:
        if isinstance(error, BadRow):
            raise
        raise BadRow("row has another shape") from None
    tests = parsed.tests if max_tests is None else _first(parsed.tests, max_tests)
    key = hashlib.sha256(normalise_question(parsed.question).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    problem = Problem(parsed.id or key, parsed.question, tests.to_json(), parsed.difficulty, parsed.topic)
    return problem, parsed.solution


def _first(tests: CodeTests, count: int) -> CodeTests:
    return CodeTests(tests.kind, tests.tests[:count], setup=tests.setup, prelude=tests.prelude, function=tests.function)


def _with_starter(question: str, starter: str, *, functional: bool) -> str:
    if starter.strip():
        return f"{question}\n\nStart from this code:\n\n```python\n{starter.rstrip()}\n```"
    return question if functional else f"{question}\n\n{STDIO_HINT}"


def _cases(value: Any) -> list[dict[str, Any]]:
    """Return the tests of LiveCodeBench: a list, JSON, or JSON that was pickled, packed and written in base 64."""
    if not value:
        return []
    if isinstance(value, str) and not value.lstrip().startswith("["):
        packed = zlib.decompressobj()
        data = packed.decompress(base64.b64decode(value, validate=True), MAX_TEST_BYTES)
        if packed.unconsumed_tail:
            raise BadRow("tests are too large")
        value = data.decode() if data.lstrip()[:1] == b"[" else _PlainUnpickler(io.BytesIO(data)).load()
    cases: list[dict[str, Any]] = _json(value) if isinstance(value, str) else list(value)
    return cases


class _PlainUnpickler(pickle.Unpickler):
    """Reads a pickle of plain data; one that names a class or a function, and so could do anything, is refused."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise BadRow("tests are a pickle with code")


def _json(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    return json.loads(text)


def _lines(test: Mapping[str, Any]) -> list[str]:
    return [line for line in _checked(test.get("input"), "input").split("\n") if line.strip()]


def _joined(value: Any) -> str:
    """Return an input or output of APPS as text: some are lists of lines."""
    if isinstance(value, list):
        return "\n".join(map(str, value))
    return value if isinstance(value, str) else str(value)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise BadRow("arguments are not a list")
    return value


def _text(row: Row, column: str) -> str:
    value = row.get(column)
    if not isinstance(value, str) or not value.strip():
        raise BadRow(f"no {column}")
    return value


def _checked(value: Any, column: str) -> str:
    if not isinstance(value, str):
        raise BadRow(f"{column} is not text")
    return value


def _id(row: Row, column: str) -> str | None:
    value = row.get(column)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
