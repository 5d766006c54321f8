"""Competitive and cooperative GRPO differ in what they pay, not in who sits where."""

import dataclasses

import pytest

from algos.competitive import CompetitiveGRPO
from algos.config import TINY
from algos.cooperative import CooperativeGRPO
from algos.training.run import Run

ROLES = ("drafter", "challenger")


@pytest.mark.parametrize("algorithm", [CompetitiveGRPO, CooperativeGRPO])
def test_the_seats_rotate_unless_they_are_fixed(algorithm):
    assert algorithm().seats(0, ROLES) == algorithm().seats(2, ROLES) == {"drafter": "alice", "challenger": "bob"}
    assert algorithm().seats(1, ROLES) == {"drafter": "bob", "challenger": "alice"}
    assert algorithm(swap_roles=False).seats(1, ROLES) == {"drafter": "alice", "challenger": "bob"}


@pytest.mark.parametrize("algorithm", [CompetitiveGRPO, CooperativeGRPO])
@pytest.mark.parametrize("roles", [("solver",), ("first", "second", "third")])
def test_two_policies_play_contests_for_two(algorithm, roles):
    """Whoever sat in two seats would be paid for beating itself."""
    with pytest.raises(ValueError, match=f"{algorithm.__name__} needs a contest for 2 players.*{', '.join(roles)}"):
        algorithm().seats(0, roles)


def test_three_policies_rotate_through_three_seats():
    class Three(CompetitiveGRPO):
        policies = ("alice", "bob", "carol")

    seated = [Three().seats(step, ("first", "second", "third")) for step in range(4)]
    assert [seats["first"] for seats in seated] == ["alice", "bob", "carol", "alice"]
    assert [seats["second"] for seats in seated] == ["bob", "carol", "alice", "bob"]
    assert all(sorted(seats.values()) == ["alice", "bob", "carol"] for seats in seated)


def test_both_policies_are_paid_for_the_answer_and_both_learn():
    config = dataclasses.replace(
        TINY,
        algorithm="cooperative_grpo",
        env_options=("difficulty=2",),
        problems=4,
        group_size=8,
        max_tokens=40,
        eval_problems=0,
        lora_rank=4,
    )
    run = Run.of(config)
    before = {name: [p.detach().clone() for p in policy.parameters()] for name, policy in run.policies.items()}
    stats, played = run.advance()
    answers = [turn for turn in played.turns if turn.role == "challenger"]
    drafts = [turn for turn in played.turns if turn.role == "drafter"]
    assert len(drafts) == len(answers) == 32
    assert [turn.reward for turn in drafts] == [turn.score for turn in answers] == [turn.reward for turn in answers]
    assert any(draft.score != draft.reward for draft in drafts)  # a draft is not paid for being right itself
    assert all(set(turn.components) == {"team"} for turn in played.turns)
    for name, policy in run.policies.items():
        assert stats[f"{name}/rows"] > 0
        assert any((old != new).any() for old, new in zip(before[name], policy.parameters(), strict=True))
