"""The launcher: what a rank raises is what its caller sees. Imports little, for every rank imports it too."""

import os
import signal
import time

import pytest
import torch

from algos.errors import RankLost
from algos.parallel.launch import launch, launched
from algos.parallel.ranks import Ranks


def raise_on(rank: int) -> None:
    ranks = Ranks.current()
    if ranks.number == rank:
        raise LookupError(f"rank {rank} found nothing")
    ranks.gather(0)  # waits in vain


def die_on_second(how: str) -> None:
    ranks = Ranks.current()
    if ranks.number == 1:
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(3)
    ranks.gather(0)


def threads() -> list[int]:
    return Ranks.current().gather(torch.get_num_threads())


@pytest.mark.parametrize("rank", [0, 1])
def test_what_a_rank_raises_is_raised_here(rank: int) -> None:
    began = time.monotonic()
    with pytest.raises(LookupError, match=f"rank {rank} found nothing"):
        launch(raise_on, rank, ranks=2)
    assert time.monotonic() - began < 60  # gloo waits for half an hour
    assert not launched()


@pytest.mark.slow
@pytest.mark.parametrize(("how", "said"), [("kill", r"killed by SIGKILL \(.*memory"), ("exit", "ended with exit code 3")])
def test_a_rank_that_dies_ends_the_others_and_is_named(how: str, said: str) -> None:
    with pytest.raises(RankLost, match=f"rank 1 of 2 was {said}.*--resume"):
        launch(die_on_second, how, ranks=2)


@pytest.mark.slow
@pytest.mark.parametrize(("chosen", "shared_by"), [(None, 2), ("2", 1)])
def test_ranks_share_the_cores_unless_a_number_is_chosen(
    chosen: str | None, shared_by: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if chosen is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", chosen)
    (alone,), together = (launch(threads, ranks=ranks) for ranks in (1, 2))
    assert together == [max(1, alone // shared_by)] * 2
