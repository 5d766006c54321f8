"""Competitive GRPO (Agon, arXiv 2607.07690): two policies, each paid for out-solving the other.

Nothing in the loss knows of the contest. The competition is in the reward (`competitive`: the outcome plus
a bonus for what the rival lost), in what the challenger reads (the rival's draft), and in the seats, which
the policies swap every step so that both learn to draft and to answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from algos.playing.seats import RotatingSeats


@dataclass(frozen=True)
class CompetitiveGRPO(RotatingSeats):
    """Two policies, rivals."""

    contest_options = {"reward": "competitive"}  # noqa: RUF012
