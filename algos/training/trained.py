"""The policies of a run, ready to play: without optimisers, critics or contests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agents.adapter_files import CONFIG_FILE
from agents.engines.torch import TorchEngine
from agents.policy import LLMPolicy
from agents.shared_base import SharedBase
from algos.config import TrainConfig, load_config
from algos.errors import CheckpointError, ConfigError
from algos.playing.policies import load_bases, make_policy
from algos.training.checkpoint import newest_checkpoint


@dataclass(frozen=True)
class Trained:
    """What a run has come to."""

    run: Path
    config: TrainConfig
    policies: dict[str, LLMPolicy]
    """Name → policy, in the algorithm's order."""

    @property
    def bases(self) -> list[SharedBase]:
        """The frozen models, each once."""
        return list({id(policy.base): policy.base for policy in self.policies.values()}.values())

    def policy(self, name: str) -> LLMPolicy:
        """Return the policy of that name.

        Raises:
            ConfigError: there is none; the message names those that there are.
        """
        if name not in self.policies:
            raise ConfigError(f"{self.run} has no policy {name!r}; it has {', '.join(self.policies)}")
        return self.policies[name]


def load_trained(run: str | Path, *, engine: TorchEngine | None = None) -> Trained:
    """Load the newest policies of a run, which play and sample as they did in it.

    Args:
        run: the folder of the run.
        engine: what generates their tokens; default: `TorchEngine`, with the run's `max_rows`.

    Raises:
        FileNotFoundError: the folder holds no run.
        CheckpointError: the run has saved nothing yet.
    """
    run = Path(run)
    config, folders = load_config(run), adapter_folders(run)
    bases = load_bases(config, list(folders), engine or TorchEngine(max_rows=config.max_rows))
    policies = {name: make_policy(bases[name], name, config, adapter=folder) for name, folder in folders.items()}
    return Trained(run, config, policies)


def adapter_folders(run: str | Path) -> dict[str, Path]:
    """Return policy → the folder with its newest adapter, in PEFT's layout.

    Raises:
        FileNotFoundError: the folder holds no run.
        CheckpointError: the run has saved nothing yet.
    """
    run = Path(run)
    names = load_config(run).make_algorithm().policies
    newest = newest_checkpoint(run)
    # A finished run that was gone on with has the newest in its checkpoint. That of step 0 holds nothing that was trained.
    for place in [newest, run] if newest is not None and newest.name != "step-0" else [run]:
        folders = {name: place / name for name in names}
        if all((folder / CONFIG_FILE).is_file() for folder in folders.values()):
            return folders
    raise CheckpointError(f"{run} has saved no policies yet. Go on with: agon train --resume {run}")
