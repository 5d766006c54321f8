"""Constants of integration: x² + C and x² + k are the same family."""

from __future__ import annotations

import functools
import re

from agon_env.verifiers.expression import Expr, symbols

_NAME = re.compile(r"[CcKk](_\w)?")


def with_constant_of(gold: Expr, answer: Expr) -> Expr:
    """Return `answer` with its constant named as the gold's, if each has one: an addend of its own, in the gold a C."""
    mine, theirs = _constants(gold), _constants(answer)
    if len(mine) != 1 or len(theirs) != 1 or mine == theirs or not mine[0].startswith("C"):
        return answer
    if any(name[0].isupper() for name in symbols(gold) - {*mine}):
        return answer  # A + B + C
    terms = [("sym", mine[0]) if term == ("sym", theirs[0]) else term for term in _addends(answer)]
    return functools.reduce(lambda left, right: ("add", left, right), terms)


def _constants(expression: Expr) -> list[str]:
    terms = _addends(expression)
    names = [term[1] for term in terms if term[0] == "sym" and _NAME.fullmatch(term[1])]
    elsewhere: set[str] = set().union(*(symbols(term) for term in terms if term[0] != "sym"))
    return [name for name in names if len(terms) > 1 and name not in elsewhere]


def _addends(expression: Expr) -> list[Expr]:
    return [*_addends(expression[1]), *_addends(expression[2])] if expression[0] == "add" else [expression]
