"""Train two policies as a team: one drafts, the other reads the draft and answers; both are paid for the answer.

python examples/train_cooperative.py
python examples/train_cooperative.py --group-by position --answers 4 --group-size 2
"""

import dataclasses
import sys

from algos.cli import train
from algos.config import TINY

TEAM = dataclasses.replace(TINY, algorithm="cooperative_grpo")

if __name__ == "__main__":
    sys.exit(train(default=TEAM, description=__doc__))
