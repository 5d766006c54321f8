"""`train`: one run, from the config to the table before → after.

One step, of `problems` × `group_size` × `answers` contests:

    play      every policy samples its turns, the environment pays            time/sample
    compare   each turn with its group (algorithm.advantages)
    update    each policy on its own turns, with its own optimiser            time/update
"""

from __future__ import annotations

import copy
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

import agon_env
from agents.engines.torch import TorchEngine
from agents.policy import LLMPolicy
from agents.sampling import Completion, SamplingParams
from agents.shared_base import SharedBase
from agon_env.contest import Contest
from agon_env.errors import TaskError
from agon_env.tasks import Task, require_disjoint
from algos.algorithm import Algorithm
from algos.checkpoint import load_checkpoint, newest_checkpoint, save_checkpoint
from algos.config import TrainConfig, find_algorithm, load_config
from algos.console import RunConsole, is_duel
from algos.curriculum import STRIDE, problem_index, task_size
from algos.errors import ConfigError
from algos.evaluate import Evaluation, evaluate
from algos.learner import LocalLearner
from algos.length_penalty import penalise_length
from algos.losses import kl_estimate
from algos.metrics import pair_metrics, turn_metrics
from algos.rollouts import Rollout, Start, rollout
from algos.run_folder import RunFolder
from algos.types import Row, Stats, Turn
from algos.update import update_policy

NOTHING_LEARNED = (
    "Nothing was learned: at every step all turns of every group were paid alike. Look at the contests (TensorBoard, Text): "
    "is the task too hard or too easy for the model, are its moves legal, are its texts cut off?"
)
MAY_CHANGE = ("steps", "token_budget", "eval_every", "checkpoint_every", "max_rows", "threads", "device", "output_dir", "name")
"""Settings that may differ when a run goes on: they change no step that was done."""
PROBE_ROWS = 16
"""Rows on which the policies are compared at every step."""


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
        self.run = run


@dataclass
class Run:
    """Everything that a training step needs."""

    config: TrainConfig
    algorithm: Algorithm
    contest: Contest
    """The template of training contests."""
    held_out: Contest
    """The template of evaluation contests."""
    base: SharedBase
    policies: dict[str, LLMPolicy]
    learner: LocalLearner
    engine: TorchEngine
    params: SamplingParams
    step: int = 0
    tokens: int = 0
    """Sampled for training so far."""
    before: dict[str, Any] | None = None
    """The evaluation of the untrained policies."""

    @classmethod
    def of(cls, config: TrainConfig) -> Run:
        """Load the base, make the policies and the contests that `config` names.

        Raises:
            ConfigError: the contest does not take an option, or has too few seats for the algorithm.
        """
        if config.threads:
            torch.set_num_threads(config.threads)
        algorithm = config.make_algorithm()
        options = {**algorithm.contest_options, **config.contest_options()}
        try:
            contest = agon_env.make(config.env, **options)
            held_out = agon_env.make(config.env, **{**options, **contest.held_out}) if config.eval_problems else contest
            algorithm.seats(0, contest.roles)
        except (TypeError, ValueError) as error:
            raise ConfigError(str(error)) from error
        if config.eval_problems and "index" in contest.option_names and not contest.held_out:
            raise ConfigError(
                f"the task of {config.env} has no held-out problems to evaluate on: give it a `held_out` task, or set "
                "eval_problems=0"
            )
        if config.eval_problems and (named := sorted(set(config.contest_options()) & set(contest.held_out))):
            raise ConfigError(
                f"{named[0]!r} tells held-out problems from those to train on, so it is not an option of a run that is "
                "evaluated: leave it out, or set eval_problems=0"
            )
        if config.eval_problems:
            _check_disjoint(contest, held_out)
        _check_groups(config, contest.roles)
        engine = TorchEngine(max_rows=config.max_rows)
        base = SharedBase.load(config.model, device=None if config.device == "auto" else config.device, engine=engine)
        params = SamplingParams(max_tokens=config.max_tokens, temperature=config.temperature)
        policies = {
            name: base.policy(
                name,
                rank=config.lora_rank,
                alpha=config.lora_alpha,
                seed=config.seed * len(algorithm.policies) + number,
                params=params,
                thinking=config.thinking,
                on_long_prompt=config.on_long_prompt,
            )
            for number, name in enumerate(algorithm.policies)
        }
        loss = replace(config.loss, max_tokens=config.loss.max_tokens or config.max_tokens)
        updates = config.steps * config.optim.epochs * config.optim.minibatches
        learner = LocalLearner(base, loss=loss, optim=config.optim, total_steps=updates)
        return cls(config, algorithm, contest, held_out, base, policies, learner, engine, params)

    def evaluate(self, on_contest: Callable[[int], None] | None = None) -> tuple[Evaluation, list[Contest]]:
        """Play the held-out problems with the policies as they are."""
        names = list(self.policies)
        players = {player: self.policies[names[seat % len(names)]] for seat, player in enumerate(self.held_out.players)}
        return evaluate(
            lambda: copy.deepcopy(self.held_out),
            players,
            problems=self.config.eval_problems,
            params=self.params,
            seed=self.config.seed,
            sample=self._sample,
            on_contest=on_contest,
        )

    def advance(self) -> tuple[Stats, Rollout]:
        """Do one step: play, compare, update. Returns its metrics, and what was played."""
        started = time.perf_counter()
        rollout = self._play()
        played = time.perf_counter()
        played_turns = penalise_length(rollout.turns, self.config.length_penalty, max_tokens=self.config.max_tokens)
        stats = turn_metrics(played_turns) | pair_metrics(rollout)
        turns = [turn for turn in played_turns if turn.policy is not None and self.algorithm.learns(turn, self.contest.roles)]
        base_divergence = self._base_divergence(rollout.turns)
        advantages = self.algorithm.advantages(turns)
        stats["groups/total"], stats["groups/dropped"] = float(advantages.groups), float(advantages.dropped)
        for name, policy in self.policies.items():
            rows = [
                _row(turn, advantage)
                for turn, advantage, kept in zip(turns, advantages.values.tolist(), advantages.kept.tolist(), strict=True)
                if kept and turn.policy == name and not (self.config.loss.mask_truncated and _was_cut(turn))
            ]
            update = self._update(policy, rows)
            stats |= {f"{name}/{key}": value for key, value in update.items()}
        stats |= base_divergence | self._divergence(rollout.turns)
        tokens = sum(len(turn.completion.token_ids) for turn in rollout.turns if turn.completion is not None)
        stats |= {
            "time/sample": played - started,
            "time/update": time.perf_counter() - played,
            "time/tokens_per_second": tokens / (played - started),
            "progress/tokens": float(tokens),
        }
        self.step += 1
        self.tokens += tokens
        return stats, rollout

    @property
    def finished(self) -> bool:
        """Whether the steps are done, or the token budget is spent."""
        return self.step >= self.config.steps or 0 < self.config.token_budget <= self.tokens

    def _play(self) -> Rollout:
        config, contest = self.config, self.contest
        seats = self.algorithm.seats(self.step, contest.roles)
        if set(seats.values()) == set(contest.players):
            roles = {policy: role for role, policy in seats.items()}
        else:  # one policy in several seats: the players are but names of the seats
            roles = dict(zip(contest.players, contest.roles, strict=True))
        starts = []
        for position in range(self.step * config.problems, (self.step + 1) * config.problems):
            index = problem_index(position, size=task_size(contest), seed=config.seed)
            options = {"roles": roles} | ({"index": index} if "index" in contest.option_names else {})
            starts.append(Start(seed=config.seed * STRIDE + position, options=options))
        return rollout(
            lambda: copy.deepcopy(contest),
            {player: self.policies[seats[role]] for player, role in roles.items()},
            starts,
            params=self.params,
            seed=int(np.random.SeedSequence([config.seed, self.step]).generate_state(1)[0]),
            branches=(config.group_size, config.answers),
            sample=self._sample,
        )

    def _update(self, policy: LLMPolicy, rows: Sequence[Row]) -> Stats:
        seed = (self.config.seed, self.step)
        return update_policy(self.learner, policy, rows, temperature=self.config.temperature, seed=seed)

    def _base_divergence(self, turns: Sequence[Turn]) -> Stats:
        """Return how far each policy was from the base when it sampled: KL(policy ‖ base) per token, on some of its turns."""
        stats: Stats = {}
        for name in self.policies:
            probe = [_row(turn, 0.0) for turn in turns if turn.policy == name][:PROBE_ROWS]
            base = self.learner.logprobs(None, probe, temperature=self.params.temperature)
            own_N, base_N = ([p for row in rows for p in row] for rows in ([row.old_logprobs for row in probe], base))
            if own_N:
                stats[f"{name}/kl_base"] = kl_estimate(torch.tensor(own_N), torch.tensor(base_N), "k3").mean().item()
        return stats

    def _divergence(self, turns: Sequence[Turn]) -> Stats:
        """Return how far the policies are apart: KL(one ‖ the next) per token, on what the first one said."""
        stats: Stats = {}
        for one, other in pairwise(self.policies.values()):
            probe = [_row(turn, 0.0) for turn in turns if turn.policy == one.name][:PROBE_ROWS]
            own, others = (self.learner.logprobs(policy, probe, temperature=self.params.temperature) for policy in (one, other))
            differences = np.concatenate([[], *(np.subtract(*row) for row in zip(own, others, strict=True))])
            if len(differences):
                stats[f"pair/kl_{one.name}_{other.name}"] = float(np.mean(differences))
        return stats

    def _sample(
        self, policy: LLMPolicy, prompts: Sequence[Sequence[int]], params: SamplingParams, seeds: Sequence[int]
    ) -> list[Completion]:
        return self.learner.sample(policy, prompts, params=params, seeds=seeds)


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
    console = console or RunConsole()
    if resume is not None:
        _check_same_run(config, load_config(resume))
    run = Run.of(config)
    folder_path = resume or _new_folder(config)
    if resume is not None:
        load_checkpoint(run, resume)
    folder = RunFolder(folder_path, first_step=run.step)
    folder.write("config.json", config.to_dict())
    console.banner("agon-env", banner_facts(run, folder_path))
    learned = 0.0
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
                folder.show(run.step - 1, "contest", played.contests[0])
                tick(run.step, _note(stats, run.contest.roles))
                learned += sum(stats[f"{name}/rows"] for name in run.policies)
                if interrupted or run.step % config.checkpoint_every == 0:
                    save_checkpoint(run, folder_path)
                if interrupted:
                    raise Interrupted(folder_path, run.step)
        for name, policy in run.policies.items():
            run.learner.save(policy, folder_path / name)
        save_checkpoint(run, folder_path)
        if run.before is not None:
            after = _judge_aloud(run, folder, console, "after")
            folder.write("summary.json", {"before": run.before, "after": after})
            title = f"{config.env}, {config.algorithm}, seed {config.seed}"
            console.before_after(run.before, after, roles=run.contest.roles, title=title)
        if not learned and config.steps:
            console.say(NOTHING_LEARNED)
        console.say(f"Run folder: {folder_path}   (tensorboard --logdir {folder_path.parent})")
    except KeyboardInterrupt:  # in an evaluation, or the second one
        raise Interrupted(folder_path, run.step) from None
    finally:
        folder.close()
    return folder_path


def _check_disjoint(contest: Contest, held_out: Contest) -> None:
    """Refuse tasks that share a question; those of the splits "train" and "test" never do."""
    train_task, held_out_task = getattr(contest, "task", None), getattr(held_out, "task", None)
    splits = {getattr(task, "split", None) for task in (train_task, held_out_task)}
    if isinstance(train_task, Task) and isinstance(held_out_task, Task) and splits != {"train", "test"}:
        try:
            require_disjoint(train_task, held_out_task)
        except TaskError as error:
            raise ConfigError(str(error)) from error


def _check_groups(config: TrainConfig, roles: Sequence[str]) -> None:
    """Refuse groups of one, from which nothing can be learned."""
    if not find_algorithm(config.algorithm).compares:
        return
    if len(roles) == 1 and config.group_size < 2:
        raise ConfigError("a contest for one player has no answers to a draft: a group needs group_size of at least 2")
    if config.group_by == "position" and config.answers < 2 and len(roles) > 1:
        raise ConfigError('group_by="position" compares the answers to one draft, so answers must be at least 2')


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
        **dict(run.base.facts()),
        "one step": f"{config.problems} problems × {config.group_size} × {config.answers} = {contests} contests, "
        f"then one update of {' and of '.join(run.policies)}",
        "run": f"{config.steps} steps, seed {config.seed}, in {folder}",
        "machine": f"Python {platform.python_version()}, torch {torch.__version__}, {torch.get_num_threads()} threads",
        "note": "the loss is close to 0 at every step, because the samples are fresh; its gradient is not",
    }


def _judge(run: Run, folder: RunFolder, on_contest: Callable[[int], None] | None = None) -> dict[str, Any]:
    evaluation, contests = run.evaluate(on_contest)
    for number, contest in enumerate(contests[:4]):
        folder.show(run.step, f"held_out/{number}", contest)
    return evaluation.summary()


def _judge_aloud(run: Run, folder: RunFolder, console: RunConsole, when: str) -> dict[str, Any]:
    with console.progress(f"evaluate {when}:", run.config.eval_problems) as tick:
        run.engine.progress = tick.sampling
        figures = _judge(run, folder, tick)
    folder.log_evaluation(run.step, figures)
    return figures


def _was_cut(turn: Turn) -> bool:
    """Return whether the turn's completion was cut off."""
    return turn.completion is not None and turn.completion.finish_reason == "length"


def _row(turn: Turn, advantage: float) -> Row:
    assert turn.completion is not None
    return Row(turn.prompt_ids, turn.completion.token_ids, turn.completion.logprobs, advantage)


def _note(stats: Stats, roles: Sequence[str]) -> str:
    first, last = ("draft", "answer") if is_duel(roles) else (roles[0], roles[-1])
    shown = {first: "pair/draft_pass1", last: "pair/answer_pass1"}
    shown |= {"fix": "pair/fix_rate"} if is_duel(roles) else {}
    shown |= {"held-out": "eval/answer_pass1"}
    parts = [f"{name} {100 * stats[key]:3.0f} %" for name, key in shown.items() if key in stats]
    return "  ".join([*parts, f"{stats['time/sample'] + stats['time/update']:.1f} s/step"])


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
