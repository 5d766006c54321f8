"""The errors of a run that can't begin or go on."""

from agon_env.errors import Error


class ConfigError(Error, ValueError):
    """A run that can't be: the message names the setting, and what it may be."""


class CheckpointError(Error):
    """A run can't go on from what is in its folder."""
