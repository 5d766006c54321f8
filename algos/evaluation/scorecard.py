"""What is to be known of a trained run: its policies on held-out problems, with and without each other.

A reward of self-play hides collapse: two policies can agree on nonsense and pay each other for it. So a scorecard is made
on held-out problems, and the policies can also be set against players that stand still: the frozen base, an oracle,
a player that says garbage, and one that copies.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import agents
from agents.agent import Agent
from algos.evaluate import Evaluation, evaluate, held_out_start
from algos.evaluation.divergence import policy_divergence
from algos.evaluation.judge import evaluate_policies
from algos.evaluation.records import Record
from algos.playing.opponents import guarded_player
from algos.playing.policies import make_policy
from algos.rollouts import rollout

if TYPE_CHECKING:
    from algos.training.run import Run

PROBE_PROBLEMS = 16
"""Problems on which the divergence of the policies is estimated."""


def scorecard(run: Run, *, samples: int = 1, against: Sequence[str] = ()) -> dict[str, Any]:
    """Play held-out problems with the policies of a run, and return the figures as plain JSON values.

    Args:
        run: whose policies, contest, problems and seed are taken.
        samples: contests on each problem; from 2 on there are pass@k, majority votes and the disagreement of drafts.
        against: opponents of each policy: "base" is its own frozen base, others are names that `agents.make` knows.

    Returns:
        The figures of `Evaluation.summary`, and of its parts: `by_difficulty`, `by_topic`, `by_order` (who answers whom);
        `wins`: policy → seat → share of contests won, a draw being half; `kl`: nats per token between the policies;
        `against`: opponent → policy → figures of their contests.
    """
    judged, _ = evaluate_policies(
        run.held_out,
        run.policies,
        problems=run.config.eval_problems,
        params=run.params,
        samples=samples,
        seed=run.config.seed,
        both_orders=run.config.swap_roles,
        sample=run.sample,
    )
    card = judged.summary() | _parts(judged)
    if len(run.held_out.roles) > 1:
        card["by_order"] = _brief(judged.by(lambda record: " → ".join(record.players[role] for role in record.roles)))
        card["wins"] = wins(judged.records)
    card["kl"] = _divergence(run)
    card["against"] = {name: _against(run, name) for name in against}
    return {key: value for key, value in card.items() if value != {}}


def wins(records: Iterable[Record]) -> dict[str, dict[str, float]]:
    """Return player → role → share of its contests there that it won; a draw is half a win.

    Contests that could not be judged are left out.
    """
    shares: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if not record.judged:
            continue
        for role, player in record.players.items():
            shares[player][role].append(0.5 if record.winner is None else float(record.winner == role))
    return {player: {role: fmean(own) for role, own in seats.items()} for player, seats in sorted(shares.items())}


def _parts(judged: Evaluation) -> dict[str, Any]:
    """Return the figures by difficulty and by topic, where there are several."""
    found = {
        "by_difficulty": judged.by(lambda record: record.difficulty),
        "by_topic": judged.by(lambda record: record.topic),
    }
    return {name: _brief(parts) for name, parts in found.items() if len(parts) > 1}


def _brief(parts: dict[str, Evaluation]) -> dict[str, Any]:
    names = ("n", "answer_pass1", "draft_pass1", "fix_rate", "break_rate", "tokens_per_problem", "ci95")
    return {part: {key: value for key, value in found.summary().items() if key in names} for part, found in parts.items()}


def _divergence(run: Run) -> dict[str, float]:
    contest = run.held_out
    starts = [held_out_start(contest, place, rotation=place) for place in range(PROBE_PROBLEMS)]
    policies = list(run.policies.values())
    players = {player: policies[seat % len(policies)] for seat, player in enumerate(contest.players)}
    played = rollout(
        lambda: copy.deepcopy(contest), players, starts, params=run.params, seed=run.config.seed, sample=run.sample
    )
    found = policy_divergence(run.policies, run.learners, played.turns, temperature=run.params.temperature)
    return {name.removeprefix("pair/kl_"): value for name, value in found.items()}


def _against(run: Run, name: str) -> dict[str, Any]:
    """Return policy → how it does against a player that stands still, in both seats."""
    found = {}
    seats = run.held_out.players
    for policy_name, policy in run.policies.items():
        base = make_policy(policy.base, None, run.config) if name == "base" else None
        opponent: Agent = base or guarded_player(agents.make(name), run.config)
        judged, _ = evaluate(
            lambda: copy.deepcopy(run.held_out),
            {player: policy if player == seats[0] else opponent for player in seats},
            problems=run.config.eval_problems,
            params=run.params,
            seed=run.config.seed,
            sample=run.sample,
        )
        called = {seats[0]: policy_name, **dict.fromkeys(seats[1:], name)}
        orders = judged.by(lambda record: " → ".join(called[record.players[role]] for role in record.roles))  # noqa: B023
        found[policy_name] = {
            "wins": {called[player]: seats for player, seats in wins(judged.records).items()}[policy_name],
            **_brief(orders),
        }
    return found
