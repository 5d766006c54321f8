"""Who meets whom on which problem."""

from collections import Counter
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from algos.playing.matches import plan_matches, results

PAIR = [{"drafter": "alice", "challenger": "bob"}]
SELF = [{"drafter": "alice", "challenger": "alice"}]
LEAGUE = [{"drafter": "alice", "challenger": "bob"}, {"drafter": "carol", "challenger": "dave"}]


def test_without_opponents_a_pair_plays_every_problem() -> None:
    (match,) = plan_matches(PAIR, step=3, problems=5, against_opponents=0)
    assert (match.seats, match.problems, match.learner) == (PAIR[0], (0, 1, 2, 3, 4), None)
    assert not match.replaced("drafter")


@given(
    seatings=st.sampled_from([PAIR, SELF, LEAGUE]),
    step=st.integers(0, 50),
    problems=st.integers(1, 12),
    share=st.floats(0, 1),
    meetings=st.integers(1, 3),
)
def test_every_problem_is_played_once(
    seatings: list[dict[str, str]], step: int, problems: int, share: float, meetings: int
) -> None:
    against = round(share * problems)
    matches = plan_matches(seatings, step=step, problems=problems, against_opponents=against, meetings=meetings)
    assert sorted(place for match in matches for place in match.problems) == list(range(problems))
    assert sum(len(match.problems) for match in matches if match.learner is not None) == against
    for match in matches:
        if match.learner is not None:
            assert match.seats[match.role] == match.learner
            assert [role for role in match.seats if not match.replaced(role)] == [match.role]


@given(seatings=st.sampled_from([PAIR, SELF, LEAGUE]), problems=st.integers(1, 5), against=st.integers(1, 5))
def test_everyone_gets_its_turns(seatings: list[dict[str, str]], problems: int, against: int) -> None:
    against = min(problems, against)
    policies = {policy for seats in seatings for policy in seats.values()}
    met: Counter[str] = Counter()
    live: Counter[int] = Counter()
    steps = 4 * len(policies)
    for step in range(steps):
        for match in plan_matches(seatings, step=step, problems=problems, against_opponents=against):
            if match.learner is not None:
                met[match.learner] += len(match.problems)
            else:
                live[seatings.index(match.seats)] += len(match.problems)
    assert set(met) == policies
    assert max(met.values()) - min(met.values()) <= 1
    assert not live or max(live.values()) - min(live.values()) <= 1


def test_a_policy_that_plays_itself_keeps_each_seat_in_turn() -> None:
    matches = plan_matches(SELF, step=0, problems=4, against_opponents=4)
    assert {(match.role, match.problems) for match in matches} == {("drafter", (0, 2)), ("challenger", (1, 3))}


def test_several_opponents_in_one_step() -> None:
    matches = plan_matches(PAIR, step=0, problems=8, against_opponents=8, meetings=2)
    assert {(match.learner, match.meeting, len(match.problems)) for match in matches} == {
        (name, meeting, 2) for name in ("alice", "bob") for meeting in (0, 1)
    }


def test_who_is_paid_more_has_won() -> None:
    def contest(first: float | None, second: float | None) -> SimpleNamespace:
        outcome = SimpleNamespace(rewards={"x": first, "y": second})
        return SimpleNamespace(outcome=outcome, player_of={"a": "x", "b": "y"})

    unfinished = SimpleNamespace(outcome=None, player_of={"a": "x", "b": "y"})
    contests = [contest(1, 0), contest(0, 2), contest(1, 1), contest(None, 1), unfinished]
    assert results(contests, of="a", against="b") == [1, 0, 0.5]
    assert results(contests, of="b", against="a") == [0, 1, 0.5]
