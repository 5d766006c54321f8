"""Train a proposer of problems and a solver, without any data: the proposer is paid for what is solved half of the time.

python examples/train_proposer_solver.py
"""

import dataclasses
import sys

from algos.cli import train
from algos.config import TINY
from algos.imitation import Imitation

PROPOSER_SOLVER = dataclasses.replace(
    TINY,
    env="ProposerSolver-v0",
    env_options=("reward=outcome",),
    swap_roles=False,
    imitation=Imitation(steps=20),
    problems=2,
    max_tokens=48,
    steps=40,
    eval_problems=64,
)

if __name__ == "__main__":
    sys.exit(train(default=PROPOSER_SOLVER, description=__doc__))
