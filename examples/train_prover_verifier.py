"""Train a prover that helps or deceives, and a verifier that has to find out; they keep their seats.

python examples/train_prover_verifier.py
"""

import dataclasses
import sys

from algos.cli import train
from algos.config import TINY
from algos.imitation import Imitation

PROVER_VERIFIER = dataclasses.replace(
    TINY,
    env="ProverVerifier-v0",
    env_options=("reward=outcome", "difficulty=4"),
    swap_roles=False,
    imitation=Imitation(steps=10),
    steps=40,
    eval_problems=256,
)

if __name__ == "__main__":
    sys.exit(train(default=PROVER_VERIFIER, description=__doc__))
