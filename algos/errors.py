"""The errors of a run that can't begin or go on. Each says what is wrong and what to do."""

from agon_env.errors import Error


class ConfigError(Error, ValueError):
    """A run that can't be: the message names the setting, and what it may be."""


class AlgorithmError(Error, ValueError):
    """An algorithm does not keep its word: the message names its method, what it returned, and what it should."""


class CheckpointError(Error):
    """A run can't go on from what is in its folder."""


class RunStopped(Error, RuntimeError):
    """A run can't go on: the message says why, and what to do. What its last checkpoint holds is sound."""


class Diverged(RunStopped):
    """A policy's updates were not finite several times in a row, or its weights are not."""


class SamplerMismatch(RunStopped):
    """What samples is not the policy that learns: its adapter did not arrive, another was served, or it computes otherwise."""


class BaseChanged(RunStopped):
    """The frozen model is not what it was at the start of the run."""


class IdlePolicyMoved(RunStopped):
    """The update of one policy moved another."""


class OutOfMemory(RunStopped):
    """A batch does not fit into the memory, also in smaller pieces."""


class FolderFailed(RunStopped):
    """The folder of the run can't be written: the disk is full, read-only or gone."""


class WorkersFailed(RunStopped):
    """Workers on other machines do not start, or die over their work."""


class RankLost(RunStopped):
    """One of the processes that learn side by side has died."""
