"""What is divided and put together again is what it was, whoever had which part."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agents
import agon_env
from agents.sampling import SamplingParams
from algos.parallel.division import divide_evenly, divide_pieces, merge, numbered, pack, unpack
from algos.rollouts import Rollout, Start, rollout

COSTS = st.lists(st.integers(0, 50), max_size=40)


@given(costs=COSTS, parts=st.integers(1, 5))
def test_pieces_are_divided_evenly_and_each_once(costs: list[int], parts: int) -> None:
    found = divide_pieces(costs, parts=parts)
    assert sorted(index for part in found for index in part) == list(range(len(costs)))
    assert len(found) == parts
    share = sum(costs) / parts
    assert all(sum(costs[index] for index in part) <= share + max(costs, default=0) for part in found)


def test_the_costliest_pieces_are_given_first() -> None:
    assert divide_pieces([1, 1, 4, 2], parts=2) == [[2], [0, 1, 3]]


@given(length=st.integers(0, 20), parts=st.integers(1, 7))
def test_neighbours_stay_neighbours(length: int, parts: int) -> None:
    pieces = divide_evenly(range(length), parts=parts)
    assert [item for piece in pieces for item in piece] == list(range(length))
    assert max(map(len, pieces)) - min(map(len, pieces)) <= 1


def play(contest: agon_env.Contest, starts: list[Start]) -> Rollout:
    """Without luck: a player that copies and one that knows the answer, who draft in turn."""
    players = {"alice": agents.make("copycat"), "bob": agents.make("oracle")}
    params = SamplingParams(max_tokens=8)
    return rollout(contest.fork, players, starts, params=params, seed=3, branches=(2, 2))


def starts(number: int) -> list[Start]:
    seats = ("alice", "bob")
    return [
        Start(seed=seed, options={"roles": dict(zip(seats[:: (-1) ** seed], ("drafter", "challenger"), strict=True))})
        for seed in range(number)
    ]


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_parts_of_a_rollout_make_the_whole(parts: int) -> None:
    contest = agon_env.make("ArithmeticDuel-v0")
    whole = play(contest, numbered(starts(5)))
    pieces = divide_evenly(numbered(starts(5)), parts=parts)
    merged = merge([unpack(pack(play(contest, list(piece)), contest), contest) for piece in pieces])
    assert merged.turns == whole.turns
    assert merged.beneath == whole.beneath
    assert [list(c.transcript.to_lines()) for c in merged.contests] == [list(c.transcript.to_lines()) for c in whole.contests]
    assert [contest.outcome for contest in merged.contests] == [contest.outcome for contest in whole.contests]


def test_what_contests_share_does_not_travel() -> None:
    contest = agon_env.make("DeepMathDuel-v0")
    played = play(contest, starts(1))
    packed = pack(played, contest)
    assert len(packed) < len(pickle.dumps(played))
    assert all(each.task is contest.task for each in unpack(packed, contest).contests)
