"""A worker that never comes back from a formula with the symbol x_{hang}; else it does what the real one does."""

import time
from functools import partial

from agon_env.verifiers import worker
from agon_env.verifiers.expression import symbols

HANG = r"2x_{hang}"


def handle(compare, request):
    if "x_hang" in symbols(tuple(worker._tuple(request["gold"]))):
        time.sleep(600)
    return compare(request)


if __name__ == "__main__":
    worker.serve(lambda: partial(handle, worker._comparison()))
