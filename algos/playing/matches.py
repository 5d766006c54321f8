"""Which contests a step is made of: who meets whom, and on which of the step's problems.

An algorithm says how its policies are seated against each other; one such seating is a live match. A part of
the problems can go to matches against opponents instead: there one policy learns, and the others' seats are
taken by whoever stands in for them (`algos.playing.opponents`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from agon_env.contest import Contest
from algos.rollouts import Rollout


@dataclass(frozen=True)
class Match:
    """Contests of one step that are played by the same players."""

    seats: Mapping[str, str]
    """Role → policy."""
    problems: tuple[int, ...]
    """Places within the step, counted from 0."""
    learner: str | None = None
    """The one policy that learns, where the others are replaced; None: all play and learn."""
    role: str | None = None
    """The seat that the learner has; a policy that is seated everywhere keeps one."""
    meeting: int = 0
    """Tells the opponents apart that the learner meets in one step."""

    def replaced(self, role: str) -> bool:
        """Return whether an opponent sits in this seat."""
        return self.learner is not None and role != self.role


def plan_matches(
    seatings: Sequence[Mapping[str, str]], *, step: int, problems: int, against_opponents: int, meetings: int = 1
) -> list[Match]:
    """Divide the problems of a step.

    Live matches take turns with the problems, and so do the policies that meet opponents; where there are fewer
    problems than takers, the next step goes on with those that went without.

    Args:
        seatings: role → policy, one for each live match.
        step: counted from 0.
        problems: of the step.
        against_opponents: how many of them are played against opponents, by each policy in turn.
        meetings: opponents that each policy meets in a step, if it has as many problems.

    Returns:
        The matches, the live ones first. Every problem is in exactly one of them.
    """
    live = problems - against_opponents
    places: defaultdict[tuple[int, str | None, str | None, int], list[int]] = defaultdict(list)
    for place in range(live):
        places[(step * live + place) % len(seatings), None, None, 0].append(place)
    seating_of = {policy: index for index, seats in enumerate(seatings) for policy in seats.values()}
    for number in range(against_opponents):
        turn, which = divmod(step * against_opponents + number, len(seating_of))
        learner, index = list(seating_of.items())[which]
        own = [role for role, policy in seatings[index].items() if policy == learner]
        meeting = number // len(seating_of) % meetings
        places[index, learner, own[turn % len(own)], meeting].append(live + number)
    return [
        Match(seatings[index], tuple(found), learner, role, meeting)
        for (index, learner, role, meeting), found in places.items()
    ]


def join(rollouts: Sequence[Rollout]) -> Rollout:
    """Return the rollouts of several matches as one."""
    firsts = accumulate((len(rollout.contests) for rollout in rollouts), initial=0)
    return Rollout(
        turns=[turn for rollout in rollouts for turn in rollout.turns],
        contests=[contest for rollout in rollouts for contest in rollout.contests],
        beneath=[
            tuple(first + index for index in indices)
            for first, rollout in zip(firsts, rollouts, strict=False)
            for indices in rollout.beneath
        ],
    )


def results(contests: Sequence[Contest], *, of: str, against: str) -> list[float]:
    """Return how the player in the seat `of` did against the one in the seat `against`: who was paid more has won.

    Returns:
        1 for a win, 0.5 for a draw, 0 for a loss; contests of which a reward is not known are left out.
    """
    found = []
    for contest in contests:
        rewards = contest.outcome.rewards if contest.outcome is not None else {}
        own, other = (rewards.get(contest.player_of[role]) for role in (of, against))
        if own is not None and other is not None:
            found.append((1 + (own > other) - (own < other)) / 2)
    return found
