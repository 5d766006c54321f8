"""Weights that must not move: the frozen base over the whole run, and every policy while another one is updated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from algos.errors import BaseChanged, IdlePolicyMoved

if TYPE_CHECKING:
    from agents.shared_base import SharedBase


class FrozenBases:
    """The checksums of the base models, as they were when the run began."""

    def __init__(self, bases: Iterable[SharedBase]) -> None:
        """Know the bases; they are looked at when it is first asked, since reading a large model takes its time."""
        self._bases = {base.name: base for base in bases}
        self._then: dict[str, str] = {}

    @property
    def checksums(self) -> dict[str, str]:
        """Name of the base → SHA-256 over its weights, at the beginning."""
        self._then = self._then or self._now()
        return self._then

    def check(self) -> None:
        """Look again; the first look takes the weights as they are for right.

        Raises:
            BaseChanged: a base is not what it was; the message names it.
        """
        now = self._now()
        self._then = self._then or now
        for name, checksum in now.items():
            if checksum != self._then[name]:
                raise BaseChanged(
                    f"the frozen weights of {name} have changed since the run began, so that neither its policies nor their "
                    "reference are what they were. Something wrote into the model (a merge, an engine, a hook): nothing was "
                    "saved from here on; go on from the last checkpoint when it is found"
                )

    def require(self, checksums: Mapping[str, str]) -> None:
        """Check that these are the models that a checkpoint was trained on.

        Raises:
            BaseChanged: one is another model.
        """
        for name, checksum in self.checksums.items():
            if checksums.get(name, checksum) != checksum:
                raise BaseChanged(
                    f"{name} is another model than the one that this run was begun on: its weights have another checksum. Put "
                    "that one back (a hub id may have been updated: name its revision), or begin a new run"
                )

    def _now(self) -> dict[str, str]:
        return {name: base.checksum() for name, base in self._bases.items()}


class IdleWatch:
    """Notices when the update of one policy moves the weights of another."""

    def __init__(self, groups: Mapping[str, tuple[str, Sequence[Tensor]]]) -> None:
        """Watch groups of tensors.

        Args:
            groups: name of the group → who alone may move it, and its tensors.
        """
        self._groups = dict(groups)
        self._seen = {name: _fingerprint(tensors) for name, (_, tensors) in self._groups.items()}

    def updated(self, owner: str) -> None:
        """Check, after `owner` was updated, that nothing of anybody else has moved since the last look.

        Raises:
            IdlePolicyMoved: something has; the message names it.
        """
        for name, (mover, tensors) in self._groups.items():
            now = _fingerprint(tensors)
            if mover != owner and not torch.equal(now, self._seen[name]):
                raise IdlePolicyMoved(
                    f"the update of {owner!r} has moved {name!r}, which was idle. They share parameters or an optimiser, or "
                    "something else writes into its weights: nothing was saved from here on; go on from the last checkpoint "
                    "when it is found"
                )
            self._seen[name] = now

    def look(self) -> None:
        """Take the weights as they are now, for example after they were loaded."""
        self._seen = {name: _fingerprint(tensors) for name, (_, tensors) in self._groups.items()}


def _fingerprint(tensors: Sequence[Tensor]) -> Tensor:
    """Return a number for each tensor that changes when its weights do; NaN counts as one value."""
    with torch.no_grad():
        return torch.stack(torch._foreach_norm(list(tensors))).nan_to_num(nan=-1.0)
