"""What an evaluation counts: records of contests, and figures of records."""

from collections.abc import Sequence
from itertools import cycle

import pytest

from agents.agent import Agent
from agents.cascade import Cascade
from agents.sampling import Completion, SamplingParams
from agon_env.games import DraftChallenge, Solo
from agon_env.tasks.arithmetic import Arithmetic
from agon_env.types import Action, Observation
from algos.evaluate import evaluate, figures
from algos.evaluation.records import Record

PARAMS = SamplingParams(max_tokens=8)


class Says(Agent):
    """Says its texts one after the other, and counts a token for each."""

    def __init__(self, *texts: str) -> None:
        self._texts = cycle(texts)
        self.tokens_spent = 0

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        self.tokens_spent += len(observations)
        return [Action(next(self._texts)) for _ in observations]


def record(first: float | None, last: float | None, **changes: object) -> Record:
    values = {
        "problem": "p",
        "difficulty": 1.0,
        "topic": "t",
        "players": {"drafter": "alice", "challenger": "bob"},
        "scores": {"drafter": first, "challenger": last},
        "answers": {"drafter": "1", "challenger": "2"},
        "tokens": {"drafter": 10, "challenger": 30},
        "hedges": {"drafter": 1, "challenger": 3},
        "truncated": (),
        "winner": None,
        "forfeited": False,
    }
    return Record(**{**values, **changes})


def test_costs_and_hedges_are_counted_per_token() -> None:
    found = figures([record(0.0, 1.0), record(1.0, 1.0), record(0.0, 0.0, truncated=("drafter",))])
    assert found.mean_tokens == 20
    assert found.tokens_per_problem == 40
    assert found.correct_per_1k_tokens == pytest.approx(2 / 120 * 1000)
    assert found.hedges_per_100_tokens == pytest.approx(10)
    assert found.truncated == pytest.approx(1 / 6)
    assert (found.fix_rate, found.break_rate) == (0.5, 0.0)


def test_several_samples_give_pass_at_k_and_majority_votes() -> None:
    answers = [("7", 1.0), ("5", 0.0), ("5", 0.0), ("7", 1.0)]
    group = [record(0.0, score, answers={"drafter": "1", "challenger": answer}) for answer, score in answers]
    found = figures(group)
    assert found.pass_at == {"pass@2": pytest.approx(5 / 6), "maj@2": 1.0, "pass@4": 1.0, "maj@4": 1.0}
    assert figures(group[:1]).pass_at == {}
    later = [record(0.0, score, answers={"drafter": "1", "challenger": str(score)}) for score in (1.0, 0.0, 0.0, 0.0)]
    assert (figures(later).pass_at["maj@2"], figures(later).pass_at["maj@4"]) == (1.0, 0.0)  # a vote of the first k
    assert figures([*group, record(0.0, 0.0, problem="other")]).pass_at == {}  # one sample of it is all there is


def test_a_draft_that_is_right_in_part_can_be_fixed_but_not_broken() -> None:
    found = figures([record(0.7, 1.0), record(0.7, 0.2), record(1.0, 0.25)])
    assert (found.fix_rate, found.break_rate) == (pytest.approx(0.6), 0.75)


def test_samples_without_a_score_are_none_of_the_k() -> None:
    scores = {"p": (1.0, None, 0.0), "q": (None, 0.0, 0.0), "r": (None, None, None)}
    found = figures([record(0.0, score, problem=name) for name, each in scores.items() for score in each])
    assert found.pass_at["pass@2"] == 0.5


def test_players_disagree_where_their_drafts_on_one_problem_differ() -> None:
    def drafted(by: str, answer: str, problem: str = "p") -> Record:
        seats = {"drafter": by, "challenger": "bob" if by == "alice" else "alice"}
        return record(0.0, 0.0, problem=problem, players=seats, answers={"drafter": answer, "challenger": "x"})

    same, other = [drafted("alice", "1"), drafted("bob", "1")], [drafted("alice", "1", "q"), drafted("bob", "2", "q")]
    assert figures(same).disagreement == 0.0
    assert figures(same + other).disagreement == 0.5
    assert figures([drafted("alice", "1"), drafted("alice", "2")]).disagreement is None


def test_figures_of_parts_add_up() -> None:
    whole = figures([record(0.0, 1.0, topic="a"), record(1.0, 1.0, topic="a"), record(0.0, 0.0, topic="b")])
    parts = whole.by(lambda one: one.topic)
    assert {name: (part.n, part.answer_pass1) for name, part in parts.items()} == {"a": (2, 1.0), "b": (1, 0.0)}
    assert "records" not in whole.summary()


def test_every_sample_of_a_problem_is_another_contest_with_the_seats_swapped() -> None:
    right = Says(r"\boxed{1}", r"\boxed{2}", r"\boxed{3}")
    found, contests = evaluate(
        lambda: DraftChallenge(Arithmetic(split="test")),
        {"alice": right, "bob": Says("no")},
        problems=3,
        samples=2,
        params=PARAMS,
        batch=4,
    )
    assert len(contests) == 6
    assert [c.problem.id for c in contests[:3]] == [c.problem.id for c in contests[3:]]
    assert [c.player_of["drafter"] for c in contests] == ["alice", "bob", "alice", "bob", "alice", "bob"]
    assert found.records[0].answers["drafter"] == "1"
    assert found.disagreement == 1.0
    assert "pass@2" in found.pass_at


def test_what_an_agent_samples_inside_is_part_of_the_cost() -> None:
    pair = Cascade(Says("draft"), Says(r"\boxed{1}"))
    found, _ = evaluate(lambda: Solo(Arithmetic(split="test")), {"alice": pair}, problems=5, params=PARAMS)
    assert found.tokens_per_problem == 2
    assert found.mean_tokens is None
    found, _ = evaluate(lambda: Solo(Arithmetic(split="test")), {"alice": pair}, problems=5, params=PARAMS)
    assert found.tokens_per_problem == 2  # not what it sampled before


def test_tokens_of_an_agent_that_plays_alone_and_within_another_count_once() -> None:
    alice, bob = Says("draft"), Says(r"\boxed{1}")
    players = {"alice": alice, "bob": Cascade(alice, Cascade(bob, alice))}
    found, _ = evaluate(lambda: DraftChallenge(Arithmetic(split="test")), players, problems=4, params=PARAMS)
    assert found.tokens_per_problem == 4
    assert alice.tokens_spent + bob.tokens_spent == 16


def test_records_of_branches_hold_their_own_path_alone() -> None:
    from algos.evaluation.records import records_of
    from algos.rollouts import Start, rollout

    class Policy(Says):
        pass

    played = rollout(
        lambda: DraftChallenge(Arithmetic()),
        {"alice": Policy("maybe one", "perhaps, wait"), "bob": Policy("answer")},
        [Start(0, {"index": 0, "roles": {"alice": "drafter", "bob": "challenger"}})],
        params=PARAMS,
        seed=0,
        branches=(2, 2),
    )
    assert [dict(r.hedges) for r in records_of(played)] == [{"drafter": 1, "challenger": 0}] * 2 + [
        {"drafter": 2, "challenger": 0}
    ] * 2
    assert played.beneath == [(0, 1), (2, 3), (0,), (1,), (2,), (3,)]


def test_a_cut_text_is_reported_by_its_role() -> None:
    from algos.evaluation.records import records_of
    from algos.rollouts import Rollout
    from algos.types import Turn

    contest = Solo(Arithmetic())
    contest.reset(seed=0, options={"index": 0})
    contest.step(Action("wait", truncated=True))
    turn = Turn("alice", "alice", "solver", 0, (0,), (1,), Completion((1, 2), (0.0, 0.0), "length"), "wait", 0.0, {}, 0.0)
    (found,) = records_of(Rollout([turn], [contest], [(0,)]))
    assert (found.truncated, found.tokens, found.hedges) == (("solver",), {"solver": 2}, {"solver": 1})
