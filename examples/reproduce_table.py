"""Train and judge every row of the paper's table, with the same number of generated tokens: one command.

With no arguments it does so for the embedded model, on a CPU, with three seeds:

    python examples/reproduce_table.py
    python examples/reproduce_table.py --seeds 5 --rows zero_shot grpo cooperative agon --workers 2
    python examples/reproduce_table.py --preset qwen3-1.7b-deepmath --budget 200_000_000

It can be stopped and goes on with the same command.
"""

import sys

from algos.cli import matrix

if __name__ == "__main__":
    sys.exit(matrix(description=__doc__))
