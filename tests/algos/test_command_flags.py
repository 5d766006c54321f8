"""Numbers that can't be are refused by the flag's name and range; the help fits the terminal."""

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import get_args, get_type_hints

import pytest

from algos import cli
from algos.commands import COMMANDS, USAGE
from algos.commands.flags import Range

NOWHERE = {"env": "ArithmeticDuel-v0", "model": "embedded"}


def functions() -> Iterator[tuple[str, Callable[..., int]]]:
    for name in COMMANDS:
        command = importlib.import_module(f"algos.commands.{name}").command
        parts = command.items() if isinstance(command, Mapping) else [("", command)]
        yield from ((f"{name} {part}".strip(), function) for part, function in parts if inspect.isfunction(function))


def numbers() -> Iterator[tuple[str, str, type, Range | None]]:
    """Every flag with a number: command, name, type, range."""
    for name, function in functions():
        for flag, hint in get_type_hints(function, include_extras=True).items():
            kinds = {int, float}.intersection({hint, *get_args(hint), *(get_args(hint) and get_args(get_args(hint)[0]))})
            if kinds and flag != "return":
                yield name, flag, kinds.pop(), next((part for part in get_args(hint) if isinstance(part, Range)), None)


def test_every_number_has_a_range() -> None:
    found = list(numbers())
    assert len(found) > 20
    assert [(name, flag) for name, flag, _, allowed in found if allowed is None] == []


@pytest.mark.parametrize(("name", "flag", "kind", "allowed"), list(numbers()), ids=lambda value: str(value)[:20])
def test_what_is_out_of_range_is_refused_before_anything_is_done(
    name: str, flag: str, kind: type, allowed: Range, capsys: pytest.CaptureFixture[str]
) -> None:
    option = f"--{flag.replace('_', '-')}"
    command, _, part = name.partition(" ")
    parameters = inspect.signature(dict(functions())[name]).parameters.values()
    needs = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
    wrong = ["-5", *(["nan"] if kind is float else [])]
    wrong += [] if allowed.most == float("inf") else [str(kind(allowed.most * 10))]
    for value in wrong:
        args = [command, *filter(None, [part]), *(NOWHERE.get(parameter, "nowhere") for parameter in needs), option, value]
        assert cli.run(args) == USAGE
        shown = " ".join(capsys.readouterr().err.split())
        assert f"{option} must be" in shown
        assert str(allowed.least) in shown


@pytest.mark.parametrize("command", [*COMMANDS, "verify math", "verify code"])
def test_no_line_of_a_help_is_longer_than_the_terminal(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        cli.run([*command.split(), "--help"])
    lines = capsys.readouterr().out.split("\n")
    assert ended.value.code in (0, None)
    assert lines[0].startswith(f"usage: agon {command}")
    assert max(map(len, lines)) <= 80
    assert not any(line.startswith(" ") and line[1:2].isalpha() for line in lines)  # a word was broken over two lines
