"""The commands of `agon`, one module each, imported when it is asked for.

A command is a line in `COMMANDS` and the module of its name in this package, which has

- `command`, whose signature and docstring are the command line and its help: a function that returns the exit code,
  or name → function, for a command that has commands of its own;
- or, where more than a signature decides on the flags, `main(args)`, and as `command` the dataclass that it reads.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

DONE = 0
FAILED = 1
"""Exit code for what was tried and failed: a contest breaks a rule, a guard has stopped the run."""
USAGE = 2
"""Exit code for what can't be done as it was asked: a wrong flag, a contest or a folder that does not exist."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it: 128 and the number of the signal."""


@dataclass(frozen=True)
class Command:
    """A line of `agon --help`."""

    group: str
    summary: str


COMMANDS: Mapping[str, Command] = {
    "envs": Command("Look around", "List the contests that can be made, and broken plug-ins."),
    "agents": Command("Look around", "List the players that can be made, and broken plug-ins."),
    "algorithms": Command("Look around", "List the algorithms that train, and broken plug-ins."),
    "new": Command("Make your own", "Begin a game, a player or an algorithm that runs, with a test."),
    "check": Command("Make your own", "Check that a contest keeps the rules that others rely on."),
    "play": Command("Play", "Watch players in a contest, or play in it."),
    "arena": Command("Play", "Hold a tournament of any players, or of a run's checkpoints."),
    "train": Command("Train", "Train policies by letting them compete."),
    "plan": Command("Train", "Say what a training step costs: tokens, FLOPs, memory, seconds."),
    "matrix": Command("Train", "Train and judge every row of the paper's table."),
    "eval": Command("Judge", "Judge the trained policies of a run on held-out problems."),
    "report": Command("Judge", "Write the page of a run, or the page that compares several."),
    "replay": Command("Judge", "Play recorded contests again, and prove every reward."),
    "verify": Command("Judge", "Judge answers or programs of a file again, offline."),
    "export": Command("Use", "Write the policies for others: adapters, cards, chat data."),
    "serve": Command("Use", "Serve the policies of a run to clients of the OpenAI API."),
    "completion": Command("The shell", "Print a script that completes commands and flags in a shell."),
}
"""Name → what `agon --help` says of it, in the order of its groups: at most 66 characters, and the first line of the
command's own help."""


class NoSuchCommand(Exception):
    """The message names the nearest command."""


def run(name: str, args: Sequence[str]) -> int:
    """Run one command and return its exit code.

    Args:
        name: a key of `COMMANDS`.
        args: the arguments after the name.

    Raises:
        NoSuchCommand: there is no such command.
        SystemExit: the arguments can't be read, or ask for help.
    """
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise NoSuchCommand(f"there is no command {name!r}.{hint} agon --help lists them.")
    import tyro  # slow to import

    from algos.commands.flags import checked, readable_help

    module = importlib.import_module(f"{__name__}.{name}")
    if hasattr(module, "main"):
        return int(module.main(args))
    prog, command = f"agon {name}", module.command
    with readable_help(args):
        if isinstance(command, Mapping):
            parts, summary = {part: checked(function) for part, function in command.items()}, COMMANDS[name].summary
            return int(tyro.extras.subcommand_cli_from_dict(parts, args=args, prog=prog, description=summary))
        return int(tyro.cli(checked(command), args=args, prog=prog))
