"""Train one policy alone by GRPO: no rival, no draft, the outcome as its reward.

python examples/train_grpo.py
python examples/train_grpo.py --group-size 16 --seed 1
"""

import dataclasses
import sys

from algos.cli import train
from algos.config import TINY

SOLO = dataclasses.replace(TINY, env="ArithmeticSolo-v0", algorithm="grpo", group_size=16)

if __name__ == "__main__":
    sys.exit(train(default=SOLO, description=__doc__))
