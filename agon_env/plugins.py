"""Plug-ins: what installed distributions add through entry points, read when it is first missed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Plugins:
    """The entry points of one group, read at most once; a broken one is kept with its reason and harms nobody.

    Example:
        In the `pyproject.toml` of a plug-in::

            [project.entry-points."agon_env.envs"]
            my_games = "my_games:register"
    """

    def __init__(self, group: str, accept: Callable[[str, Any], None]) -> None:
        """Name the group, and the function that takes `(name, loaded object)`.

        Args:
            group: the entry-point group, for example "agon_env.envs".
            accept: registers what an entry point led to; may raise.
        """
        self.group = group
        self.broken: dict[str, str] = {}
        """Name of the entry point → why it could not be loaded."""
        self.reading = False
        self._accept = accept
        self._read = False

    def load(self) -> None:
        """Load every plug-in, the first time that this is called."""
        if self._read:
            return
        from importlib.metadata import entry_points  # slow to import

        self._read = self.reading = True
        try:
            for point in sorted(entry_points(group=self.group), key=lambda point: (point.name, point.value)):
                self._load_one(point.name, point.value, point.load)
        finally:
            self.reading = False

    def complaints(self) -> str:
        """Return a sentence about the broken plug-ins, for an error message; empty when there are none."""
        reasons = "; ".join(f"{name} ({reason})" for name, reason in self.broken.items())
        return f" These plug-ins could not be loaded: {reasons}." if reasons else ""

    def _load_one(self, name: str, target: str, load: Callable[[], Any]) -> None:
        try:
            self._accept(name, load())
        except (Exception, SystemExit) as error:  # a plug-in is foreign code: whatever it raises is its own affair
            self.broken[name] = f"{target}: {type(error).__name__}: {error}"
