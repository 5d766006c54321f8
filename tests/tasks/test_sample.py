"""The embedded sample: made again, checked twice, and marked by the verifier."""

import json
from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from agon_env.tasks.dataset import SAMPLES
from agon_env.tasks.make_sample import PER_TEMPLATE, main, problems
from agon_env.tasks.rows import guessable
from agon_env.tasks.sample.template import TEMPLATES, agrees, determinant, solve
from agon_env.tasks.task import normalise_question
from agon_env.verifiers import MathVerifier
from agon_env.verifiers.exact import read_number


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


SAMPLE_NAMES = list(dict.fromkeys(kind.sample for kind in TEMPLATES.values()))
SAMPLE_ROWS = {name: read(SAMPLES / f"{name}_sample.jsonl") for name in SAMPLE_NAMES}
ROWS = SAMPLE_ROWS["deepmath"]
VERIFIER = MathVerifier(deadline=10)


def test_it_is_large_varied_and_hard():
    assert len(ROWS) >= 240
    assert len([kind for kind in TEMPLATES.values() if kind.sample == "deepmath"]) >= 30
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
        [shipped] = [shipped for shipped in SAMPLE_ROWS[TEMPLATES[name].sample] if shipped["question"] == row["question"]]
        assert {**row, "final_answer": ""} == {**shipped, "final_answer": ""}
        assert VERIFIER.score(rf"\boxed{{{row['final_answer']}}}", shipped["final_answer"]).score == 1.0


def test_the_other_samples_are_in_the_manner_of_their_data_sets():
    assert set(SAMPLE_NAMES) == {"deepmath", "gsm8k", "math", "aime"}
    for name, least in (("gsm8k", 90), ("math", 150), ("aime", 80)):
        rows = SAMPLE_ROWS[name]
        assert len({normalise_question(row["question"]) for row in rows}) == len(rows) >= least
    assert all(row["final_answer"].isdecimal() for row in SAMPLE_ROWS["gsm8k"])
    assert all(row["final_answer"].isdecimal() and int(row["final_answer"]) <= 999 for row in SAMPLE_ROWS["aime"])
    assert {row["difficulty"] for row in SAMPLE_ROWS["math"]} == {1.0, 2.0, 3.0, 4.0, 5.0}


def test_the_files_hold_every_kind_in_full(tmp_path, monkeypatch, capsys):
    names = ["pell_equation", "coupons_in_pairs", "heron"]
    monkeypatch.setattr("agon_env.tasks.make_sample.TEMPLATES", {name: TEMPLATES[name] for name in names})
    main([str(tmp_path / "new")])
    made = {name: read(tmp_path / "new" / f"{name}_sample.jsonl") for name in ("deepmath", "math")}
    assert all(row in SAMPLE_ROWS[name] for name, rows in made.items() for row in rows)
    assert len(made["deepmath"]) == PER_TEMPLATE + 4
    assert len(made["math"]) == PER_TEMPLATE
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


@pytest.mark.parametrize("name", SAMPLE_NAMES)
def test_the_verifier_credits_every_gold_and_no_neighbour_of_it(name):
    golds = [row["final_answer"] for row in SAMPLE_ROWS[name]]
    assert all(verdict.score == 1.0 for verdict in VERIFIER.score_many([(rf"\boxed{{{gold}}}", gold) for gold in golds]))
    wrong = VERIFIER.score_many([(rf"\boxed{{{perturbed(gold)}}}", gold) for gold in golds])
    assert [verdict.score for verdict in wrong] == [0.0] * len(golds)


def test_the_exact_tools_of_the_generator():
    assert determinant([[0, 2], [3, 4]]) == -6
    assert determinant([[1, 2, 3], [2, 4, 6], [1, 0, 1]]) == 0
    assert solve([[0, 2], [4, 1]], [6, 5]) == [Fraction(1, 2), 3]
