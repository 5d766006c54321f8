"""The table of the paper as a command: every baseline, on the same problems, with the same number of generated tokens.

Each row (`algos.matrix.rows`) is trained once per seed, until `budget` tokens have been generated in training, all
policies together. Then it answers the same held-out problems. What is finished is kept in the output folder and not
done again.

    matrix/
      runs/<training>-seed<n>/        the run folders
      cells/<cell>-seed<n>.json       what one deployment scores on every problem
      sessions.jsonl                  one line per start: versions, commit, machine, the command
      results.json, table.md, table.png
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, fields, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

import agon_env
from agents.engines.torch import TorchEngine
from algos.algorithm_registry import find_algorithm
from algos.config import CHAIN_SEARCH, TrainConfig, read_options
from algos.errors import ConfigError
from algos.evaluate import evaluate
from algos.evaluation.records import Record
from algos.matrix.rows import CELLS, ROWS, Cell, trainings
from algos.playing.policies import load_bases, make_policy
from algos.statistics import majority_score
from algos.training.config_checks import idle_settings
from algos.training.console import RunConsole
from algos.training.provenance import session
from algos.training.run_folder import write_json
from algos.training.trained import load_trained

SESSIONS = "sessions.jsonl"


@dataclass(frozen=True)
class MatrixConfig:
    """Train and evaluate every row of the table."""

    train: TrainConfig = field(default_factory=lambda: CHAIN_SEARCH)
    """What the rows have in common. Its contest is the duel; its `rival_models` are for the rows with two bases. Each row
    has an algorithm of its own, and what that one reads of the settings; `algorithm` "ppo" lets those of PPO be named here."""
    solo_env: str = ""
    """The contest for one player on the same task; empty: the name of the duel with Solo for Duel."""
    seeds: int = 3
    """Runs of each row, with the seeds 0, 1, 2 …"""
    budget: int = 300_000
    """Tokens that each row generates in training, all its policies together."""
    problems: int = 512
    """Held-out problems, the same for all rows and seeds."""
    held_out_options: tuple[str, ...] = ()
    """Options of the contest on held-out problems, after those of `train`: `seed=1` takes others of a generated task."""
    rows: tuple[str, ...] = tuple(CELLS)
    """Which rows: of `CELLS` and of `VARIANTS`."""
    workers: int = 1
    """Runs at a time, each in a process of its own."""
    output_dir: str = "runs/matrix"
    """Where everything is kept; a matrix that was stopped goes on there."""

    def __post_init__(self) -> None:
        if unknown := [name for name in self.rows if name not in ROWS]:
            raise ConfigError(f"the table has no row {unknown[0]!r}; choose from {', '.join(ROWS)}")
        for name in ("seeds", "budget", "problems", "workers"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not self.rows:
            raise ConfigError(f"name at least one row: {', '.join(ROWS)}")
        if "Duel" not in self.train.env and not self.solo_env:
            raise ConfigError(f"{self.train.env} has no Duel in its name: name the contest for one player, solo_env")
        if self.train.opponent != "rival":
            raise ConfigError("who meets whom is what the rows differ by: leave out train.opponent")
        if not self.train.swap_roles:
            raise ConfigError("pairs are judged in both orders, so that they train in both: take the row agon_fixed instead")
        if self.train.optim.schedule != "constant":
            raise ConfigError("tokens end a run here, so that no step is known to be the last: leave out train.optim.schedule")
        for name in self.rows:
            self._check_row(name)

    def _check_row(self, name: str) -> None:
        cell = ROWS[name]
        if cell.two_bases and len(self.train.rival_models) != 1:
            raise ConfigError(f"the row {name} has two bases: name the second one, train.rival_models")
        if cell.training is None:
            return
        run, solo = self.run_config(cell.training, 0), trainings(self.train)[cell.training].solo
        texts, wanted = run.group_size * (run.answers + (not solo)), 2 * self.train.group_size
        if texts not in (wanted, wanted + 1):
            raise ConfigError(
                f"the row {name} would generate {texts} texts for a problem, and not 2 × group_size = {wanted} as the others: "
                "take an even train.group_size, and train.answers=1"
            )

    @property
    def solo(self) -> str:
        """The contest for one player."""
        return self.solo_env or self.train.env.replace("Duel", "Solo")

    def run_config(self, name: str, seed: int) -> TrainConfig:
        """Return the config of one training."""
        training = trainings(self.train)[name]
        algorithm = find_algorithm(training.changes["algorithm"])
        env_options = self.train.env_options + training.env_options
        pays_bonus = {**algorithm.contest_options, **read_options(env_options)}.get("reward") == "competitive"
        return replace(
            self.train,
            **{**idle_settings(TrainConfig, algorithm), **training.changes},
            algorithm_options=(),
            env=self.solo if training.solo else self.train.env,
            env_options=env_options if pays_bonus else _without_bonus(env_options),
            rival_models=self.train.rival_models if training.two_bases else (),
            sample_budget=self.budget,
            steps=self.budget,  # the budget ends the run: a step generates more than one token
            eval_problems=0,
            seed=seed,
            output_dir=str(Path(self.output_dir) / "runs"),
            name=f"{name}-seed{seed}",
        )


def run_matrix(config: MatrixConfig, *, console: RunConsole | None = None) -> dict[str, Any]:
    """Train and judge whatever of the table is not there yet; write and return the results.

    Raises:
        ConfigError: the output folder holds a matrix of another config.
    """
    from algos.figures import pyplot
    from algos.matrix.report import write_report

    pyplot()  # what is missing is missed before the work, not after it
    console = console or RunConsole()
    folder = Path(config.output_dir)
    _claim(folder, config)
    jobs: dict[tuple[str | None, int], list[str]] = {}
    for name in config.rows:
        for seed in range(config.seeds):
            if not _cell_file(folder, name, seed).exists():
                jobs.setdefault((ROWS[name].training, seed), []).append(name)
    if jobs:
        with open(folder / SESSIONS, "a", encoding="utf-8") as file:
            file.write(json.dumps(session()) + "\n")
    with console.progress("trained and judged:", len(jobs)) as tick:
        for number, (training, seed) in enumerate(_do(config, jobs), 1):
            tick(number, f"{training or 'untrained'}, seed {seed}")
    cells = {
        name: [json.loads(_cell_file(folder, name, seed).read_text(encoding="utf-8")) for seed in range(config.seeds)]
        for name in config.rows
    }
    sessions = [json.loads(line) for line in (folder / SESSIONS).read_text(encoding="utf-8").split("\n") if line]
    return write_report(folder, cells, config, sessions)


def _do(config: MatrixConfig, jobs: Mapping[tuple[str | None, int], list[str]]) -> Iterator[tuple[str | None, int]]:
    if config.workers == 1:
        for (training, seed), rows in jobs.items():
            _train_and_judge(config, training, seed, rows)
            yield training, seed
        return
    with ProcessPoolExecutor(config.workers, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        futures = {pool.submit(_train_and_judge, config, *job, rows): job for job, rows in jobs.items()}
        for future in as_completed(futures):
            future.result()
            yield futures[future]


def _train_and_judge(config: MatrixConfig, training: str | None, seed: int, rows: Sequence[str]) -> None:
    """Train once, and deploy the result in every row that takes it."""
    trained: dict[str, Any] = {"tokens": 0, "steps": 0}
    run = None
    if training is not None:
        run = _train(config.run_config(training, seed))
        trained = _spent(run)
    for name in rows:
        judged = judge(config, ROWS[name], run=run, seed=seed)
        record = {"row": name, "seed": seed, "training": {"name": training, **trained}, **judged}
        write_json(_cell_file(Path(config.output_dir), name, seed), record)


def _train(config: TrainConfig) -> Path:
    """Train, or go on, or take what is finished; the report of the run goes to its folder."""
    from algos.trainer import train
    from algos.training.checkpoint import newest_checkpoint

    run = Path(config.output_dir) / config.run_name()
    if all((run / name / "adapter_model.safetensors").is_file() for name in config.make_algorithm().policies):
        return run
    if run.exists() and newest_checkpoint(run) is None:
        shutil.rmtree(run)  # stopped before anything was saved
    run.parent.mkdir(parents=True, exist_ok=True)
    with open(run.parent / f"{run.name}.log", "a", encoding="utf-8") as log:
        console = RunConsole(Console(file=log, width=120))
        return train(config, resume=run if run.exists() else None, console=console)


def judge(config: MatrixConfig, cell: Cell, *, run: Path | None, seed: int) -> dict[str, Any]:
    """Answer the held-out problems as a row does, with the policies of a run, or with bare bases.

    Returns:
        `scores`: of the final answer to each problem, in order, null where it could not be judged; `problems`: their
        names; `figures`: those of `Evaluation.summary`, and `tokens_per_answer`.
    """
    train = config.train
    if train.threads:
        torch.set_num_threads(train.threads)
    alone = cell.deployment in ("single", "majority")
    options = train.env_options + cell.env_options
    env, env_options = (config.solo, read_options(_without_bonus(options))) if alone else (train.env, read_options(options))
    held_out = agon_env.make(env, **env_options).held_out
    contest = agon_env.make(env, **{**env_options, **held_out, **read_options(config.held_out_options)})
    if run is None:
        names = ("one", "other") if cell.two_bases else ("one",)
        bases = load_bases(replace(train, rival_models=train.rival_models if cell.two_bases else ()), names, TorchEngine())
        policies = [make_policy(base, None, train) for base in bases.values()]
    else:
        policies = list(load_trained(run).policies.values())
    seats = policies if cell.deployment in ("cascade", "fixed_cascade") else policies[:1]
    players = {player: seats[place % len(seats)] for place, player in enumerate(contest.players)}
    answers = 2 if cell.deployment == "majority" else 1
    found, _ = evaluate(
        lambda: copy.deepcopy(contest),
        players,
        problems=config.problems,
        params=policies[0].params,
        samples=answers,
        seed=seed,
        both_orders=cell.deployment != "fixed_cascade",
    )
    problems = len(found.records) // answers
    samples = [found.records[first::problems] for first in range(problems)]
    scores = [_score(group) for group in samples]
    return {
        "problems": [group[0].problem for group in samples],
        "scores": scores,
        "figures": {**found.summary(), "tokens_per_answer": (found.tokens_per_problem or 0.0) * answers},
    }


def _without_bonus(env_options: tuple[str, ...]) -> tuple[str, ...]:
    """Return options of a contest whose reward rule has no bonus: what the rows have in common may name one."""
    return tuple(option for option in env_options if option.partition("=")[0] != "bonus")


def _score(group: Sequence[Record]) -> float | None:
    """Return the score of the answer to a problem: the one there is, or the vote of several."""
    known = [(record.answers[record.roles[-1]], record.last) for record in group if record.last is not None]
    return majority_score([answer for answer, _ in known], [score for _, score in known]) if known else None


def _spent(run: Path) -> dict[str, Any]:
    steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").split("\n") if line]
    return {"tokens": int(sum(step["progress/tokens"] for step in steps)), "steps": len(steps)}


def _claim(folder: Path, config: MatrixConfig) -> None:
    """Keep the config in the folder, or make sure that it is the one of what is there."""
    may_change = ("rows", "seeds", "workers", "output_dir")
    ours = {f.name: getattr(config, f.name) for f in fields(config) if f.name not in may_change}
    ours = json.loads(json.dumps({**ours, "train": config.train.to_dict()}))
    file = folder / "matrix.json"
    if not file.exists():
        (folder / "cells").mkdir(parents=True, exist_ok=True)
        write_json(file, ours)
        return
    theirs = json.loads(file.read_text(encoding="utf-8"))
    if changed := sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)):
        raise ConfigError(
            f"{folder} holds a matrix with another {changed[0]}: go on with the same one, or choose another output_dir. "
            f"Only {', '.join(may_change)} may change"
        )


def _cell_file(folder: Path, name: str, seed: int) -> Path:
    return folder / "cells" / f"{name}-seed{seed}.json"
