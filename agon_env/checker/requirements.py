"""What every rule is written with: a requirement that fails says how to mend the game."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from agon_env.contest import Contest

Make: TypeAlias = Callable[[], Contest]
"""Makes a fresh contest."""


def require(holds: bool, message: str) -> None:
    """Raise `AssertionError` unless something holds."""
    if not holds:
        raise AssertionError(message)


def require_raises(kind: type[Exception], call: Callable[[], Any], message: str) -> None:
    """Raise `AssertionError` unless a call raises an error of a kind."""
    try:
        call()
    except kind:
        return
    except Exception as error:
        raise AssertionError(f"{message} (it raised {type(error).__name__}: {error})") from error
    raise AssertionError(f"{message} (nothing was raised)")


def require_json(value: Any, message: str) -> None:
    """Raise `AssertionError` unless a value can be written as JSON."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{message}: {error}") from error
