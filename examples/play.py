"""Watch two agents play a contest, or play one yourself: the command `agon play`.

python examples/play.py                                     # the embedded model against itself
python examples/play.py --players human embedded            # you draft, the model answers
python examples/play.py DeepMathDuel-v0 --players oracle random --seed 7
"""

import sys

from algos.cli import run

if __name__ == "__main__":
    sys.exit(run(["play", *sys.argv[1:]]))
