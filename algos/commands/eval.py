"""`agon eval`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from algos.commands import DONE
from algos.commands.flags import Count, CountIfAny, Names, PathIfAny, Run, Seed

EVALUATION = "evaluation.json"


def command(
    run: Run,
    problems: CountIfAny = None,
    samples: Count = 1,
    against: Names = (),
    seed: Seed = 0,
    out: PathIfAny = None,
) -> int:
    """Judge the trained policies of a run on held-out problems.

    The figures are printed as JSON, rounded to four digits; a file holds them exactly. docs/runs.md explains them.

    Args:
        run: folder of the run.
        problems: held-out problems to play. Default: as many as the run was judged on.
        samples: contests on each problem; from 2 on there are pass@k, majority votes and how often drafts disagree.
        against: also play against these, which stand still: base, oracle, random, copycat, or any agent.
        seed: the same seed plays the same contests.
        out: the file. Default: evaluation.json in the folder of the run.
    """
    from rich.console import Console

    from algos.config import load_config
    from algos.errors import ConfigError
    from algos.evaluation.scorecard import scorecard
    from algos.training.console import RunConsole
    from algos.training.run import Run
    from algos.training.run_folder import write_json
    from algos.training.trained import adapter_folders

    config = load_config(run)
    problems = config.eval_problems if problems is None else problems
    if problems < 1:
        raise ConfigError("there is nothing to judge the run on: name a number of held-out problems, --problems 512")
    folders = adapter_folders(run)
    trained = Run.of(dataclasses.replace(config, eval_problems=problems, seed=seed))
    for name, policy in trained.policies.items():
        policy.base.load_adapter(name, folders[name])
    card = scorecard(trained, samples=samples, against=against)
    figures = {"run": str(run), "env": config.env, **card}
    file = out or run / EVALUATION
    print(json.dumps(_rounded(figures), indent=2))
    write_json(file, figures)
    RunConsole(Console(stderr=True, highlight=False)).say(str(file))
    return DONE


def _rounded(value: Any) -> Any:
    """Return plain JSON values with four significant digits, as many as a person reads."""
    if isinstance(value, Mapping):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(part) for part in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
