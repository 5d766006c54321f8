"""Train a league: four policies on one base, every pair meets in turn, each policy has an optimiser of its own.

python examples/league.py                                                   # the embedded model, on a CPU, in minutes
python examples/league.py --matchmaking even                                # equals meet more often
python examples/league.py --opponent pool:win_rate --opponent-share 0.25    # and now and then a rival's past
"""

import dataclasses
import sys

from algos.cli import train
from algos.config import TINY

LEAGUE = dataclasses.replace(TINY, algorithm="league", league_size=4, steps=40, eval_problems=300)

if __name__ == "__main__":
    sys.exit(train(default=LEAGUE, description=__doc__))
