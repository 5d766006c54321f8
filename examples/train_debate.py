"""Train two debaters: both state an answer, read each other and reply; who is right in the end wins from who is not.

python examples/train_debate.py
"""

import dataclasses
import sys

from algos.cli import train
from algos.config import TINY

DEBATE = dataclasses.replace(
    TINY,
    env="Debate-v0",
    env_options=("reward=competitive",),
    steps=30,
    problems=4,
    eval_problems=256,
)

if __name__ == "__main__":
    sys.exit(train(default=DEBATE, description=__doc__))
