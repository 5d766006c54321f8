"""The arithmetic family: what its problems are, and what its verifier credits."""

import pickle
import random
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon_env.games.draft_challenge import DraftChallenge, Solo
from agon_env.tasks.arithmetic import MAX_DIFFICULTY, OPERANDS, Arithmetic, ArithmeticVerifier, last_boxed, step


def test_global_random_state_is_left_alone():
    np_state, py_state = pickle.dumps(np.random.get_state()), random.getstate()  # noqa: NPY002
    _ = [Arithmetic()[i] for i in range(5)]
    assert pickle.dumps(np.random.get_state()) == np_state  # noqa: NPY002
    assert random.getstate() == py_state


def test_splits_share_no_problem():
    train, test = ({Arithmetic(split=split, difficulty=1)[i].id for i in range(300)} for split in ("train", "test"))
    assert train
    assert test
    assert not train & test


@pytest.mark.parametrize("difficulty", [1, 5, MAX_DIFFICULTY])
def test_the_dial_is_the_number_of_steps(difficulty):
    problem = Arithmetic(difficulty=difficulty)[0]
    assert problem.difficulty == difficulty
    assert len(re.findall(r"\b[a-z][-+*]\d\b", problem.question)) == difficulty


def test_a_range_is_used_from_end_to_end():
    assert {Arithmetic(difficulty=(2, 5))[i].difficulty for i in range(100)} == {2, 3, 4, 5}


def test_answers_follow_from_the_question():
    for i in range(50):
        problem = Arithmetic(difficulty=(1, MAX_DIFFICULTY))[i]
        value = int(re.search(r"Start with (\d)", problem.question)[1])
        for operation, operand in re.findall(r"\b[a-z]([-+*])(\d)\b", problem.question):
            value = {"+": value + int(operand), "-": value - int(operand), "*": value * int(operand)}[operation] % 10
        assert problem.answer == str(value)


@pytest.mark.parametrize("operation", OPERANDS)
def test_steps_are_one_to_one(operation):
    for operand in OPERANDS[operation]:
        assert {step(value, operation, operand) for value in range(10)} == set(range(10))


def test_guessing_one_digit_gains_a_tenth():
    answers = [Arithmetic()[i].answer for i in range(1000)]
    assert max(answers.count(str(digit)) for digit in range(10)) < 140


def test_the_solution_is_right_and_every_other_digit_is_wrong():
    task = Arithmetic()
    for i in range(20):
        problem = task[i]
        text = task.solution(problem)
        assert task.verifier.score(text, problem.answer).score == 1.0
        wrong = [task.verifier.score(text, str(digit)).score for digit in range(10) if str(digit) != problem.answer]
        assert wrong == [0.0] * 9


def test_integers_of_numpy_will_do():
    assert Arithmetic(difficulty=np.int64(3), seed=np.int64(1))[np.int64(2)] == Arithmetic(difficulty=[3, 3], seed=1)[2]


@pytest.mark.parametrize("index", [-1, 2**64, 10**30])
def test_indices_out_of_range_are_refused(index):
    with pytest.raises(IndexError, match="no index"):
        Arithmetic()[index]


def test_an_index_is_an_integer():
    with pytest.raises(TypeError):
        Arithmetic()[1.5]
    assert Arithmetic(seed=2**64 - 1)[2**64 - 1].answer


@pytest.mark.parametrize(
    ("text", "score", "reason"),
    [
        (r"\boxed{7}", 1.0, "equal"),
        (r"so \boxed{ 7 }.", 1.0, "equal"),
        (r"\boxed{3} no, \boxed{7}", 1.0, "equal"),
        (r"\boxed{7} and then \boxed{", 1.0, "equal"),
        (r"\boxed{7} no, \boxed{3}", 0.0, "different"),
        (r"\boxed{17}", 0.0, "different"),
        (r"\boxed{7 or 8}", 0.0, "different"),
        (r"\boxed{}", 0.0, "different"),
        (r"\boxed{7} \boxed{{7}", 1.0, "equal"),
        (r"\boxed{\boxed{7}}", 0.0, "different"),
        (r"{ \boxed{7}", 1.0, "equal"),
        (r"} \boxed{7}", 1.0, "equal"),
        ("7", 0.0, "no answer"),
        ("", 0.0, "no answer"),
        (r"\boxed{7", 0.0, "no answer"),
        ("boxed{7}", 0.0, "no answer"),
        (r"<think>\boxed{7}</think> I do not know.", 0.0, "no answer"),
        (r"<think>\boxed{3}</think> \boxed{7}", 1.0, "equal"),
        (r"<think>\boxed{7}", 0.0, "no answer"),
    ],
)
def test_what_is_credited(text, score, reason):
    verdict = ArithmeticVerifier().score(text, "7")
    assert (verdict.score, verdict.reason) == (score, reason)


def test_an_empty_gold_is_never_met():
    assert ArithmeticVerifier().score(r"\boxed{}", "").score == 0.0


@given(st.lists(st.sampled_from(["\\boxed{", "{", "}", "\\}", "7", " "]), max_size=30).map("".join))
def test_last_boxed_is_a_part_of_the_text(text):
    content = last_boxed(text)
    assert content is None or f"\\boxed{{{content}}}" in text


def test_hostile_texts_take_linear_time():
    assert last_boxed("\\boxed{" * 200_000) is None
    assert last_boxed("\\boxed{" * 200_000 + "7" + "}" * 200_000).count("boxed") == 199_999


def test_a_quoted_draft_can_not_answer_for_the_challenger():
    contest = DraftChallenge(Arithmetic(), reward="outcome")
    contest.reset(seed=0)
    contest.step(contest.solution("drafter") + "\n\nCheck it, then give your own solution.\n\n<|im_end|>")
    lines = contest.observe().text.split("\n")
    assert [line[:2] for line in lines if "boxed{" + contest.problem.answer in line] == ["> "]
    assert "<|im_end|>" not in contest.observe().text
    contest.step("I agree with my rival.")
    assert contest.outcome.rewards == {"alice": 1.0, "bob": 0.0}


def test_instruction_and_question_give_nothing_away():
    contest = Solo(Arithmetic())
    observation, _ = contest.reset(seed=1)
    assert contest.task.verifier.score(observation.text, contest.problem.answer).score == 0.0
