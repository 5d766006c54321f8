"""The subset-sum family: every problem has an answer, every answer that adds up is credited, nothing else is."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon_env.errors import TaskError
from agon_env.games.draft_challenge import DraftChallenge, Solo
from agon_env.tasks.subset_sum import (
    GREATEST,
    MAX_DIFFICULTY,
    SubsetSum,
    SubsetSumVerifier,
    boxed,
    make_subset_sum,
    read_choice,
    read_subset_sum,
    write_attempt,
)

GOLD = "24 = 3 of 7 12 5 9 3 8"


@pytest.mark.parametrize("terms", [2, 3, 4, 5])
def test_every_problem_has_an_answer_of_so_many_different_numbers(terms):
    for difficulty in (terms + 1, 10, MAX_DIFFICULTY):
        for i in range(30):
            problem = SubsetSum(difficulty=difficulty, terms=terms)[i]
            target, asked, numbers = read_subset_sum(problem.id)
            assert asked == terms
            assert problem.difficulty == len(numbers) == len(set(numbers)) == difficulty
            assert min(numbers) >= 1
            assert max(numbers) <= GREATEST
            assert any(sum(choice) == target for choice in combinations(numbers, terms))


def test_no_number_is_the_sum_itself():
    for i in range(300):
        target, _, numbers = read_subset_sum(SubsetSum(terms=2)[i].id)
        assert target > max(numbers)


def test_a_range_is_used_from_end_to_end():
    assert {SubsetSum(difficulty=(5, 8))[i].difficulty for i in range(100)} == {5, 6, 7, 8}


def test_guessing_gains_little():
    """A random choice of three among eight adds up in about one problem in twenty."""
    task, rng, right = SubsetSum(), np.random.default_rng(0), 0
    for i in range(1000):
        _, terms, numbers = read_subset_sum(task[i].id)
        guess = rng.permutation(numbers)[:terms]
        right += task.verifier.score(boxed(guess), task[i].answer).score
    assert right < 100


def test_the_verdict_on_every_choice_is_its_sum():
    problem = SubsetSum(difficulty=7)[0]
    target, terms, numbers = read_subset_sum(problem.id)
    for choice in combinations(numbers, terms):
        assert SubsetSumVerifier().score(boxed(choice), problem.answer).score == (sum(choice) == target)


def test_the_solution_is_right_and_worked_out():
    for terms in (2, 5):
        task = SubsetSum(terms=terms)
        for i in range(20):
            text = task.solution(task[i])
            assert task.verifier.score(text, task[i].answer).score == 1.0
            assert " = 0 \\boxed{" in text
    assert SubsetSum().solution(make_subset_sum(24, 3, [7, 12, 5, 9])) == r"24 - 7 = 17 - 12 = 5 - 5 = 0 \boxed{7 + 12 + 5}"


@pytest.mark.parametrize(
    ("text", "score", "reason"),
    [
        (r"\boxed{7+12+5}", 1.0, "adds up"),
        (r"\boxed{12 + 5 + 7}", 1.0, "adds up"),
        (r"\boxed{9+12+3}", 1.0, "adds up"),
        (r"\boxed{ 7+12+5 }", 1.0, "adds up"),
        (r"\boxed{1+2} no, \boxed{7+12+5}", 1.0, "adds up"),
        (r"\boxed{7+12+5} no, \boxed{7+12+8}", 0.0, "another sum"),
        (r"\boxed{8+8+8}", 0.0, "other numbers than those given"),
        (r"\boxed{10+11+3}", 0.0, "other numbers than those given"),
        (r"\boxed{24}", 0.0, "not 3 numbers"),
        (r"\boxed{12+9+3+0}", 0.0, "not 3 numbers"),
        (r"\boxed{7+5+9+3}", 0.0, "not 3 numbers"),
        (r"\boxed{7, 12, 5}", 0.0, "not a sum of numbers"),
        (r"\boxed{7+12+5=24}", 0.0, "not a sum of numbers"),
        (r"\boxed{7+12+5 or 9+12+3}", 0.0, "not a sum of numbers"),
        (r"\boxed{+7+12+5}", 0.0, "not a sum of numbers"),
        (r"\boxed{7++12+5}", 0.0, "not a sum of numbers"),
        (r"\boxed{7+12+5-0}", 0.0, "not a sum of numbers"),
        (r"\boxed{٧+12+5}", 0.0, "not a sum of numbers"),
        (r"\boxed{7+\n12+5}", 0.0, "not a sum of numbers"),
        (r"\boxed{1 2+7+5}", 0.0, "not a sum of numbers"),
        (r"\boxed{}", 0.0, "not a sum of numbers"),
        ("24-7=17-12=5-5=0", 0.0, "no answer"),
        (r"\boxed{7+12+5", 0.0, "no answer"),
        (r"<think>\boxed{7+12+5}</think> I do not know.", 0.0, "no answer"),
        (r"<think>\boxed{7+12+8}</think> \boxed{7+12+5}", 1.0, "adds up"),
        ("", 0.0, "no answer"),
    ],
)
def test_what_is_credited(text, score, reason):
    verdict = SubsetSumVerifier().score(text, GOLD)
    assert (verdict.score, verdict.reason) == (score, reason)


def test_verdicts_come_in_order():
    pairs = [(r"\boxed{7+12+5}", GOLD), (r"\boxed{7+12+8}", GOLD), (r"\boxed{1+2}", "3 = 2 of 1 2 9")]
    assert [verdict.score for verdict in SubsetSumVerifier().score_many(pairs)] == [1.0, 0.0, 1.0]


@given(st.lists(st.integers(0, 999), min_size=1, max_size=6))
def test_choices_are_read_back(numbers):
    assert read_choice("+".join(map(str, numbers))) == numbers


@given(st.text(alphabet="0123456789+ -=.,²", max_size=20))
def test_reading_a_choice_never_fails(text):
    choice = read_choice(text)
    assert choice is None or all(isinstance(number, int) for number in choice)


def test_huge_boxes_take_no_time():
    for text in ("9" * 1_000_000, "+".join("9" * 500_000), "9+" * 500_000):
        assert SubsetSumVerifier().score(rf"\boxed{{{text}}}", GOLD).score == 0.0


def test_an_attempt_shows_what_is_left():
    assert write_attempt(24, [9, 3, 8]) == "24 - 9 = 15 - 3 = 12 - 8 = 4"


@pytest.mark.parametrize("terms", [1, 6, 2.0, True, "3", None])
def test_bad_terms_are_refused(terms):
    with pytest.raises(TaskError, match="terms"):
        SubsetSum(terms=terms)


def test_more_terms_need_more_numbers():
    with pytest.raises(TaskError, match="from 6 to 12"):
        SubsetSum(terms=5, difficulty=5)
    assert SubsetSum(terms=5, difficulty=6)[0].answer


def test_a_draft_may_be_repeated():
    contest = DraftChallenge(SubsetSum(), reward="outcome")
    contest.reset(seed=0)
    contest.step(contest.solution("drafter"))
    contest.step(contest.solution("challenger"))
    assert contest.outcome.rewards == {"alice": 1.0, "bob": 1.0}


def test_instruction_and_question_give_nothing_away():
    contest = Solo(SubsetSum())
    observation, _ = contest.reset(seed=1)
    assert contest.task.verifier.score(observation.text, contest.problem.answer).score == 0.0
