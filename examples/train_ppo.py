"""Train one policy alone by PPO: a critic learns what to expect before each token, so that no groups are needed.

python examples/train_ppo.py
python examples/train_ppo.py --lam 0.99 --critic.learning-rate 5e-4
"""

import dataclasses
import sys

from algos.cli import train
from algos.config import TINY

CRITIC = dataclasses.replace(
    TINY,
    env="ArithmeticSolo-v0",
    algorithm="ppo",
    problems=128,
    group_size=1,
    loss=dataclasses.replace(TINY.loss, loss_type="dapo"),  # a mean over tokens, as is usual with PPO
    optim=dataclasses.replace(TINY.optim, epochs=2, minibatches=2),
)

if __name__ == "__main__":
    sys.exit(train(default=CRITIC, description=__doc__))
