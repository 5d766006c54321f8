"""The errors of this package. All derive from `gymnasium.error.Error`."""

from gymnasium.error import (
    DependencyNotInstalled,
    DeprecatedEnv,
    Error,
    InvalidAction,
    NameNotFound,
    NamespaceNotFound,
    RegistrationError,
    ResetNeeded,
    UnregisteredEnv,
    VersionNotFound,
)

__all__ = [
    "DependencyNotInstalled",
    "DeprecatedEnv",
    "EpisodeOver",
    "Error",
    "InvalidAction",
    "InvalidMove",
    "NameNotFound",
    "NamespaceNotFound",
    "RegistrationError",
    "ResetNeeded",
    "TaskError",
    "TranscriptError",
    "UnregisteredEnv",
    "VersionNotFound",
]


class EpisodeOver(Error):
    """`step` was called after the contest had ended. Call `reset` first."""


class InvalidMove(Error):
    """Raised by a game's `apply` when a text is not a legal move; the contest's policy decides what follows."""


class TaskError(Error):
    """A task could not be loaded, or a row of it can't be used."""


class TranscriptError(Error):
    """A transcript could not be read, or does not replay to what it says."""
