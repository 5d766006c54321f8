"""The console script `agon`: from the arguments to an exit code, with sentences instead of tracebacks.

| exit code | means |
|---|---|
| 0 | done |
| 1 | it was tried and failed: a contest breaks a rule, a guard has stopped the run, the disk is full |
| 2 | it can't be done as it was asked: a wrong flag, a contest or a folder that does not exist |
| 130 | stopped by Ctrl-C (SIGINT) |
| 143 | stopped by SIGTERM |
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from algos.commands import COMMANDS, DONE, FAILED, INTERRUPTED, USAGE, NoSuchCommand
from algos.commands import run as run_command

if TYPE_CHECKING:
    from algos.config import TrainConfig


def main() -> None:
    """Run `agon` with the arguments of the process, and exit."""
    sys.exit(run(sys.argv[1:]))


def run(args: Sequence[str]) -> int:
    """Run `agon` with these arguments and return the exit code; see the table above."""
    if not args or args[0] in ("-h", "--help"):
        print_help()
        return DONE if args else USAGE
    if args[0] == "--version":
        from importlib.metadata import version

        print(f"agon-env {version('agon-env')}")
        return DONE
    return _friendly(lambda: run_command(args[0], args[1:]))


def train(args: Sequence[str] | None = None, *, default: TrainConfig | None = None, description: str | None = None) -> int:
    """Run `agon train` with a config of your own.

    Args:
        args: the arguments; default: those of the process.
        default: what the arguments override; default: the preset `tiny`.
        description: what `--help` says first.

    Returns:
        The exit code.
    """
    from algos.commands import train as command

    given = sys.argv[1:] if args is None else args
    return _friendly(lambda: command.main(given, default=default, description=description, prog=None))


def matrix(args: Sequence[str] | None = None, *, description: str | None = None) -> int:
    """Run `agon matrix`; see `train`."""
    from algos.commands import matrix as command

    given = sys.argv[1:] if args is None else args
    return _friendly(lambda: command.main(given, description=description, prog=None))


def print_help() -> None:
    """Print what `agon` can do, a line for each command."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    console.print(Text("Contests between language models, and training models by letting them compete."))
    console.print(Text("\nagon COMMAND …      agon COMMAND --help explains a command; agon --version"))
    for group in dict.fromkeys(command.group for command in COMMANDS.values()):
        lines = Table(box=None, show_header=False, padding=(0, 0, 0, 2))
        lines.add_column(style="bold cyan", min_width=max(map(len, COMMANDS)), no_wrap=True)
        lines.add_column()
        for name, command in COMMANDS.items():
            if command.group == group:
                lines.add_row(name, Text(command.summary))
        console.print(Text(f"\n{group}", style="bold"))
        console.print(lines)


def _friendly(command: Callable[[], int]) -> int:
    """Run a command; what a wrong argument leads to gets a sentence instead of a traceback."""
    from agon_env.errors import Error
    from algos.errors import RunStopped

    if not sys.stderr.isatty():  # read when transformers is imported: a log has no use for bars
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        with _printable_warnings():
            return command()
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        _complain("stopped")
        return INTERRUPTED
    except RunStopped as error:
        _complain(str(error))
        return FAILED
    except (Error, NoSuchCommand, *_WRONG_PATH) as error:
        _complain(str(error))
        return USAGE


_WRONG_PATH = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)


@contextmanager
def _printable_warnings() -> Iterator[None]:
    """Have warnings written so that nothing in them acts on the terminal: they may quote a file.

    Where in the source an ordinary one was raised says nothing to who gives a command, and is left out.
    """
    from agon_env.printable import printable

    as_before = warnings.formatwarning

    def written(message: Warning | str, category: type[Warning], *args: Any, **how: Any) -> str:
        whole = f"agon: {message}\n" if category is UserWarning else as_before(message, category, *args, **how)
        return printable(whole)

    warnings.formatwarning = written
    try:
        yield
    finally:
        warnings.formatwarning = as_before


def _complain(what: str) -> None:
    from rich.console import Console
    from rich.text import Text

    from agon_env.printable import printable  # a sentence may quote what a file or a model says

    Console(stderr=True).print(Text(printable(f"agon: {what}")), soft_wrap=True)  # a broken path can't be copied


if __name__ == "__main__":
    main()
