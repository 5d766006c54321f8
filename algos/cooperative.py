"""Cooperative GRPO, the baseline of Agon (arXiv 2607.07690): two policies, both paid for the final answer.

It differs from competitive GRPO in the reward alone: `cooperative` pays each role the score of the one that speaks
last, so a drafter earns by a draft from which the challenger gets the answer right, whether or not it is right itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from algos.playing.seats import RotatingSeats


@dataclass(frozen=True)
class CooperativeGRPO(RotatingSeats):
    """Two policies, a team."""

    contest_options = {"reward": "cooperative"}  # noqa: RUF012
