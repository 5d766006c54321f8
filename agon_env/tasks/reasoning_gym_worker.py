"""The process that makes and scores the problems of reasoning-gym; run by `agon_env.verifiers.pool`.

Some scorers of reasoning-gym call `eval` or sympy's `parse_expr` (which is `eval`) on the answer of the model. Here
such an answer is read as a literal or as a formula, or refused; and while an answer is scored, the process can
start no other one, open no connection and write no file.
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from agon_env.verifiers.worker import serve

ENTRIES = 10_000
"""Entries of one generator that are used with one of its seeds."""

_FORMULA = re.compile(r"[A-Za-z0-9_+\-*/^().,!= \t\n]{0,2000}")
_ARITHMETIC = re.compile(r"(?:0[xX][0-9a-fA-F]+|[\d+\-*/%()&|^~<>\s]){0,2000}")
_NAME = re.compile(r"[A-Za-z_]\w*")
_ATTRIBUTE = re.compile(r"\.\s*[A-Za-z_]")
_KNOWN_NAMES = {
    "sqrt", "cbrt", "sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh",
    "atanh", "exp", "log", "ln", "pi", "Abs", "Rational", "Integer", "Float", "factorial",
}  # fmt: skip
_FORBIDDEN = ("os.", "subprocess.", "socket.", "ctypes.", "shutil.", "pty.", "signal.")
_HARMLESS = ("os.listdir", "os.scandir")  # an import looks into folders

_LEFT_OUT = {"composite", "game_of_life_halting"}
"""The first has no problems of its own; the scorer of the second (0.1.25) pays for any text whatever."""

_scoring = False


def main() -> None:
    """Serve until stdin closes."""
    serve(_prepare)


def check_formula(text: str) -> None:
    """Refuse a text that is more than arithmetic with known functions and short names.

    Raises:
        ValueError: it is.
    """
    strange = [name for name in _NAME.findall(text) if name not in _KNOWN_NAMES and (len(name) > 2 or "__" in name)]
    if not _FORMULA.fullmatch(text) or strange or _ATTRIBUTE.search(text):
        raise ValueError("not a formula")


def read_literal(source: Any, *_: Any) -> Any:
    """Stand in for `eval`: read a literal, or work out plain arithmetic.

    Raises:
        ValueError, SyntaxError: it is neither.
    """
    text = str(source)
    return eval(text, {"__builtins__": {}}) if _ARITHMETIC.fullmatch(text) else ast.literal_eval(text)


def _prepare() -> Callable[[dict[str, Any]], Any]:
    _guard_sympy()
    import reasoning_gym
    from reasoning_gym.factory import DATASETS

    sys.addaudithook(_refuse)

    @lru_cache(maxsize=128)
    def generator(name: str, seed: int, config: str) -> Any:
        return reasoning_gym.create_dataset(name, seed=seed, size=ENTRIES, **ast.literal_eval(config))

    @lru_cache(maxsize=2000)
    def entry_of(name: str, seed: int, config: str, index: int) -> Any:
        return generator(name, seed, config)[index]

    def handle(request: dict[str, Any]) -> Any:
        if request["do"] == "names":
            return sorted(set(DATASETS) - _LEFT_OUT)
        where = request["entry"]
        key = (where["name"], where["seed"], repr(where["config"]))
        entry = entry_of(*key, where["index"])
        if request["do"] == "make":
            return entry["question"], _answer(entry)
        with _guarded():
            try:
                return float(generator(*key).score_answer(request["answer"], entry))
            except Exception:  # many scorers fail at what they do not expect; that is no right answer
                return 0.0

    return handle


def _answer(entry: dict[str, Any]) -> str | None:
    metadata = entry.get("metadata", {})
    examples = (entry["answer"], metadata.get("example_answer"), metadata.get("example_correct_answer"))
    return next((answer for answer in examples if isinstance(answer, str)), None)


@contextlib.contextmanager
def _guarded() -> Iterator[None]:
    """Have reasoning-gym read literals where it calls `eval`, and refuse what an answer has no need to do."""
    global _scoring
    modules = [module for name, module in sys.modules.items() if name.startswith("reasoning_gym.")]
    for module in modules:
        vars(module)["eval"] = read_literal
    _scoring = True
    try:
        yield
    finally:
        _scoring = False
        for module in modules:
            del vars(module)["eval"]


def _guard_sympy() -> None:
    import sympy
    from sympy.parsing import sympy_parser

    parse = sympy_parser.parse_expr

    def guarded(text: Any, *args: Any, **kwargs: Any) -> Any:
        # sympy parses texts of its own too
        if _scoring and sys._getframe(1).f_globals["__name__"].startswith("reasoning_gym."):
            check_formula(str(text))
        return parse(text, *args, **kwargs)

    sympy_parser.parse_expr = sympy.parse_expr = guarded  # before reasoning-gym takes it from there


def _refuse(event: str, args: tuple[Any, ...]) -> None:
    if not _scoring:
        return
    writing = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if writing or (event.startswith(_FORBIDDEN) and event not in _HARMLESS):
        raise PermissionError(f"{event} while an answer is scored")


if __name__ == "__main__":
    main()
