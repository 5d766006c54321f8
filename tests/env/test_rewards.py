"""Properties of the reward rules."""

from __future__ import annotations

import math
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agon_env
from agon_env.errors import Error
from agon_env.games.draft_challenge import DraftChallenge
from agon_env.registration import ContestSpec
from agon_env.rewards import RULES, CompetitiveReward, OutcomeReward, make_rule, rival_score, total

SCORE = st.floats(0, 1)
MAYBE = st.none() | SCORE
RULE = st.sampled_from(sorted(RULES)).map(make_rule)
BONUS = st.floats(0, 10)


def rewards(rule, scores):
    return {role: total(parts) for role, parts in rule(scores).items()}


@given(SCORE, SCORE)
def test_the_rules_are_the_table_of_the_paper(d, c):
    scores = {"drafter": d, "challenger": c}
    assert rewards(make_rule("outcome"), scores) == scores
    assert rewards(make_rule("cooperative"), scores) == {"drafter": c, "challenger": c}
    assert rewards(make_rule("zero_sum"), scores) == {"drafter": d - c, "challenger": c - d}
    assert rewards(make_rule("competitive", bonus=0.5), scores) == {
        "drafter": pytest.approx(d + 0.5 * max(0, d - c)),
        "challenger": pytest.approx(c + 0.5 * max(0, c - d)),
    }


@given(st.sampled_from(["outcome", "competitive", "zero_sum"]).map(make_rule), MAYBE, MAYBE)
def test_swapping_the_scores_swaps_the_rewards(rule, a, b):
    one, two = rewards(rule, {"x": a, "y": b}), rewards(rule, {"x": b, "y": a})
    assert (one["x"], one["y"]) == (two["y"], two["x"])


@given(st.dictionaries(st.text(max_size=3), SCORE, min_size=2, max_size=6))
def test_zero_sum_sums_to_zero(scores):
    assert sum(rewards(make_rule("zero_sum"), scores).values()) == pytest.approx(0, abs=1e-9)


@given(BONUS, SCORE, st.integers(1, 5))
def test_a_tie_brings_no_bonus(bonus, score, players):
    parts = CompetitiveReward(bonus)({str(i): score for i in range(players)})
    assert all(part["bonus"] == pytest.approx(0, abs=1e-12) for part in parts.values())
    assert players > 2 or all(part["bonus"] == 0 for part in parts.values())


@given(BONUS, SCORE, SCORE)
def test_the_bonus_is_paid_to_the_winner_alone(bonus, a, b):
    parts = CompetitiveReward(bonus)({"x": a, "y": b})
    assert min(parts["x"]["bonus"], parts["y"]["bonus"]) == 0
    assert max(parts["x"]["bonus"], parts["y"]["bonus"]) == bonus * abs(a - b)


@given(RULE, st.lists(SCORE, min_size=2, max_size=5), st.floats(-5, 5), st.floats(0.5, 5))
def test_rewards_keep_to_the_declared_range(rule, scores, low, width):
    low_reward, high_reward = rule.range((low, low + width))
    for reward in rewards(rule, {str(i): low + score * width for i, score in enumerate(scores)}).values():
        assert low_reward - 1e-9 <= reward <= high_reward + 1e-9


@given(RULE)
def test_the_declared_range_is_reached(rule):
    corners = [rewards(rule, {"x": a, "y": b})["x"] for a in (0.0, 1.0) for b in (0.0, 1.0)]
    assert (min(corners), max(corners)) == rule.range()


@given(RULE, st.lists(MAYBE, min_size=1, max_size=4))
def test_a_missing_score_is_never_a_number(rule, values):
    scores = {str(i): value for i, value in enumerate(values)}
    parts = rule(scores)
    for role, score in scores.items():
        if score is None and "outcome" in parts[role]:
            assert parts[role]["outcome"] is None
            assert total(parts[role]) is None
        if rival_score(scores, role) is None:
            assert parts[role].get("bonus") is None
            assert parts[role].get("rival") is None


def test_cooperative_pays_by_the_last_score_alone():
    assert rewards(make_rule("cooperative"), {"drafter": None, "challenger": 1.0}) == {"drafter": 1.0, "challenger": 1.0}
    assert rewards(make_rule("cooperative"), {"drafter": 1.0, "challenger": None}) == {"drafter": None, "challenger": None}


def test_the_rival_is_the_mean_of_the_others():
    assert rival_score({"a": 1.0, "b": 0.0, "c": 0.5}, "a") == fmean([0.0, 0.5])
    assert rival_score({"a": 1.0, "b": None, "c": 0.5}, "a") is None
    assert rival_score({"a": None, "b": 0.25}, "a") == 0.25


def test_alone_there_is_no_bonus():
    assert CompetitiveReward(0.5)({"solver": 1.0}) == {"solver": {"outcome": 1.0, "bonus": 0.0}}


@given(BONUS, st.tuples(*[st.sampled_from([0.0, 1.0])] * 6), st.sampled_from([0.0, 1.0]))
def test_without_exchange_the_reward_is_an_affine_map_of_the_outcome(bonus, mine, rival):
    """With 0/1 scores and one rival for the whole group, (R − mean)/std does not know of the rival (DESIGN §2)."""
    group = [total(CompetitiveReward(bonus)({"me": score, "rival": rival})["me"]) for score in mine]
    slope = 1 + bonus * (1 - rival)
    assert group == pytest.approx([slope * score for score in mine])


@pytest.mark.parametrize("bonus", [-1, float("nan")])
def test_a_bonus_must_be_a_number_from_zero(bonus):
    with pytest.raises(ValueError, match="bonus must be"):
        CompetitiveReward(bonus)


def test_an_unknown_rule_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="outcome, competitive, cooperative, zero_sum"):
        make_rule("competetive")


@pytest.mark.parametrize("rule", ["outcome", "cooperative", "zero_sum", OutcomeReward()])
def test_a_bonus_that_nobody_would_pay_is_refused(rule):
    with pytest.raises(ValueError, match=r"bonus=2.0 has no effect with reward=.*, only with the rule 'competitive'"):
        agon_env.make("ArithmeticDuel-v0", reward=rule, bonus=2.0)


@pytest.mark.parametrize("named", [{}, {"reward": "competitive"}])
def test_a_registered_bonus_gives_way_to_another_rule(named):
    spec = ContestSpec("tests/Dear-v0", DraftChallenge, kwargs={"task": "arithmetic", "bonus": 2.0, **named})
    assert spec.make().reward_rule == spec.make(reward="competitive").reward_rule == CompetitiveReward(2.0)
    free = spec.make(reward="outcome")
    assert free.reward_rule == OutcomeReward()
    assert free.spec.make().reward_rule == OutcomeReward()  # and so in another process
    with pytest.raises(ValueError, match=r"bonus=3\.0 has no effect"):
        spec.make(reward="outcome", bonus=3.0)


def test_a_rule_is_taken_as_it_is():
    rule = CompetitiveReward(2.0)
    assert make_rule(rule) is rule
    assert make_rule("competitive", bonus=2.0) == rule


class Paying:
    """A rule of somebody's own that pays what it is told to."""

    zero_sum = True

    def __init__(self, paid):
        self.paid = paid

    def __call__(self, scores):
        return {role: {"chips": reward} for role, reward in zip(scores, self.paid, strict=False)}

    def range(self, scores=(0.0, 1.0)):
        return -1.0, 1.0


@pytest.mark.parametrize(
    ("paid", "what"),
    [
        ((math.nan, 1.0), "must be finite"),
        ((-math.inf, math.inf), "must be finite"),
        ((-2.0, 2.0), r"outside of \[-1.0, 1.0\]; mend its range"),
        ((0.5, 0.5), "do not sum to zero though its zero_sum says so"),
        ((0.5,), "must pay drafter, challenger, not drafter"),
    ],
)
def test_a_rule_that_does_not_keep_its_word_pays_nobody(paid, what):
    env = agon_env.make("ArithmeticDuel-v0", reward=Paying(paid))
    env.reset(seed=0)
    env.step("a draft")
    with pytest.raises(Error, match=what):
        env.step("an answer")
    assert env.outcome is None


def test_a_rule_that_keeps_its_word_or_does_not_know_pays():
    for paid in ((1.0, -1.0), (0.1 + 0.2, -0.3), (None, 1.0)):
        env = agon_env.make("ArithmeticDuel-v0", reward=Paying(paid))
        env.reset(seed=0)
        env.step("a draft")
        env.step("an answer")
        assert tuple(env.outcome.rewards.values()) == paid
