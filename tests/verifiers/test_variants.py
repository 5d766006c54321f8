"""Hundreds of answers in other dresses, and of wrong ones that look right, judged by hand beforehand."""

import forms
import pytest
from variants import DIFFERENT, SAME

from agon_env.verifiers import MathVerifier

SAME, DIFFERENT = SAME | forms.SAME, DIFFERENT | forms.DIFFERENT
VERIFIER = MathVerifier(deadline=10)


def judged(pairs):
    verdicts = VERIFIER.score_many([(rf"So it is $\boxed{{{answer}}}$.", gold) for gold, answer in pairs])
    return list(zip(pairs, verdicts, strict=True))


@pytest.mark.parametrize("category", SAME)
def test_the_same_answer_in_another_dress_is_credited(category):
    assert [pair for pair, verdict in judged(SAME[category]) if verdict.score != 1.0] == []


@pytest.mark.parametrize("category", DIFFERENT)
def test_another_answer_is_never_credited(category):
    found = judged(DIFFERENT[category])
    assert [pair for pair, verdict in found if verdict.score not in (0.0, None)] == []
    hangs = [pair for pair, verdict in found if verdict.score is None]
    assert category == "dos" or not hangs


@pytest.mark.parametrize("category", SAME)
def test_every_gold_is_met_by_itself(category):
    golds = list(dict.fromkeys(gold for gold, _ in SAME[category]))
    assert [pair for pair, verdict in judged(list(zip(golds, golds, strict=True))) if verdict.score != 1.0] == []
