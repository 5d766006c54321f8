"""`train`: one run, from the config to the table before → after."""

from __future__ import annotations

import copy
import platform
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from algos.checkpoint import load_checkpoint, newest_checkpoint, save_checkpoint
from algos.config import TrainConfig, load_config
from algos.console import RunConsole, is_duel
from algos.errors import ConfigError
from algos.parallel.launch import launch, launched
from algos.parallel.ranks import Ranks
from algos.run import Run
from algos.run_folder import NoFolder, RunFolder
from algos.scorecard import wins
from algos.types import Stats

NOTHING_LEARNED = (
    "Nothing was learned: at every step all turns of every group were paid alike. Look at the contests (TensorBoard, Text): "
    "is the task too hard or too easy for the model, are its moves legal, are its texts cut off?"
)
MAY_CHANGE = (
    *("steps", "sample_budget", "eval_every", "checkpoint_every", "output_dir", "name"),
    *("max_rows", "threads", "device", "ranks"),
)
"""Settings that may differ when a run goes on: they change no step that was done."""


class Interrupted(Exception):
    """The run was stopped by the user; the message says what is saved, and how to go on."""

    def __init__(self, run: Path, step: int) -> None:
        """Say what became of the run in the folder `run`, which was stopped after `step` steps."""
        checkpoint = newest_checkpoint(run)
        saved = int(checkpoint.name.removeprefix("step-")) if checkpoint is not None else 0
        if saved == step:
            kept = f"Stopped after step {step}; nothing is lost." if step else "Stopped before the first step was finished."
        else:
            kept = f"Stopped at once. The last checkpoint is that of step {saved}: the steps after it will be made again."
        super().__init__(f"{kept} Go on with:\n  agon train --resume {run}")
        self.run, self._step = run, step

    def __reduce__(self) -> tuple[type[Interrupted], tuple[Path, int]]:  # ranks tell it to who has launched them
        return Interrupted, (self.run, self._step)


def train(config: TrainConfig, *, resume: Path | None = None, console: RunConsole | None = None) -> Path:
    """Train as `config` says, and return the run folder.

    Args:
        config: the run.
        resume: a run folder to go on from. Of its config only what does not change the steps that were done may differ.
        console: where to report.

    Raises:
        Interrupted: Ctrl-C was pressed. The step was finished and what is needed to go on is saved; a second Ctrl-C
            stops at once, so that the steps since the last checkpoint have to be made again.
        ConfigError: the run can't be, or is not the one to go on with.
    """
    if config.ranks > 1 and not launched():
        return launch(_train_rank, config, resume, ranks=config.ranks)
    with Ranks.joined() as ranks:
        if config.ranks not in (1, ranks.size):
            raise ConfigError(f"ranks={config.ranks}, but the launcher has started {ranks.size}: leave ranks out")
        return _train(config, resume, (console or RunConsole()) if ranks.first else RunConsole(Console(quiet=True)))


def _train_rank(config: TrainConfig, resume: Path | None) -> Path:
    return train(config, resume=resume)


def _train(config: TrainConfig, resume: Path | None, console: RunConsole) -> Path:
    if resume is not None:
        _check_same_run(config, load_config(resume))
    run = Run.of(config)
    folder_path = resume or run.ranks.of_first(_new_folder(config))
    if resume is not None:
        load_checkpoint(run, resume)
    folder = RunFolder(folder_path, first_step=run.step) if run.ranks.first else NoFolder()
    folder.write("config.json", config.to_dict())
    console.banner("agon-env", banner_facts(run, folder_path))
    learned, first = 0.0, run.step
    try:
        if run.before is None and config.eval_problems:
            run.before = _judge_aloud(run, folder, console, "before")
            save_checkpoint(run, folder_path)
        with _finish_step_on_interrupt(console) as interrupted, console.progress("step", config.steps, done=run.step) as tick:
            run.engine.progress = tick.sampling
            while not run.finished:
                stats, played = run.advance()
                if config.eval_every and run.step % config.eval_every == 0 and not run.finished:
                    figures = _judge(run, folder)
                    stats |= {f"eval/{name}": value for name, value in figures.items() if isinstance(value, int | float)}
                folder.log(run.step - 1, stats)
                if config.keep_transcripts and (run.step - 1) % config.keep_transcripts == 0:
                    folder.log_contests(run.step - 1, played)
                folder.show(run.step - 1, "contest", played.contests[0])
                tick(run.step, _note(stats, run.contest.roles))
                learned += sum(stats[f"{name}/rows"] for name in run.policies)
                stop = run.ranks.any(bool(interrupted))
                if stop or run.step % config.checkpoint_every == 0:
                    save_checkpoint(run, folder_path)
                if stop:
                    raise Interrupted(folder_path, run.step)
        if run.ranks.first:
            for name, policy in run.policies.items():
                run.learners[name].save(policy, folder_path / name)
        save_checkpoint(run, folder_path)
        if run.before is not None:
            after = _judge_aloud(run, folder, console, "after")
            folder.write("summary.json", {"before": run.before, "after": after})
            title = f"{config.env}, {config.algorithm}, seed {config.seed}"
            console.before_after(run.before, after, roles=run.contest.roles, title=title)
        if not learned and run.step > first:
            console.say(NOTHING_LEARNED)
        console.say(f"Run folder: {folder_path}   (tensorboard --logdir {folder_path.parent})")
    except KeyboardInterrupt:  # in an evaluation, or the second one
        raise Interrupted(folder_path, run.step) from None
    finally:
        folder.close()
    return folder_path


def _check_same_run(config: TrainConfig, before: TrainConfig) -> None:
    changed = [f.name for f in fields(TrainConfig) if getattr(config, f.name) != getattr(before, f.name)]
    if fixed := [name for name in changed if name not in MAY_CHANGE]:
        raise ConfigError(
            f"{fixed[0]} was {getattr(before, fixed[0])!r} and can't become {getattr(config, fixed[0])!r} in the middle of a "
            f"run: begin a new one. When a run goes on, only these may change: {', '.join(MAY_CHANGE)}"
        )


def banner_facts(run: Run, folder: Path) -> dict[str, str]:
    """Return what a person should know before the run begins."""
    config = run.config
    _, info = copy.deepcopy(run.contest).reset(seed=config.seed)
    contests = config.problems * config.group_size * config.answers
    roles = " → ".join(run.contest.roles)
    return {
        "contest": f"{config.env} ({roles}), {run.contest.reward_rule}",
        **({"problems": str(info["source"])} if "source" in info else {}),
        **_model_facts(run),
        "one step": f"{config.problems} problems × {config.group_size} × {config.answers} = {contests} contests, "
        f"then one update of {' and of '.join(run.policies)}",
        "run": f"{config.steps} steps, seed {config.seed}, in {folder}",
        "machine": f"Python {platform.python_version()}, torch {torch.__version__}, {torch.get_num_threads()} threads",
        "note": "the loss is close to 0 at every step, because the samples are fresh; its gradient is not",
    }


def _model_facts(run: Run) -> dict[str, str]:
    if len(run.bases) == 1:
        return dict(run.bases[0].facts())
    owners = {base.name: [name for name, policy in run.policies.items() if policy.base is base] for base in run.bases}
    return {f"{what} of {', '.join(owners[base.name])}": fact for base in run.bases for what, fact in base.facts()}


def _judge(run: Run, folder: RunFolder, on_contest: Callable[[int], None] | None = None) -> dict[str, Any]:
    evaluation, contests = run.evaluate(on_contest)
    for number, contest in enumerate(contests[:4]):
        folder.show(run.step, f"held_out/{number}", contest)
    league = len(run.policies) > len(run.held_out.roles)
    return evaluation.summary() | ({"wins": wins(evaluation.records)} if league else {})


def _judge_aloud(run: Run, folder: RunFolder, console: RunConsole, when: str) -> dict[str, Any]:
    with console.progress(f"evaluate {when}:", run.config.eval_problems) as tick:
        run.engine.progress = tick.sampling
        figures = _judge(run, folder, tick)
    folder.log_evaluation(run.step, figures)
    return figures


def _note(stats: Stats, roles: Sequence[str]) -> str:
    first, last = ("draft", "answer") if is_duel(roles) else (roles[0], roles[-1])
    shown = {first: "pair/draft_pass1", last: "pair/answer_pass1"}
    shown |= {"fix": "pair/fix_rate"} if is_duel(roles) else {}
    shown |= {"held-out": "eval/answer_pass1"}
    parts = [f"{name} {100 * stats[key]:3.0f} %" for name, key in shown.items() if key in stats]
    return "  ".join([*parts, f"{stats['time/step']:.1f} s/step"])


def _new_folder(config: TrainConfig) -> Path:
    """Return a folder that does not exist yet: the run's name, with a number if it is taken."""
    path = Path(config.output_dir) / config.run_name()
    number = 2
    while path.exists():
        path = path.with_name(f"{config.run_name()}-{number}")
        number += 1
    return path


@contextmanager
def _finish_step_on_interrupt(console: RunConsole) -> Iterator[list[int]]:
    """Collect the first Ctrl-C instead of dying of it; the second one is left to Python."""
    caught: list[int] = []
    previous = signal.getsignal(signal.SIGINT)

    def remember(number: int, frame: object) -> None:
        caught.append(number)
        signal.signal(signal.SIGINT, previous)
        console.say(
            "Finishing this step, then saving. Ctrl-C again stops at once, and loses the steps since the last checkpoint."
        )

    if threading.current_thread() is not threading.main_thread():
        yield caught  # only the main thread may set signal handlers
        return
    signal.signal(signal.SIGINT, remember)
    try:
        yield caught
    finally:
        signal.signal(signal.SIGINT, previous)
