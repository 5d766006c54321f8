"""Train two policies against each other: one drafts, the other reads the draft and answers; they swap every step.

With no arguments it trains the embedded model on arithmetic, on a CPU, in minutes:

    python examples/train_competitive.py
    python examples/train_competitive.py --seed 1 --steps 120 --env-options difficulty=14
    python examples/train_competitive.py --preset qwen3-1.7b-deepmath
"""

import sys

from algos.cli import train

if __name__ == "__main__":
    sys.exit(train(description=__doc__))
