"""`agon completion`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import make_dataclass
from typing import Annotated, Any, Literal, Union

import tyro

from algos.commands import COMMANDS, DONE


def command(shell: Annotated[Literal["bash", "zsh", "fish", "tcsh"], tyro.conf.Positional]) -> int:
    """Print a script that completes commands and flags in a shell.

    bash: put `eval "$(agon completion bash)"` into ~/.bashrc. zsh: write it to a file `_agon` in a folder of $fpath.
    fish: write it to ~/.config/fish/completions/agon.fish.

    Args:
        shell: the shell that is to read it.
    """
    commands = {name: importlib.import_module(f"algos.commands.{name}").command for name in COMMANDS}
    tyro.cli(_choice(commands), prog="agon", args=["--tyro-print-completion", shell])
    return DONE


def _choice(commands: Mapping[str, Any]) -> Any:
    """Return a type that tyro reads as one of these commands; a mapping among them is a command with commands of its own."""
    members = []
    for name, target in commands.items():
        if isinstance(target, Mapping):
            inner: Any = tyro.conf.OmitSubcommandPrefixes[_choice(target)]  # type: ignore[misc]  # known at run time alone
            target = make_dataclass(name, [("command", inner)])
        members.append(Annotated[Any, tyro.conf.subcommand(name=name, constructor=target)])
    return Union[tuple(members)]  # noqa: UP007  # known at run time alone
