"""`overlay`: a dataclass with some of its fields replaced by plain values, as JSON and YAML have them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from algos.errors import ConfigError

T = TypeVar("T")


def overlay(default: T, record: Mapping[str, Any], *, within: str = "") -> T:
    """Return `default` with the fields that `record` names; fields that are dataclasses are overlaid likewise.

    Args:
        default: a dataclass whose fields have annotations of plain values, tuples of them, or dataclasses.
        record: field → value. Lists become tuples; a number in quotes is one where a float is wanted, because
            YAML reads 1e-4 as a text.
        within: what the field names of an error begin with.

    Raises:
        ConfigError: there is no such field, or its value has another type.
    """
    if not isinstance(record, Mapping):
        raise ConfigError(f"{within.rstrip('.') or 'it'} must be a mapping of fields to values, not {record!r}")
    hints = get_type_hints(type(default))
    known = {field.name for field in fields(default)}  # type: ignore[arg-type]  # T is a dataclass, which no bound can say
    values = {}
    for name, value in record.items():
        if name not in known:
            raise ConfigError(
                f"{type(default).__name__} has no field {within + str(name)!r}; it was written by another version, "
                f"or misspelt.{_hint(str(name), default, within)}"
            )
        current = getattr(default, name)
        if is_dataclass(current):
            values[name] = overlay(current, value, within=f"{within}{name}.")
        else:
            values[name] = read_value(hints[name], value, f"{within}{name}")
    try:
        return replace(default, **values)  # type: ignore[type-var]
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"{within}{error}") from error


def read_value(hint: Any, value: Any, name: str) -> Any:
    """Return `value` as the type that `hint` names.

    Raises:
        ConfigError: it has another type; the message names the field.
    """
    if get_origin(hint) is tuple and isinstance(value, list | tuple):
        kinds = get_args(hint)
        kinds = (kinds[0],) * len(value) if kinds[-1] is Ellipsis else kinds
        if len(kinds) == len(value):
            return tuple(read_value(kind, item, name) for kind, item in zip(kinds, value, strict=True))
    choices = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    for choice in choices:
        if get_origin(choice) is Literal and value in get_args(choice):
            return value
        if isinstance(choice, type) and type(value) is choice:
            return value
    if float in choices and isinstance(value, int | str) and not isinstance(value, bool):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    raise ConfigError(f"{name} must be {_describe(hint)}, not {value!r}")


def _describe(hint: Any) -> str:
    if get_origin(hint) is tuple:
        of_any_length = get_args(hint)[-1] is Ellipsis
        return f"a list of {'' if of_any_length else f'{len(get_args(hint))} '}values, each {_describe(get_args(hint)[0])}"
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_describe(choice) for choice in get_args(hint))
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    if hint is NoneType:
        return "null"
    return {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}.get(hint, str(hint))


def _hint(name: str, default: Any, within: str) -> str:
    """Return a sentence that names the fields that may be meant, here or one level deeper; empty if there is none."""
    paths = {field.name: [field.name] for field in fields(default)}
    for field in fields(default):
        if is_dataclass(inner := getattr(default, field.name)):
            for deeper in fields(inner):
                paths.setdefault(deeper.name, []).append(f"{field.name}.{deeper.name}")
    near = difflib.get_close_matches(name.replace("-", "_"), paths, n=1)
    return f" Did you mean {' or '.join(repr(within + path) for path in paths[near[0]])}?" if near else ""
