"""`agon eval`."""

from __future__ import annotations

import dataclasses
import json

from algos.commands import DONE
from algos.commands.flags import Count, CountIfAny, Names, Run, Seed


def command(
    run: Run,
    problems: CountIfAny = None,
    samples: Count = 1,
    against: Names = (),
    seed: Seed = 0,
) -> int:
    """Judge the trained policies of a run on held-out problems.

    The figures are printed as JSON; docs/runs.md explains them.

    Args:
        run: folder of the run.
        problems: held-out problems to play. Default: as many as the run was judged on.
        samples: contests on each problem; from 2 on there are pass@k, majority votes and how often drafts disagree.
        against: also play against these, which stand still: base, oracle, random, copycat, or any agent.
        seed: the same seed plays the same contests.
    """
    from algos.config import load_config
    from algos.errors import ConfigError
    from algos.run import Run
    from algos.scorecard import scorecard
    from algos.trained import adapter_folders

    config = load_config(run)
    problems = config.eval_problems if problems is None else problems
    if problems < 1:
        raise ConfigError("there is nothing to judge the run on: name a number of held-out problems, --problems 512")
    folders = adapter_folders(run)
    trained = Run.of(dataclasses.replace(config, eval_problems=problems, seed=seed))
    for name, policy in trained.policies.items():
        policy.base.load_adapter(name, folders[name])
    card = scorecard(trained, samples=samples, against=against)
    print(json.dumps({"run": str(run), "env": config.env, **card}, indent=2))
    return DONE
