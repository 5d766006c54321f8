"""The console script `agon`: what is registered, checks, training, evaluation."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agon_env.errors import Error

if TYPE_CHECKING:
    from agon_env.registration import ContestSpec
    from agon_env.verifiers.rescoring import Judge
    from algos.config import TrainConfig

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""
LARGE_NAMESPACE = 8
"""`agon envs` gives a namespace with more contests than these one line."""


def envs(all: bool = False) -> int:
    """List the contests that can be made, and the plug-ins that can't be loaded.

    Args:
        all: also list each contest of a large namespace.
    """
    import agon_env

    specs = [agon_env.spec(id) for id in agon_env.list_envs()]
    members = Counter(spec.namespace for spec in specs if spec.namespace)
    folded = {namespace for namespace, count in members.items() if count > LARGE_NAMESPACE and not all}
    shown = [spec for spec in specs if spec.namespace not in folded]
    rows = [(spec.id, ", ".join(f"{key}={value!r}" for key, value in spec.kwargs.items())) for spec in shown]
    rows += [(f"{namespace}/*", f"{members[namespace]} contests; list them with --all") for namespace in folded]
    _print_table(("contest", "made with"), sorted(rows))
    for options, ids in _by_options(shown).items():
        of_task = ", and the options of the task" if "task" in options else ""
        Console().print(Text(f"\n{', '.join(ids)}\n  take the options {', '.join(options) or 'none'}{of_task}"))
    return _report_broken(agon_env.broken_plugins())


def list_agents() -> int:
    """List the agents that can be made, and the plug-ins that can't be loaded."""
    import agents

    _print_table(("agent", "what it is"), sorted(agents.list_agents().items()))
    return _report_broken(agents.broken_plugins())


def check(env: Annotated[str, tyro.conf.Positional]) -> int:
    """Check that a contest keeps the rules that players and trainers rely on.

    Args:
        env: id of the contest; "module:Name-v0" imports the module first.
    """
    import agon_env

    try:
        agon_env.check_env(env)
    except AssertionError as broken:
        Console(stderr=True).print(Text(f"{env} breaks a rule: {broken}"))
        return 1
    Console().print(Text(f"{env} keeps the rules."))
    return 0


def evaluate(
    run: Annotated[Path, tyro.conf.Positional],
    problems: int | None = None,
    samples: int = 1,
    against: tuple[str, ...] = (),
    seed: int = 0,
) -> int:
    """Judge the trained policies of a run on held-out problems; prints the figures as JSON.

    Args:
        run: folder of the run.
        problems: held-out problems to play. Default: as many as the run was judged on.
        samples: contests on each problem; from 2 on there are pass@k, majority votes and how often drafts disagree.
        against: also play against these, which stand still: base, oracle, random, copycat, or any agent.
        seed: the same seed plays the same contests.
    """
    from algos.checkpoint import newest_checkpoint
    from algos.config import load_config
    from algos.errors import CheckpointError, ConfigError
    from algos.run import Run
    from algos.scorecard import scorecard

    config = load_config(run)
    problems = config.eval_problems if problems is None else problems
    if problems < 1:
        raise ConfigError("there is nothing to judge the run on: name a number of held-out problems, --problems 512")
    if samples < 1:
        raise ConfigError(f"samples must be at least 1, not {samples}")
    checkpoint = newest_checkpoint(run)
    finished = all((run / name).is_dir() for name in config.make_algorithm().policies)
    if not finished and (checkpoint is None or checkpoint.name == "step-0"):
        raise CheckpointError(
            f"{run} has not saved a step yet, so there is nothing to judge. Go on with: agon train --resume {run}"
        )
    trained = Run.of(dataclasses.replace(config, eval_problems=problems, seed=seed))
    for name, policy in trained.policies.items():  # a finished run that was gone on with has the newest in its checkpoint
        policy.base.load_adapter(name, (checkpoint or run) / name)
    card = scorecard(trained, samples=samples, against=against)
    print(json.dumps({"run": str(run), "env": config.env, **card}, indent=2))
    return 0


def verify_code(
    file: Annotated[Path, tyro.conf.Positional],
    workers: int = os.cpu_count() or 1,
    deadline: float = 4.0,
    allow_unisolated: bool = False,
) -> int:
    """Judge programs: prints one JSON line for each row of a JSONL file, in order, and a summary last.

    Args:
        file: rows with `kind` ("stdio", "assert" or "call"), `tests` and `program`; see docs/verifiers-code.md.
        workers: programs that are judged at a time.
        deadline: seconds of processor time for each run of a program.
        allow_unisolated: run the programs even if this machine can't shut them off.
    """
    from agon_env.verifiers.code import CodeVerifier, judge_row

    verifier = CodeVerifier(allow_unisolated=allow_unisolated).with_deadline(deadline)
    holds = verifier.sandbox.protections()
    missing = [what for what, protected in holds.items() if not protected]
    Console(stderr=True, highlight=False).print(
        Text(f"sandbox: {verifier.sandbox.isolation}; without protection: {', '.join(missing) or 'nothing'}")
    )
    return _verify(file, lambda row: judge_row(verifier, row), workers=workers)


def verify_math(
    file: Annotated[Path, tyro.conf.Positional], workers: int = max(1, (os.cpu_count() or 2) // 2), deadline: float = 3.0
) -> int:
    """Judge mathematical answers: prints one JSON line for each row of a JSONL file, in order, and a summary last.

    Args:
        file: rows with `gold` and `completion`; see docs/verifiers.md.
        workers: processes that compare formulas side by side.
        deadline: seconds for one verdict.
    """
    from agon_env.verifiers.math import MathVerifier, judge_row
    from agon_env.verifiers.pool import resize

    resize(max(1, workers))
    verifier = MathVerifier(deadline=deadline)
    return _verify(file, lambda row: judge_row(verifier, row), workers=workers)


VERIFIERS: Mapping[str, Any] = {"math": verify_math, "code": verify_code}
"""The commands of `agon verify`."""


def train(args: Sequence[str] | None = None, *, default: TrainConfig | None = None, description: str | None = None) -> int:
    """Train policies by letting them compete. `agon train --help` lists every setting.

    Args:
        args: command-line arguments; default: those of the process.
        default: what the arguments override; default: the preset `tiny`.
        description: what `--help` says first.

    Returns:
        The exit code: 0, 2 for what can't be done, 130 after Ctrl-C.
    """
    return _friendly(lambda: _train(args, default, description or "Train policies by letting them compete"))


def _train(args: Sequence[str] | None, default: TrainConfig | None, description: str) -> int:
    from algos.config import TINY, parse_config

    config, resume = parse_config(args, default=default or TINY, description=description)
    from algos.trainer import Interrupted
    from algos.trainer import train as run_training

    try:
        run_training(config, resume=resume)
    except Interrupted as stopped:
        Console().print(Text(f"\n{stopped}"), soft_wrap=True)
        return INTERRUPTED
    return 0


def matrix(args: Sequence[str] | None = None, *, description: str | None = None) -> int:
    """Train and judge every row of the paper's table. `agon matrix --help` lists every setting.

    Args:
        args: command-line arguments; default: those of the process.
        description: what `--help` says first.

    Returns:
        The exit code: 0, 2 for what can't be done, 130 after Ctrl-C.
    """
    return _friendly(lambda: _matrix(args, description or "Train and judge every row of the paper's table"))


def _matrix(args: Sequence[str] | None, description: str) -> int:
    from rich.markdown import Markdown

    from algos.matrix import parse_matrix, run_matrix
    from algos.matrix_report import markdown
    from algos.trainer import Interrupted

    config = parse_matrix(args, description=description)
    try:
        results = run_matrix(config)
    except (Interrupted, KeyboardInterrupt):
        Console().print(Text(f"\nStopped. The same command goes on; what is finished is in {config.output_dir}."))
        return INTERRUPTED
    Console().print(Markdown(markdown(results, brief=True)))
    Console().print(Text(f"{config.output_dir}: results.json, table.md, table.png"))
    return 0


def main() -> None:
    """Run `agon`. The exit code is 1 for a check that failed, 2 for what can't be done, 130 after Ctrl-C."""
    sys.exit(_friendly(lambda: _run(sys.argv[1:])))


def _friendly(command: Callable[[], int]) -> int:
    """Run a command; what a wrong argument leads to gets a sentence instead of a traceback."""
    try:
        return command()
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (Error, FileNotFoundError) as error:
        Console(stderr=True).print(Text(f"agon: {error}"))
        return 2


def _run(args: Sequence[str]) -> int:
    if args[:1] == ["train"]:  # its flags depend on the preset, so it reads them itself
        return train(args[1:])
    if args[:1] == ["matrix"]:
        return matrix(args[1:])
    if args[:1] == ["verify"]:  # it has commands of its own
        return _command(VERIFIERS, args[1:], prog="agon verify", description="Judge the rows of a file again.")
    commands: dict[str, Any] = {
        "envs": envs,
        "agents": list_agents,
        "check": check,
        "train": _train_help,
        "eval": evaluate,
        "matrix": _matrix_help,
        "verify": _verify_help,
    }
    return _command(commands, args, prog="agon", description="Contests between language models.")


def _command(commands: Mapping[str, Any], args: Sequence[str], *, prog: str, description: str) -> int:
    return int(tyro.extras.subcommand_cli_from_dict(dict(commands), args=args, prog=prog, description=description))


def _verify(file: Path, judge: Judge, *, workers: int) -> int:
    """Print the results of judging the rows of `file` and a summary; the progress is shown on a terminal."""
    from agon_env.verifiers.rescoring import summary, verify_lines
    from algos.console import RunConsole

    if not file.is_file():
        raise FileNotFoundError(f"there is no file {file}")
    start = time.monotonic()
    results = []
    # newline="\n": other characters that Python calls line breaks, such as U+2028, are text
    with open(file, encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
        total = sum(1 for line in lines if line.strip())
        lines.seek(0)
        console = Console(stderr=True)
        with contextlib.ExitStack() as stack:
            tick = stack.enter_context(RunConsole(console).progress("verify", total)) if console.is_terminal else None
            for result in verify_lines(lines, judge, workers=workers):
                results.append(result)
                print(json.dumps(result), flush=True)
                if tick:
                    tick(len(results))
    print(json.dumps(summary(results, seconds=time.monotonic() - start)))
    return 0


def _verify_help() -> int:
    """Judge the rows of a file again, offline; `agon verify --help` lists the kinds."""
    return _command(VERIFIERS, ["--help"], prog="agon verify", description="Judge the rows of a file again.")


def _matrix_help() -> int:
    """Train and judge every row of the paper's table; `agon matrix --help` lists every setting."""
    return matrix([])


def _train_help() -> int:
    """Train policies by letting them compete; `agon train --help` lists every setting."""
    return train([])


def _by_options(specs: Iterable[ContestSpec]) -> dict[tuple[str, ...], list[str]]:
    """Return options → the contests that take them; a contest whose entry point can't be imported is left out."""
    takers: dict[tuple[str, ...], list[str]] = {}
    for spec in specs:
        with contextlib.suppress(ImportError, AttributeError):
            takers.setdefault(spec.option_names(), []).append(spec.id)
    return takers


def _print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    rows = list(rows)
    table = Table(box=None, pad_edge=False)
    longest = max(len(row[0]) for row in rows)
    table.add_column(columns[0], no_wrap=True)
    for column in columns[1:]:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    # On a narrow terminal a line may be too long, but an id that is copied from here must be whole.
    Console(width=max(Console().width, longest + 30)).print(table)


def _report_broken(plugins: Mapping[str, str]) -> int:
    for name, why in plugins.items():
        Console(stderr=True).print(Text(f"broken plug-in {name}: {why}"))
    return 0
