"""`train`: one run, from the config to the table before → after."""

from __future__ import annotations

import copy
import platform
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from algos.config import TrainConfig, load_config
from algos.errors import ConfigError
from algos.evaluation.scorecard import wins
from algos.events import Event
from algos.imitation import imitate
from algos.parallel.launch import launch, launched
from algos.parallel.ranks import Ranks
from algos.training.checkpoint import load_checkpoint, save_checkpoint
from algos.training.console import RunConsole
from algos.training.interruption import Interrupted, finish_step_on_signal
from algos.training.resuming import check_same_run
from algos.training.run import Run
from algos.training.run_folder import NoFolder, RunFolder, writing

__all__ = ["Interrupted", "banner_facts", "train"]

NOTHING_LEARNED = (
    "Nothing was learned: at every step all turns of every group were paid alike. Look at the contests (TensorBoard, Text): "
    "is the task too hard or too easy for the model, are its moves legal, are its texts cut off?"
)


def train(config: TrainConfig, *, resume: str | Path | None = None, console: RunConsole | None = None) -> Path:
    """Train as `config` says, and return the run folder.

    Args:
        config: the run.
        resume: a run folder to go on from. Of its config only what does not change the steps that were done may differ.
        console: where to report.

    Raises:
        Interrupted: Ctrl-C was pressed, or SIGTERM came. The step was finished and what is needed to go on is saved; a
            second signal stops at once, so that the steps since the last checkpoint have to be made again.
        ConfigError: the run can't be, or is not the one to go on with.
        CheckpointError: there is nothing sound to go on from.
        RunStopped: a guard has stopped the run, or its folder can't be written.
    """
    resume = Path(resume) if resume is not None else None
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
        for difference in check_same_run(config, load_config(resume)):
            console.say(difference)
    with closing(Run.of(config)) as run:
        return _train_run(run, resume, console)


def _train_run(run: Run, resume: Path | None, console: RunConsole) -> Path:
    config = run.config
    path = resume or run.ranks.of_first(_new_folder(config))
    logged: Mapping[str, int] = {}
    if resume is not None:
        logged = load_checkpoint(run, resume, on_skip=lambda why: run.guards.tell("checkpoint_skipped", why))
    first = run.step
    with writing(path), closing(_open(run, path, logged)) as folder:
        try:
            folder.write("config.json", config.to_dict())
            folder.log_session(step=first)
            for name in folder.shortened:
                console.say(f"{name} is shorter than when the checkpoint was saved: what is missing in it stays missing")
            console.banner("agon-env", banner_facts(run, path))
            _begin(run, folder, console)
            learned = _steps(run, folder, console)
            _finish(run, folder, console)
        except KeyboardInterrupt:  # in an evaluation, or the second one
            raise Interrupted(path, run.step) from None
        finally:
            _report(run.guards.drain(), folder, console)
    if not learned and run.step > first:
        console.say(NOTHING_LEARNED)
    console.say(f"Run folder: {path}. Look at it:")
    for look in [f"agon report {path}", *([f"tensorboard --logdir {path.parent}"] if "tensorboard" in config.log else [])]:
        console.say(f"  {look}")
    return path


def _open(run: Run, path: Path, logged: Mapping[str, int]) -> RunFolder:
    if not run.ranks.first:
        return NoFolder(path)
    return RunFolder(path, first_step=run.step, logged=logged, log=run.config.log, config=run.config.to_dict())


def _begin(run: Run, folder: RunFolder, console: RunConsole) -> None:
    """Do what comes before the first step, unless a checkpoint says that it was done."""
    config = run.config
    run.guards.begin(run.step, folder=folder.path if run.ranks.first else None)
    if config.imitation.steps and run.step == 0 and run.before is None:
        with console.progress("imitation", config.imitation.steps) as tick:
            imitate(run, tick)
    if run.before is None and config.eval_problems:
        run.before = _judge_aloud(run, folder, console, "before")
        _save(run, folder)


def _steps(run: Run, folder: RunFolder, console: RunConsole) -> float:
    """Train until the end, and return how many rows were learned from.

    Raises:
        Interrupted: a signal came; the step was finished and saved.
    """
    config, learned = run.config, 0.0
    shown = console.training(config.steps, done=run.step, policies=tuple(run.policies), roles=run.contest.roles)
    with finish_step_on_signal(console.say) as signals, shown as display:
        run.engine.progress = display.sampling
        while not run.finished:
            step = run.step
            stats, played = run.advance()
            better = False
            if config.eval_every and run.step % config.eval_every == 0 and not run.finished:
                figures = _judge(run, folder, step)
                stats |= {f"eval/{name}": value for name, value in figures.items() if isinstance(value, int | float)}
                better = run.is_best(figures)
            run.guards.observe(stats)
            events = run.guards.drain()
            stats |= {f"guards/{kind}": float(count) for kind, count in Counter(event.kind for event in events).items()}
            _report(events, folder, console)
            folder.log(step, stats, run.samples)
            if config.keep_transcripts and step % config.keep_transcripts == 0:
                folder.log_contests(step, played)
            folder.show(step, "contest", played.contests[0])
            display.step(run.step, stats)
            learned += sum(stats[f"{name}/rows"] for name in run.policies)
            stop = run.ranks.any(bool(signals))
            if stop or better or run.step % config.checkpoint_every == 0:
                _save(run, folder)
            if stop:
                raise Interrupted(folder.path, run.step, *signals)
    return learned


def _finish(run: Run, folder: RunFolder, console: RunConsole) -> None:
    """Save the trained policies, and judge them."""
    _save(run, folder)
    if run.ranks.first:
        for name, policy in run.policies.items():
            run.learners[name].save(policy, folder.path / name)
    if run.before is not None:
        after = _judge_aloud(run, folder, console, "after")
        no_best = run.no_best if run.config.eval_every else None
        folder.write("summary.json", {"before": run.before, "after": after} | ({"no_best": no_best} if no_best else {}))
        title = f"{run.config.env}, {run.config.algorithm}, seed {run.config.seed}"
        console.before_after(run.before, after, roles=run.contest.roles, title=title)
        if no_best:
            console.say(no_best)


def _save(run: Run, folder: RunFolder) -> None:
    """Save a checkpoint, if the base is still what it was; what was logged until now is on the disk before it."""
    run.guards.bases.check()
    if run.ranks.first:
        run.guards.check_disk(folder.path)
        save_checkpoint(run, folder.path, logged=folder.sync(), keep=run.config.keep_checkpoints)


def _report(events: Sequence[Event], folder: RunFolder, console: RunConsole) -> None:
    for event in events:
        folder.log_event(event)
        console.say(f"Step {event.step + 1}: {event.message}")


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
        **({"workers": run.workers.facts()} if run.workers is not None else {}),
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


def _judge(run: Run, folder: RunFolder, step: int, on_contest: Callable[[int], None] | None = None) -> dict[str, Any]:
    evaluation, contests = run.evaluate(on_contest)
    for number, contest in enumerate(contests[:4]):
        folder.show(step, f"held_out/{number}", contest)
    league = len(run.policies) > len(run.held_out.roles)
    return evaluation.summary() | ({"wins": wins(evaluation.records)} if league else {})


def _judge_aloud(run: Run, folder: RunFolder, console: RunConsole, when: str) -> dict[str, Any]:
    with console.progress(f"evaluate {when}:", run.config.eval_problems) as tick:
        run.engine.progress = tick.sampling
        figures = _judge(run, folder, run.step, tick)
    folder.log_evaluation(run.step, figures)
    return figures


def _new_folder(config: TrainConfig) -> Path:
    """Return a folder that does not exist yet: the run's name, with a number if it is taken."""
    path = Path(config.output_dir) / config.run_name()
    number = 2
    while path.exists():
        path = path.with_name(f"{config.run_name()}-{number}")
        number += 1
    return path
