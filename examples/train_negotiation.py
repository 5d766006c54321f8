"""Train two negotiators, who divide things that they value differently; each is paid for its own share.

python examples/train_negotiation.py
"""

import dataclasses
import sys

from algos.cli import train
from algos.config import TINY
from algos.imitation import Imitation

NEGOTIATION = dataclasses.replace(
    TINY,
    env="Negotiation-v0",
    env_options=("reward=outcome",),
    problems=2,
    max_tokens=8,
    imitation=Imitation(steps=12),
    steps=40,
    eval_problems=64,
)

if __name__ == "__main__":
    sys.exit(train(default=NEGOTIATION, description=__doc__))
