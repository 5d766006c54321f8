"""The launcher: what a rank raises is what its caller sees. Imports little, for every rank imports it too."""

import os

import pytest
from torch.multiprocessing import ProcessExitedException

from algos.parallel.launch import launch, launched
from algos.parallel.ranks import Ranks


def raise_on_second() -> None:
    ranks = Ranks.current()
    if ranks.number == 1:
        raise LookupError("the second rank")
    ranks.gather(0)  # waits in vain


def die_on_second() -> None:
    ranks = Ranks.current()
    if ranks.number == 1:
        os._exit(3)
    ranks.gather(0)


def test_what_a_rank_raises_is_raised_here() -> None:
    with pytest.raises(LookupError, match="the second rank"):
        launch(raise_on_second, ranks=2)
    assert not launched()


@pytest.mark.slow
def test_a_rank_that_is_killed_ends_the_others() -> None:
    with pytest.raises((ProcessExitedException, RuntimeError)):
        launch(die_on_second, ranks=2)
