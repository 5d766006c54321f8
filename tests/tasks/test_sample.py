"""The embedded sample: made again, checked twice, and marked by the verifier."""

import json
from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from agon_env.tasks.deepmath import SAMPLE
from agon_env.tasks.make_sample import PER_TEMPLATE, main, problems
from agon_env.tasks.rows import guessable
from agon_env.tasks.sample.template import TEMPLATES, agrees, determinant, solve
from agon_env.tasks.task import normalise_question
from agon_env.verifiers import MathVerifier
from agon_env.verifiers.exact import read_number

ROWS = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").split("\n") if line]
VERIFIER = MathVerifier(deadline=10)


def test_it_is_large_varied_and_hard():
    assert len(ROWS) >= 240
    assert len(TEMPLATES) >= 30
    assert {row["topic"] for row in ROWS} >= {
        "Calculus",
        "Algebra",
        "Number Theory",
        "Combinatorics",
        "Linear Algebra",
        "Probability",
    }
    assert all(5 <= row["difficulty"] <= 9.5 and row["difficulty"] * 2 == int(row["difficulty"] * 2) for row in ROWS)
    assert len({normalise_question(row["question"]) for row in ROWS}) == len(ROWS)
    assert not any(guessable(row["final_answer"]) for row in ROWS)


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_kind_is_made_again_as_in_the_file(name):
    # both ways to the answer are computed and compared on the way
    again = list(problems(TEMPLATES[name], 2))
    assert len(again) == 2
    for row in again:
        [shipped] = [shipped for shipped in ROWS if shipped["question"] == row["question"]]
        assert {**row, "final_answer": ""} == {**shipped, "final_answer": ""}
        assert VERIFIER.score(rf"\boxed{{{row['final_answer']}}}", shipped["final_answer"]).score == 1.0


def test_the_file_holds_every_kind_in_full(tmp_path, monkeypatch, capsys):
    names = ["pell_equation", "coupons_in_pairs"]
    monkeypatch.setattr("agon_env.tasks.make_sample.TEMPLATES", {name: TEMPLATES[name] for name in names})
    main([str(tmp_path / "new" / "sample.jsonl")])
    rows = [json.loads(line) for line in (tmp_path / "new" / "sample.jsonl").read_text(encoding="utf-8").split("\n") if line]
    assert all(row in ROWS for row in rows)
    assert len(rows) == PER_TEMPLATE + 4
    assert "12 problems of 2 kinds" in capsys.readouterr().out


def test_a_wrong_answer_does_not_pass_the_check():
    for name in ("pell_equation", "dice_order_statistic", "two_quadratics", "frullani_arctangent"):
        draft = TEMPLATES[name].draw(Random(name))
        assert agrees(draft)
        assert not agrees(replace(draft, answer=draft.answer + 1))
        assert not agrees(replace(draft, answer=draft.answer * 2))


def perturbed(answer):
    number = read_number(answer)
    return rf"{answer} + 1" if number is None else str(number + Fraction(1, 7))


def test_the_verifier_credits_every_gold_and_no_neighbour_of_it():
    golds = [row["final_answer"] for row in ROWS]
    assert all(verdict.score == 1.0 for verdict in VERIFIER.score_many([(rf"\boxed{{{gold}}}", gold) for gold in golds]))
    wrong = VERIFIER.score_many([(rf"\boxed{{{perturbed(gold)}}}", gold) for gold in golds])
    assert [verdict.score for verdict in wrong] == [0.0] * len(golds)


def test_the_exact_tools_of_the_generator():
    assert determinant([[0, 2], [3, 4]]) == -6
    assert determinant([[1, 2, 3], [2, 4, 6], [1, 0, 1]]) == 0
    assert solve([[0, 2], [4, 1]], [6, 5]) == [Fraction(1, 2), 3]
