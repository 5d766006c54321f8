"""`agon train`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from rich.text import Text

from algos.commands import DONE
from algos.commands.flags import readable_help
from algos.config import PRESETS, TINY, TrainConfig, load_config
from algos.errors import ConfigError
from algos.parallel.ray_config import LOCAL
from algos.training.config_file import read_config_file, write_config_file

if TYPE_CHECKING:
    Preset = str
else:
    Preset = tyro.extras.literal_type_from_choices(PRESETS)


@dataclass(frozen=True)
class Start:
    """What the other flags override."""

    preset: Preset | None = None
    """A complete config of this name."""
    config: Path | None = None
    """A YAML or JSON file with fields of the config, laid over the preset; `config.json` of a run is one."""
    resume: Path | None = None
    """Go on with the run in this folder, with its config."""
    write_config: Path | None = None
    """Write the config to this file (.yaml or .json) and train nothing."""


@dataclass(frozen=True)
class TrainArgs:
    """Train policies by letting them compete."""

    start: Annotated[Start, tyro.conf.arg(name="")] = field(default_factory=Start)
    run: Annotated[TrainConfig, tyro.conf.arg(name="")] = field(default_factory=lambda: TINY)


command = TrainArgs


def main(
    args: Sequence[str], *, default: TrainConfig | None = None, description: str | None = None, prog: str | None = "agon train"
) -> int:
    """Train policies by letting them compete.

    Args:
        args: the arguments.
        default: what they override; default: the preset `tiny`.
        description: what `--help` says first.
        prog: what it calls the command; None: the name of the script.
    """
    text = description or "Train policies by letting them compete."
    parsed = parse(args, default=default or TINY, description=text, prog=prog)
    if parsed.start.write_config is not None:
        write_config_file(parsed.run, parsed.start.write_config)
        Console().print(Text(f"wrote {parsed.start.write_config}"), soft_wrap=True)
        return DONE
    from algos.trainer import Interrupted, train

    try:
        train(parsed.run, resume=parsed.start.resume)
    except Interrupted as stopped:
        Console().print(Text(f"\n{stopped}"), soft_wrap=True)
        return stopped.exit_code
    return DONE


def parse(
    args: Sequence[str], *, default: TrainConfig = TINY, description: str | None = None, prog: str | None = None
) -> TrainArgs:
    """Read a config from the command line: every field is a flag, which overrides what the run starts from.

    Args:
        args: the arguments.
        default: the config that counts when neither a preset nor a run is named.
        description: what `--help` says first.
        prog: what the help calls the command; None: the name of the script.

    Raises:
        ConfigError: the config can't be.
        FileNotFoundError: a file or a run that is named does not exist.
    """
    args = with_address(args)
    # What the flags override has to be known before they are read: it is what the help shows as their defaults.
    first = argparse.ArgumentParser(prog=prog, add_help=False, allow_abbrev=False)
    first.add_argument("--preset")
    first.add_argument("--config", type=Path)
    first.add_argument("--resume", type=Path)
    start, _ = first.parse_known_args(args)
    if start.resume is not None:
        if start.preset is not None or start.config is not None:
            raise ConfigError("a run goes on with its own config: leave out --preset and --config beside --resume")
        default = load_config(start.resume)
    default = PRESETS.get(start.preset, default)
    if start.config is not None:
        default = read_config_file(start.config, default=default)
    with readable_help(args):
        return tyro.cli(TrainArgs, args=args, default=TrainArgs(run=default), description=description, prog=prog)


def with_address(args: Sequence[str]) -> list[str]:
    """Write `--ray` and `--ray ADDRESS` as the flag that they are short for; without an address it is this machine."""
    found: list[str] = []
    for place, arg in enumerate(args):
        bare = place + 1 == len(args) or args[place + 1].startswith("-")
        found += (["--ray.address", LOCAL] if bare else ["--ray.address"]) if arg == "--ray" else [arg]
    return found
