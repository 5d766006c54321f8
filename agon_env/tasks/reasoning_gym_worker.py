"""The process that makes and scores the problems of reasoning-gym; run by `agon_env.verifiers.pool`.

Some scorers of reasoning-gym call `eval` or sympy's `parse_expr` (which is `eval`) on the answer of the model. Here
such an answer is read as a literal or as a formula, or refused; and while an answer is scored, the process can
start no other one, open no connection and write no file.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from agon_env.verifiers.worker import serve

_FORMULA = re.compile(r"[A-Za-z0-9_+\-*/^().,!= \t\n]*")
_NAME = re.compile(r"[A-Za-z_]\w*")
_ATTRIBUTE = re.compile(r"\.\s*[A-Za-z_]")
_KNOWN_NAMES = {
    "sqrt", "cbrt", "sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh",
    "atanh", "exp", "log", "ln", "pi", "Abs", "Rational", "Integer", "Float", "factorial",
}  # fmt: skip
_MAX_FORMULA = 2000
_FORBIDDEN = ("os.", "subprocess.", "socket.", "ctypes.", "shutil.", "pty.", "signal.", "import")
_READING = frozenset("rbtU")

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
    if len(text) > _MAX_FORMULA or not _FORMULA.fullmatch(text) or strange or _ATTRIBUTE.search(text):
        raise ValueError("not a formula")


def _prepare() -> Callable[[dict[str, Any]], Any]:
    _guard_sympy()
    import reasoning_gym
    from reasoning_gym.factory import DATASETS

    for name, module in list(sys.modules.items()):
        if name.startswith("reasoning_gym."):
            vars(module).setdefault("eval", _eval)
    sys.addaudithook(_refuse)

    @cache
    def generator(name: str, seed: int, config: str) -> Any:
        return reasoning_gym.create_dataset(name, seed=seed, size=10_000, **ast.literal_eval(config))

    @cache
    def entry_of(name: str, seed: int, config: str, index: int) -> Any:
        return generator(name, seed, config)[index]

    def handle(request: dict[str, Any]) -> Any:
        global _scoring
        if request["do"] == "names":
            return sorted(name for name in DATASETS if name != "composite")
        where = request["entry"]
        key = (where["name"], where["seed"], repr(where["config"]))
        if len(sys.modules) and entry_of.cache_info().currsize > 5000:
            entry_of.cache_clear()
        entry = entry_of(*key, where["index"])
        if request["do"] == "make":
            return entry["question"], _answer(entry)
        scorer = generator(*key)
        _scoring = True
        try:
            return float(scorer.score_answer(request["answer"], entry))
        finally:
            _scoring = False

    return handle


def _answer(entry: dict[str, Any]) -> str | None:
    examples = (entry["answer"], *(entry.get("metadata", {}).get(key) for key in ("example_answer", "example_correct_answer")))
    return next((answer for answer in examples if isinstance(answer, str)), None)


def _eval(source: Any, *scopes: Any) -> Any:
    """Evaluate what a generator wrote; read what a model wrote as a literal."""
    return (
        ast.literal_eval(source)
        if _scoring
        else eval(source, *(scopes or (sys._getframe(1).f_globals, sys._getframe(1).f_locals)))
    )


def _guard_sympy() -> None:
    import sympy
    from sympy.parsing import sympy_parser

    parse = sympy_parser.parse_expr

    def guarded(text: Any, *args: Any, **kwargs: Any) -> Any:
        if _scoring:
            check_formula(str(text))
        return parse(text, *args, **kwargs)

    sympy_parser.parse_expr = sympy.parse_expr = guarded  # before reasoning-gym takes it from there


def _refuse(event: str, args: tuple[Any, ...]) -> None:
    if not _scoring:
        return
    writing = event == "open" and isinstance(args[1], str) and not set(args[1]) <= _READING
    if writing or event.startswith(_FORBIDDEN[:-1]):
        raise PermissionError(f"{event} while an answer is scored")


if __name__ == "__main__":
    main()
