"""Generalised advantage estimation over the tokens of a player. Trap T54 of the reported faults."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.sampling import Completion
from algos.gae import gae, judge_turns
from algos.types import Turn

GAMMA, LAM = 0.9, 0.8


def turn(values, *, reward, player="alice", contests=(0,), unfinished=(), tokens=2, later=0.0, components=None, end="stop"):
    completion = None if tokens is None else Completion((5,) * tokens, (-1.0,) * tokens, end)
    return Turn(
        *(player, player, "solver", 0, (0,), (1,), completion, "", reward, components or {}, reward, later),
        values=tuple(values),
        contests=contests,
        unfinished=frozenset(unfinished),
    )


def reference(rewards, values, *, gamma, lam, bootstrap=0.0):
    """A_t = Σ_k (γλ)^k δ_{t+k}, written as the double sum that the recursion stands for."""
    values = [*values, bootstrap]
    deltas = [reward + gamma * values[t + 1] - values[t] for t, reward in enumerate(rewards)]
    return [sum((gamma * lam) ** (k - t) * deltas[k] for k in range(t, len(deltas))) for t in range(len(deltas))]


def test_hand_worked() -> None:
    """δ = (0.9·0.6 − 0.5, 1 − 0.6) = (0.04, 0.4); A = (0.04 + 0.72·0.4, 0.4)."""
    assert gae([0.0, 1.0], [0.5, 0.6], gamma=GAMMA, lam=LAM) == pytest.approx([0.328, 0.4])
    assert gae([0.0, 1.0], [0.5, 0.6], gamma=GAMMA, lam=LAM, bootstrap=0.5) == pytest.approx([0.652, 0.85])
    assert gae([], [], gamma=GAMMA, lam=LAM).shape == (0,)


@given(
    steps=st.lists(st.tuples(st.floats(-2, 2), st.floats(-2, 2)), min_size=1, max_size=8),
    gamma=st.floats(0, 1),
    lam=st.floats(0, 1),
    bootstrap=st.floats(-2, 2),
)
def test_equals_the_double_sum(steps, gamma, lam, bootstrap) -> None:
    rewards, values = zip(*steps, strict=True)
    expected = reference(rewards, values, gamma=gamma, lam=lam, bootstrap=bootstrap)
    np.testing.assert_allclose(gae(rewards, values, gamma=gamma, lam=lam, bootstrap=bootstrap), expected, atol=1e-12)


def test_lambda_1_is_the_return_less_the_value_and_lambda_0_is_one_step() -> None:
    rewards, values = [1.0, 0.0, 2.0], [0.3, 0.6, 0.9]
    returns = [1 + 0.5**2 * 2, 0.5 * 2, 2.0]
    assert gae(rewards, values, gamma=0.5, lam=1.0) == pytest.approx(np.subtract(returns, values))
    assert gae(rewards, values, gamma=0.5, lam=0.0) == pytest.approx([1 + 0.3 - 0.3, 0.45 - 0.6, 2 - 0.9])


@pytest.mark.parametrize("end", ["stop", "length"])
def test_t54_behind_the_end_of_a_contest_stands_0_also_when_the_text_was_cut(end) -> None:
    """The value after the last token is there, and nobody looks at it: what was cut has been paid too."""
    (judged,) = judge_turns([turn([0.5, 0.6, 100.0], reward=1.0, end=end)], gamma=GAMMA, lam=LAM)
    assert judged.advantages == pytest.approx([0.328, 0.4])
    assert judged.returns == pytest.approx([0.828, 1.0])


def test_t54_a_contest_cut_by_max_turns_is_continued_by_the_value_after_its_last_token() -> None:
    (judged,) = judge_turns([turn([0.5, 0.6, 0.5], reward=1.0, unfinished=(0,))], gamma=GAMMA, lam=LAM)
    assert judged.advantages == pytest.approx([0.652, 0.85])
    assert judged.returns == pytest.approx([1.152, 1.45])  # of the two states before tokens; that after them is no target


def test_a_later_turn_continues_the_earlier_one_and_the_rival_between_them_does_not() -> None:
    """One line of three tokens; the reward is paid at the last one, though both turns carry it."""
    first = turn([0.5, 0.4, 77.0], reward=1.0, later=1)
    rival = turn([9.0, 9.0], reward=0.0, player="bob")
    second = turn([0.6], reward=1.0, tokens=1)
    one, _, two = judge_turns([first, rival, second], gamma=GAMMA, lam=LAM)
    expected = reference([0.0, 0.0, 1.0], [0.5, 0.4, 0.6], gamma=GAMMA, lam=LAM)
    assert [*one.advantages, *two.advantages] == pytest.approx(expected)
    # the state after the first turn is worth what the first state of the second is
    assert one.returns == pytest.approx([expected[0] + 0.5, expected[1] + 0.4, two.returns[0]])
    assert two.returns == pytest.approx([1.0])


def test_contests_and_players_are_lines_of_their_own() -> None:
    turns = [turn([0.5, 0.6], reward=1.0, contests=(index,), player=player) for index, player in ((0, "a"), (1, "a"), (0, "b"))]
    for judged in judge_turns(turns, gamma=GAMMA, lam=LAM):
        assert judged.advantages == pytest.approx([0.328, 0.4])


def test_a_turn_of_several_contests_is_worth_their_mean() -> None:
    """A move that went on in contest 0, and was the player's last one in contest 1."""
    shared = turn([0.5, 0.6, 0.0], reward=1.0, contests=(0, 1), later=0.5)
    judged, _ = judge_turns([shared, turn([0.3], reward=3.0, tokens=1)], gamma=GAMMA, lam=LAM)
    long = reference([0, 0, 3.0], [0.5, 0.6, 0.3], gamma=GAMMA, lam=LAM)[:2]
    assert judged.advantages == pytest.approx(np.mean([long, [0.328, 0.4]], axis=0))
    assert judged.returns[-1] == pytest.approx(3.0)  # after its last token: only where the contest goes on


def test_what_is_not_known_is_not_judged() -> None:
    unknown = turn([0.5, 0.6], reward=None)
    assert (
        judge_turns([unknown, turn([], reward=1.0, tokens=0), turn([], reward=1.0, tokens=None)], gamma=1, lam=1) == [None] * 3
    )
    shared = turn([0.5, 0.6], reward=None, contests=(0, 1), later=1)
    judged, *_ = judge_turns(
        [shared, turn([0.3], reward=None, tokens=1), turn([0.3], reward=1.0, tokens=1, contests=(1,))], gamma=1, lam=1
    )
    assert judged.advantages == pytest.approx([0.5, 0.4])  # contest 1 alone


def test_the_price_of_length_is_paid_at_the_end_of_its_own_turn() -> None:
    priced = {"outcome": 1.0, "length": -0.2}
    first = turn([0.0, 0.0, 0.0], reward=0.8, later=1, components=priced)
    second = turn([0.0], reward=0.9, tokens=1, components={"outcome": 1.0, "length": -0.1})
    one, two = judge_turns([first, second], gamma=1.0, lam=1.0)
    assert one.advantages == pytest.approx([0.7, 0.7])
    assert two.advantages == pytest.approx([0.9])
