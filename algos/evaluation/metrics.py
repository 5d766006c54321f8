"""Metrics of a training step: flat, with the prefixes `<policy>/` and `pair/`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean

from agon_env.contest import Contest
from algos.advantages import Advantages
from algos.evaluate import Evaluation, tally
from algos.rollouts import Rollout
from algos.types import Stats, Turn


def turn_metrics(turns: Sequence[Turn]) -> Stats:
    """Return what each policy did and was paid: `alice/reward`, its components, `alice/score_<role>`, lengths."""
    by_policy: defaultdict[str, list[Turn]] = defaultdict(list)
    for turn in turns:
        if turn.policy is not None:
            by_policy[turn.policy].append(turn)
    stats: Stats = {}
    for policy, own in sorted(by_policy.items()):
        stats |= _mean(f"{policy}/reward", (turn.reward for turn in own))
        for component in sorted({name for turn in own for name in turn.components}):
            stats |= _mean(f"{policy}/reward_{component}", (turn.components.get(component) for turn in own))
        for role in sorted({turn.role for turn in own}):
            stats |= _mean(f"{policy}/score_{role}", (turn.score for turn in own if turn.role == role))
        completions = [turn.completion for turn in own if turn.completion is not None]
        stats |= _mean(f"{policy}/length", (len(completion.token_ids) for completion in completions))
        stats |= _mean(f"{policy}/truncated", (completion.finish_reason == "length" for completion in completions))
        stats |= _mean(f"{policy}/unscored", (turn.reward is None for turn in own))
    return stats


def turn_samples(turns: Sequence[Turn], learning: Sequence[Turn], advantages: Advantages) -> dict[str, list[float]]:
    """Return what the means of `turn_metrics` are made of, for histograms.

    Args:
        turns: all that were played.
        learning: those that were compared.
        advantages: of `learning`, in its order.

    Returns:
        `<policy>/rewards`, `<policy>/lengths` (tokens) and `<policy>/advantages` (of the turns with a signal).
    """
    samples: defaultdict[str, list[float]] = defaultdict(list)
    for turn in turns:
        if turn.policy is not None and turn.reward is not None:
            samples[f"{turn.policy}/rewards"].append(turn.reward)
        if turn.policy is not None and turn.completion is not None:
            samples[f"{turn.policy}/lengths"].append(len(turn.completion.token_ids))
    for turn, value, kept in zip(learning, advantages.values, advantages.kept, strict=True):
        if kept:
            samples[f"{turn.policy}/advantages"].append(float(value))
    return dict(samples)


def pair_metrics(rollout: Rollout) -> Stats:
    """Return what happened between the players: pass rates, fix and break rate, and who wins in which seat."""
    figures: Evaluation = tally([rollout])
    names = ("answer_pass1", "draft_pass1", "fix_rate", "break_rate")
    stats = {f"pair/{name}": value for name in names if (value := getattr(figures, name)) is not None}
    return stats | _win_rates(rollout.contests)


def _win_rates(contests: Sequence[Contest]) -> Stats:
    ended = [contest.outcome for contest in contests if contest.outcome is not None]
    outcomes = [outcome for outcome in ended if all(reward is not None for reward in outcome.rewards.values())]
    if not outcomes or len(outcomes[0].roles) < 2:
        return {}
    winners = [outcome.roles[outcome.winner] if outcome.winner is not None else None for outcome in outcomes]
    return {f"pair/wins_{role}": fmean(winner == role for winner in winners) for role in contests[0].roles}


def _mean(name: str, values: Iterable[float | None]) -> Stats:
    known = [float(value) for value in values if value is not None]
    return {name: fmean(known)} if known else {}
