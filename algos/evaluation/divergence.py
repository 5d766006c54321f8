"""How far the policies of a run are apart, on what they said at this step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

import numpy as np
import torch

from agents.policy import LLMPolicy
from agon_env.contest import Contest
from algos.learner import Learner
from algos.losses import kl_estimate
from algos.playing.policies import same_tokens
from algos.training.contest_view import read_answer
from algos.types import Row, Stats, Turn

PROBE_ROWS = (4, 16)
"""Least and most rows on which the policies are compared at every step, but never more than a quarter of a policy's."""
PROBE_SHARE = 16
"""Between these, one in so many of what a policy said is taken, so that the comparison costs little of the step."""


def policy_divergence(
    policies: Mapping[str, LLMPolicy], learners: Mapping[str, Learner], turns: Sequence[Turn], *, temperature: float
) -> Stats:
    """Return KL(one ‖ the next) per token, in nats, when the first one sampled and on what it said.

    It is estimated by the mean of log π_one − log π_next over sampled tokens (k1). Policies with different tokenizers
    have none: what one says are no tokens of the other.
    """
    stats: Stats = {}
    for one, other in pairwise(policies.values()):
        probe = probe_rows(turns, one.name)
        if not probe or not same_tokens(one, other):
            continue
        others = learners[other.name].logprobs(other, probe, temperature=temperature)
        own_N, other_N = _joined([row.old_logprobs for row in probe]), _joined(others)
        if len(own_N):
            stats[f"pair/kl_{one.name}_{other.name}"] = float(np.mean(own_N - other_N))
    return stats


def base_divergence(
    policies: Mapping[str, LLMPolicy], learners: Mapping[str, Learner], turns: Sequence[Turn], *, temperature: float
) -> Stats:
    """Return how far each policy was from its base when it sampled: KL(policy ‖ base) per token, on some of its turns."""
    stats: Stats = {}
    for name in policies:
        probe = probe_rows(turns, name)
        base = learners[name].logprobs(None, probe, temperature=temperature)
        own_N, base_N = _joined([row.old_logprobs for row in probe]), _joined(base)
        if len(own_N):
            stats[f"{name}/kl_base"] = kl_estimate(torch.from_numpy(own_N), torch.from_numpy(base_N), "k3").mean().item()
    return stats


def disagreement(contests: Sequence[Contest]) -> Stats:
    """Return the share of contests in which what was read from the first and from the last text differs, if both have it."""
    ended = [contest for contest in contests if contest.outcome is not None and len(contest.transcript.events) > 1]
    said = [[read_answer(contest, contest.transcript.events[end].player)[0] for end in (0, -1)] for contest in ended]
    known = [first != last for first, last in said if first and last]
    return {"pair/disagreement": fmean(known)} if known else {}


def probe_count(turns: int) -> int:
    """Return on how many of its turns, at least one, a policy is compared."""
    least, most = PROBE_ROWS
    return min(most, max(1, min(least, turns // 4), turns // PROBE_SHARE))


def probe_rows(turns: Sequence[Turn], policy: str) -> list[Row]:
    """Return some of what a policy said, evenly from all of it, so that every problem has its chance."""
    own = [(turn, turn.completion) for turn in turns if turn.policy == policy and turn.completion is not None]
    rows = probe_count(len(own))
    return [
        Row(turn.prompt_ids, said.token_ids, said.logprobs, advantage=0.0)
        for turn, said in own[:: max(1, -(-len(own) // rows))]
    ]


def _joined(rows: Sequence[Sequence[float]]) -> np.ndarray:
    return np.array([logp for row in rows for logp in row], np.float64)
