"""Write the embedded programming problems: `python -m agon_env.tasks.make_programs [path]`.

Every expected value comes from a reference solution, and is compared with a second computation. The file is the
same on every run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from agon_env.tasks.programs import numbers, sequences, texts
from agon_env.tasks.programs.kind import KINDS, Draft, Kind, Type
from agon_env.tasks.task import normalise_question
from agon_env.verifiers.code_tests import CodeTests

PER_KIND = 6
"""Problems that are drawn of each kind; fewer where the kind has fewer."""
ATTEMPTS = 60
MODULES = (numbers, sequences, texts)
"""The modules that define kinds; importing them registers these."""
PROGRAMS = Path(__file__).parent / "data" / "programs.jsonl"
FORMS = ("call", "stdio", "assert")
EXAMPLES = slice(2, 4)
"""Tests that the question shows; the first ones are borders, which say little."""

TYPES: dict[Type, str] = {"int": "int", "ints": "list[int]", "text": "str", "bool": "bool"}
READERS: dict[Type, str] = {"int": "int(input())", "ints": "list(map(int, input().split()))", "text": "input()"}
PRINTERS: dict[Type, str] = {
    "int": "print({})",
    "text": "print({})",
    "ints": "print(*{})",
    "bool": 'print("yes" if {} else "no")',
}
LINES: dict[Type, str] = {
    "int": "the integer {}",
    "ints": "the integers of {}, separated by blanks (an empty line if there are none)",
    "text": "the text {}",
}


def problems(kind: Kind, count: int = PER_KIND) -> Iterator[dict[str, Any]]:
    """Yield up to `count` different problems of one kind, as rows of the embedded set.

    Raises:
        AssertionError: the two computations of an expected value disagree; the kind is wrong.
    """
    seen: set[str] = set()
    for attempt in range(ATTEMPTS):
        rng = Random(f"{kind.name} {attempt}")
        draft = kind.draw(rng)
        if draft.task in seen:
            continue
        expected = answers(kind.name, draft)
        form = FORMS[(len(seen) + len(kind.name)) % len(FORMS)]
        seen.add(draft.task)
        yield row(kind, draft, expected, form=form)
        if len(seen) == count:
            return


def answers(name: str, draft: Draft) -> list[Any]:
    """Return what the reference solution returns for each list of arguments.

    Raises:
        AssertionError: the check returns something else.
    """
    namespace: dict[str, Any] = {}
    exec(source(name, draft), namespace)  # our own text
    results = []
    for arguments in draft.arguments:
        result, check = namespace[name](*arguments), draft.check(*arguments)
        if result != check or type(result) is not type(check):
            raise AssertionError(f"{name}{arguments}: {result!r} against {check!r}")
        results.append(result)
    return results


def source(name: str, draft: Draft) -> str:
    """Return the reference solution as a function."""
    return f"def {name}({', '.join(parameter for parameter, _ in draft.parameters)}):\n{draft.body}"


def row(kind: Kind, draft: Draft, expected: Sequence[Any], *, form: str) -> dict[str, Any]:
    """Return a problem as a function that is called, one tested by asserts, or a program that prints."""
    write = {"call": _call, "stdio": _stdio, "assert": _assert}[form]
    question, tests, solution = write(kind.name, draft, expected)
    made = json.loads(tests.to_json())
    return {
        "question": question,
        **made,
        "solution": solution,
        "difficulty": draft.difficulty,
        "topic": kind.topic,
    }


def _call(name: str, draft: Draft, expected: Sequence[Any]) -> tuple[str, CodeTests, str]:
    pairs = list(zip(draft.arguments, expected, strict=True))
    tests = CodeTests("call", tuple({"args": list(args), "expected": value} for args, value in pairs), function=name)
    return _function_question(name, draft, expected), tests, source(name, draft)


def _assert(name: str, draft: Draft, expected: Sequence[Any]) -> tuple[str, CodeTests, str]:
    lines = [f"assert {_called(name, args)} == {value!r}" for args, value in zip(draft.arguments, expected, strict=True)]
    return _function_question(name, draft, expected), CodeTests("assert", tuple(lines), function=name), source(name, draft)


def _stdio(name: str, draft: Draft, expected: Sequence[Any]) -> tuple[str, CodeTests, str]:
    tests = tuple(
        {"input": "".join(_line(value) for value in args), "output": _output(value)}
        for args, value in zip(draft.arguments, expected, strict=True)
    )
    described = "; ".join(
        f"line {number} holds {LINES[kind].format(parameter)}" for number, (parameter, kind) in enumerate(draft.parameters, 1)
    )
    result = {"ints": ", its elements separated by blanks", "bool": ", as yes or no"}.get(draft.returns, "")
    shown = "\n\n".join(f"Input:\n{test['input']}Output:\n{test['output']}".rstrip() for test in tests[EXAMPLES])
    question = (
        f"Write a Python program that reads {_names(draft)} from standard input and prints {draft.task}{result}.\n\n"
        f"Input: {described}.\n\nExamples:\n\n{shown}"
    )
    reads = "".join(f"{parameter} = {READERS[kind]}\n" for parameter, kind in draft.parameters)
    call = f"{name}({', '.join(parameter for parameter, _ in draft.parameters)})"
    solution = f"{source(name, draft)}\n\n{reads}{PRINTERS[draft.returns].format(call)}\n"
    return question, CodeTests("stdio", tests), solution


def _function_question(name: str, draft: Draft, expected: Sequence[Any]) -> str:
    parameters = ", ".join(f"{parameter}: {TYPES[kind]}" for parameter, kind in draft.parameters)
    examples = list(zip(draft.arguments, expected, strict=True))[EXAMPLES]
    shown = "\n".join(f"{_called(name, args)} == {value!r}" for args, value in examples)
    signature = f"{name}({parameters}) -> {TYPES[draft.returns]}"
    return f"Write a Python function `{signature}` that returns {draft.task}.\n\nExamples:\n\n{shown}"


def _names(draft: Draft) -> str:
    return " and ".join(parameter for parameter, _ in draft.parameters)


def _called(name: str, arguments: Sequence[Any]) -> str:
    return f"{name}({', '.join(map(repr, arguments))})"


def _line(value: Any) -> str:
    return (" ".join(map(str, value)) if isinstance(value, list) else str(value)) + "\n"


def _output(value: Any) -> str:
    return _line({True: "yes", False: "no"}[value] if isinstance(value, bool) else value)


def main(arguments: Sequence[str] = ()) -> None:
    """Write the problems to the path in `arguments`, by default to where the package reads them."""
    path = Path(arguments[0]) if arguments else PROGRAMS
    rows = [problem for kind in KINDS.values() for problem in problems(kind)]
    if len({normalise_question(problem["question"]) for problem in rows}) < len(rows):
        raise AssertionError("two problems have the same question")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(problem) + "\n" for problem in rows), encoding="utf-8", newline="\n")
    print(f"{len(rows)} problems of {len(KINDS)} kinds written to {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
