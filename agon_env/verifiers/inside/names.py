"""Which names of a test lead to the program, and which helpers the tests have a copy of."""

from __future__ import annotations

import ast
import builtins
import collections
import copy
import decimal
import fractions
import importlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

from proxies import Remote
from session import PURE_MODULES, Session, own_copy

OWN: dict[str, Any] = {"isclose": math.isclose, "fabs": math.fabs, "deepcopy": copy.deepcopy}
"""Functions that tests call without an import, as if they were builtins."""
CLASSES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(collections.Counter, collections.OrderedDict, collections.defaultdict, collections.deque),
        *(decimal.Decimal, fractions.Fraction),
    )
}
"""The same where it is known what is tested; else one of them may be what is to be written."""
MODULES = PURE_MODULES | {"np", "numpy", "pd", "pandas", "os", "sys", "builtins", "unittest", "pytest"}
"""What a test means by `math.isclose`, `np.allclose`: a module, never an object of the program that is called so."""


class Names:
    """Decides which names of a test lead to the program."""

    def __init__(self, session: Session, copied: ast.AST, trees: Sequence[ast.AST], entry_point: str) -> None:
        self._session = session
        bound = {name for tree in trees for name in bound_names(tree)}
        called = {name for tree in trees for name in called_names(tree)}
        self._own = OWN | CLASSES if entry_point else OWN
        targets = {entry_point} if entry_point else called - bound - vars(builtins).keys() - self._own.keys()
        # a program may define abs() for itself, but a check that calls abs() means the real one, unless
        # the tests call nothing else: then it is what they test
        self._shadowed = frozenset({entry_point} if targets else called)
        self._bound = bound | set(module_names(copied))
        self._given: set[str] = set()

    def fill(self, tree: ast.AST, namespace: dict[str, Any]) -> None:
        """Look up the names that a test reads, and put what they lead to into its namespace."""
        read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        modules = MODULES & set(looked_into(tree)) - self._shadowed
        for name in sorted(read - self._bound - (namespace.keys() - self._given)):
            if name in self._own and name not in self._shadowed:
                namespace[name] = self._own[name]
                continue
            if hasattr(builtins, name) and name not in self._shadowed:
                continue
            found = self._session.look(name)
            if found and isinstance(found[0], Remote):
                found = [own_copy(name, object.__getattribute__(found[0], "_home")) or found[0]]
            if found and name in modules and isinstance(found[0], Remote):
                found = [importlib.import_module(name)] if name in PURE_MODULES else []
            if found:
                namespace[name] = found[0]
                self._given.add(name)
            elif name in self._given:  # the program has deleted it
                del namespace[name]
                self._given.remove(name)


def called_names(tree: ast.AST) -> Iterator[str]:
    """Return the names that a test calls."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


def looked_into(tree: ast.AST) -> Iterator[str]:
    """Return the names of which a test takes an attribute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.value.id


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


def module_names(tree: ast.AST) -> Iterator[str]:
    """Return the names that a text defines for its module, and not for a function or class of it alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name | ast.alias | ast.ExceptHandler):
            yield from bound_names(node)
        elif not isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            yield from module_names(node)


def does_something(node: ast.stmt) -> bool:
    """Whether a statement of a test is more than a definition, an import or a remark."""
    remark = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom | ast.Pass
    return not remark and not isinstance(node, definition)


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
