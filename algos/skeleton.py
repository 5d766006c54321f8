"""`make_skeleton`: a distribution of your own that runs: a game, a player or an algorithm, with a test."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from agon_env.errors import Error

Kind: TypeAlias = Literal["game", "agent", "algorithm"]

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class _Plugin:
    """How a distribution announces what it holds."""

    group: str
    """The entry-point group."""
    target: str
    """What the entry point leads to in the module; empty: the class."""


_PLUGINS: Mapping[Kind, _Plugin] = {
    "game": _Plugin("agon_env.envs", "register"),
    "agent": _Plugin("agon_env.agents", ""),
    "algorithm": _Plugin("agon_env.algorithms", ""),
}


def make_skeleton(kind: Kind, name: str, folder: Path | None = None) -> Path:
    """Write a small distribution that works, to be changed.

    Args:
        kind: what it holds.
        name: for example "TicTacToe" or "tic-tac-toe": the class is TicTacToe, the module tic_tac_toe.
        folder: where; default: the name of the module, in the current folder.

    Returns:
        The folder, which holds `<module>.py`, `test_<module>.py`, `pyproject.toml` and `README.md`.

    Raises:
        Error: the name can't be used, or the folder holds something.
    """
    words = _words(name)
    module = "_".join(words).lower()
    _check_free(name, module)
    folder = folder or Path(module)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Error(f"{folder} holds something already: name another folder")
    plugin, class_name = _PLUGINS[kind], "".join(word[0].upper() + word[1:] for word in words)
    fields = {
        "name": class_name,
        "module": module,
        "key": module,
        "distribution": "-".join(words).lower(),
        "group": plugin.group,
        "target": plugin.target or class_name,
    }
    folder.mkdir(parents=True, exist_ok=True)
    for template, target in {
        f"{kind}/module.py": f"{module}.py",
        f"{kind}/test_module.py": f"test_{module}.py",
        f"{kind}/README.md": "README.md",
        "pyproject.toml": "pyproject.toml",
    }.items():
        (folder / target).write_text(_render(template, fields), encoding="utf-8")
    return folder


def _render(template: str, fields: Mapping[str, str]) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        variable_start_string="«",  # Python is full of braces
        variable_end_string="»",
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        loader=FileSystemLoader(TEMPLATES),
    )
    return templates.get_template(f"{template}.jinja").render(fields)


def _words(name: str) -> list[str]:
    """Return the words of a name, however it joins them: TicTacToe, tic-tac-toe, tic_tac_toe."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", name) if re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name) else []
    if not words:
        raise Error(f"{name!r} can't name a class and a module: begin with a letter, go on with letters, digits, - and _")
    return words


def _check_free(name: str, module: str) -> None:
    taken = module in sys.stdlib_module_names or importlib.util.find_spec(module) is not None
    if taken or keyword.iskeyword(module):
        raise Error(f"{name!r} would be the module {module!r}, which there is already: choose another name")
