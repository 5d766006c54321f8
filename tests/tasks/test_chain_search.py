"""The family of chains that are to end with 0: one digit of ten is right, and it is found by trying."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon_env.games.draft_challenge import DraftChallenge, Solo
from agon_env.tasks.arithmetic import OPERANDS, Arithmetic, read_steps, results
from agon_env.tasks.chain_search import ChainSearch, make_chain_search, write_tries

STEPS = st.lists(st.sampled_from([(o, d) for o in OPERANDS for d in OPERANDS[o]]), min_size=1, max_size=26)


@given(STEPS)
def test_exactly_one_digit_is_right(steps):
    problem = make_chain_search(steps)
    assert [digit for digit in range(10) if results(digit, steps)[-1] == 0] == [int(problem.answer)]
    assert read_steps(problem.id) == steps


def test_the_dial_is_the_number_of_steps():
    assert {ChainSearch(difficulty=(2, 4))[i].difficulty for i in range(60)} == {2, 3, 4}
    assert all(len(read_steps(ChainSearch()[i].id)) == 4 for i in range(20))


def test_every_digit_is_as_likely():
    answers = [int(ChainSearch()[i].answer) for i in range(1000)]
    assert np.bincount(answers, minlength=10).min() > 60


def test_the_question_asks_for_the_first_digit_and_gives_nothing_away():
    contest = Solo(ChainSearch())
    observation, _ = contest.reset(seed=1)
    assert f"Start with ? {contest.problem.id}\n" in observation.text
    assert contest.task.verifier.score(observation.text, contest.problem.answer).score == 0.0


def test_the_solution_is_right_and_worked_out():
    task = ChainSearch()
    for i in range(20):
        text = task.solution(task[i])
        assert task.verifier.score(text, task[i].answer).score == 1.0
        assert rf"=0 \boxed{{{task[i].answer}}}" in text
    assert task.solution(make_chain_search([("*", 7), ("-", 9), ("+", 8)])) == r"Start with 3 a*7=1 b-9=2 c+8=0 \boxed{3}"


def test_tries_stand_one_after_the_other():
    text = write_tries([5, 3], [("*", 7), ("-", 9)])
    assert text == r"Start with 5 a*7=5 b-9=6; Start with 3 a*7=1 b-9=2 \boxed{3}"


def test_a_try_is_what_the_other_family_asks_for():
    """Whoever works out chains can check an answer."""
    problem = make_chain_search([("*", 7), ("-", 9), ("+", 8)])
    chain = Arithmetic(difficulty=3)[0]
    assert problem.question.split("\n")[0] == chain.question.split("\n")[0]


@pytest.mark.parametrize("box", ["7", "0", "13", "-3", "3.0", "3 or 4", "", "three"])
def test_nothing_but_the_digit_is_credited(box):
    problem = make_chain_search([("*", 7), ("-", 9), ("+", 8)])
    assert ChainSearch().verifier.score(rf"\boxed{{{box}}}", problem.answer).score == 0.0
    assert ChainSearch().verifier.score(rf"\boxed{{{box}}} no, \boxed{{ 3 }}", problem.answer).score == 1.0


def test_a_draft_may_be_repeated():
    contest = DraftChallenge(ChainSearch(), reward="outcome")
    contest.reset(seed=0)
    contest.step(contest.solution("drafter"))
    contest.step(contest.solution("challenger"))
    assert contest.outcome.rewards == {"alice": 1.0, "bob": 1.0}
