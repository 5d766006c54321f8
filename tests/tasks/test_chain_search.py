"""The family of chains that are to end with 0: one digit of ten is right, and it is found by trying."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon_env.errors import TaskError
from agon_env.games.draft_challenge import DraftChallenge, Solo
from agon_env.tasks import Task, load_task, split_of
from agon_env.tasks.arithmetic import OPERANDS, Arithmetic, read_steps, results
from agon_env.tasks.chain_search import ChainSearch, make_chain_search, write_tries

ROOT = Path(__file__).parents[2]
STEPS = st.lists(st.sampled_from([(o, d) for o in OPERANDS for d in OPERANDS[o]]), min_size=1, max_size=26)


def digest() -> str:
    problems = [ChainSearch(seed=3, difficulty=(1, 26), split="test")[i] for i in range(20)]
    return hashlib.sha256(repr(problems).encode()).hexdigest()


def test_it_is_a_task():
    assert isinstance(load_task("chain_search"), Task)
    assert load_task("chain_search", difficulty=6) is load_task("chain_search", difficulty=6)


def test_same_seed_and_index_same_problem():
    assert ChainSearch(seed=1)[7] == ChainSearch(seed=1)[7]
    assert ChainSearch(seed=1)[7] != ChainSearch(seed=2)[7]
    assert len({ChainSearch()[i].id for i in range(200)}) == 200


def test_same_problems_in_another_process():
    script = "from tests.tasks.test_chain_search import digest; print(digest())"
    environment = os.environ | {"PYTHONHASHSEED": "12345"}
    other = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, cwd=ROOT, check=True
    )
    assert other.stdout.strip() == digest()


@pytest.mark.parametrize("split", ["train", "test"])
def test_splits_follow_the_hash_of_the_question(split):
    assert {split_of(ChainSearch(split=split)[i].question) for i in range(100)} == {split}


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


@pytest.mark.parametrize(
    "options",
    [
        *({"difficulty": wrong} for wrong in (0, 27, (8, 5), "abc", 8.0, True, None, (8,), (4.5, 6))),
        *({"split": wrong} for wrong in ("dev", None)),
        *({"seed": wrong} for wrong in (-1, 2**64, True, "0")),
    ],
)
def test_bad_options_are_refused(options):
    with pytest.raises(TaskError, match=next(iter(options))):
        ChainSearch(**options)


def test_a_draft_may_be_repeated():
    contest = DraftChallenge(ChainSearch(), reward="outcome")
    contest.reset(seed=0)
    contest.step(contest.solution("drafter"))
    contest.step(contest.solution("challenger"))
    assert contest.outcome.rewards == {"alice": 1.0, "bob": 1.0}
