"""Train one policy in both seats: it drafts, reads its own draft, and answers; each text is paid for itself.

python examples/train_self_refine.py
python examples/train_self_refine.py --seed 1 --optim.epochs 2 --optim.minibatches 2
"""

import dataclasses
import sys

from algos.cli import train
from algos.config import TINY

ALONE = dataclasses.replace(TINY, algorithm="self_refine")

if __name__ == "__main__":
    sys.exit(train(default=ALONE, description=__doc__))
