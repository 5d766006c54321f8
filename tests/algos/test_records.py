"""Records of contests that went wrong: a score that is not known, a player that forfeited."""

import pytest

import agon_env
from agon_env.errors import InvalidMove
from algos.evaluate import Evaluation, figures
from algos.evaluation.metrics import pair_metrics
from algos.evaluation.records import records_of
from algos.evaluation.scorecard import wins
from algos.rollouts import Rollout


class Judged(agon_env.Contest):
    """Two players say a number, which is the score; "?" can't be judged, and "!" is no move."""

    roles = ("first", "second")

    def setup(self, rng, options):
        self.said = {}

    def prompt(self, role):
        return "Say a number."

    def apply(self, role, text):
        if text == "!":
            raise InvalidMove("that is no number")
        self.said[role] = text

    def score(self):
        return {role: None if text == "?" else float(text) for role, text in self.said.items()}


def played(*said: str) -> Rollout:
    """Play a contest for each pair of texts, such as "10"; no policy takes part."""
    contests = [Judged() for _ in said]
    for seed, (contest, texts) in enumerate(zip(contests, said, strict=True)):
        contest.reset(seed=seed)
        for text in texts:
            if not contest.done:
                contest.step(text)
    return Rollout([], contests, [])


def evaluated(*said: str) -> Evaluation:
    return figures(records_of(played(*said)))


def test_a_contest_with_one_unknown_score_counts_nowhere() -> None:
    whole = evaluated("10", "01", "11")
    with_unknown = evaluated("10", "01", "11", "1?", "?0")
    for name in ("answer_pass1", "draft_pass1", "fix_rate", "break_rate", "n", "ci95"):
        assert getattr(with_unknown, name) == getattr(whole, name), name
    assert (whole.unscored, with_unknown.unscored) == (0, 2)


@pytest.mark.parametrize(("texts", "scores"), [("!1", (0.0, None)), ("1!", (None, 0.0))])
def test_who_forfeits_is_wrong_and_of_the_other_nothing_is_known(texts: str, scores: tuple[float | None, ...]) -> None:
    (record,) = records_of(played(texts))
    assert (record.first, record.last) == scores
    assert (record.forfeited, evaluated(texts).fix_rate, evaluated(texts).break_rate) == (True, None, None)


def test_a_contest_that_could_not_be_judged_is_no_draw() -> None:
    known, unknown = ("10", "10", "01", "11", "!1"), ("1?", "??", "?0")
    expected = {"alice": {"first": 2.5 / 5}, "bob": {"second": 2.5 / 5}}
    assert wins(records_of(played(*known))) == wins(records_of(played(*known, *unknown))) == expected
    metrics, diluted = pair_metrics(played(*known)), pair_metrics(played(*known, *unknown))
    assert metrics["pair/wins_first"] == diluted["pair/wins_first"] == 2 / 5
    assert metrics["pair/wins_second"] == diluted["pair/wins_second"] == 2 / 5
    assert "pair/wins_first" not in pair_metrics(played(*unknown))
    assert wins(records_of(played(*unknown))) == {}
