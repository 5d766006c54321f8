"""The contests of one training step: matches are made, opponents drawn, everything played."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import permutations
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from agents.agent import Agent
from agents.faults import fault_of
from agon_env.contest import Contest
from algos.algorithm import matches_of
from algos.playing.matches import Match, join, plan_matches, results
from algos.playing.problem_order import STRIDE, problem_index, task_size
from algos.rollouts import NOT_ASKED, Rollout, Start
from algos.types import Stats

if TYPE_CHECKING:
    from algos.training.run import Run

RETRIES = 1
"""How often the contests of a match are played again in which an agent failed (`on_agent_fault="retry"`)."""
_FATES = {"forfeit": "it forfeits them", "abort": "nobody is paid for them", "retry": "nobody is paid for them"}


def play(run: Run) -> tuple[Rollout, Stats]:
    """Play the contests of the step that `run` is at, and record who won.

    Returns:
        What was played, and for each policy that met another one `wins`, its share of wins against live rivals, and
        `wins_opponent`, that against opponents. A draw is half a win.
    """
    config, roles = run.config, run.contest.roles
    rng = np.random.default_rng([config.seed, run.step])
    matches = plan_matches(
        matches_of(run.algorithm, run.step, roles, rates=run.rates, rng=rng),
        step=run.step,
        problems=config.problems,
        against_opponents=round(config.opponent_share * config.problems) if run.opponents is not None else 0,
        meetings=config.opponents_per_step,
    )
    if run.opponents is not None:
        run.opponents.begin(run.step, run.rates)
    seated = [_draw(run, match, rng) for match in matches]
    played = [_play_match(run, match, names) for match, names in zip(matches, seated, strict=True)]
    won: defaultdict[str, list[float]] = defaultdict(list)
    for match, names, of_match in zip(matches, seated, played, strict=True):
        for own, other in permutations(roles, 2):
            if match.replaced(own) or names[own] == names[other]:
                continue
            found = results(of_match.contests, of=own, against=other)
            run.rates.record(names[own], names[other], found)
            won[f"{names[own]}/{'wins_opponent' if match.replaced(other) else 'wins'}"] += found
    return join(played), {key: fmean(found) for key, found in won.items() if found}


def _draw(run: Run, match: Match, rng: np.random.Generator) -> dict[str, str]:
    """Return role → name of who sits there; whoever stands in for a policy does so in all of its seats."""
    if run.opponents is None or match.learner is None:
        return dict(match.seats)
    rivals = dict.fromkeys(rival for role, rival in match.seats.items() if match.replaced(role))
    drawn = {rival: run.opponents.draw(rival, learner=match.learner, rates=run.rates, rng=rng) for rival in rivals}
    return {role: drawn[policy] if match.replaced(role) else policy for role, policy in match.seats.items()}


def _play_match(run: Run, match: Match, names: Mapping[str, str]) -> Rollout:
    config, contest = run.config, run.contest
    if set(match.seats.values()) == set(contest.players):
        roles = {policy: role for role, policy in match.seats.items()}
    else:  # the players are but names of the seats
        roles = dict(zip(contest.players, contest.roles, strict=True))
    starts = []
    for place in match.problems:
        position = run.step * config.problems + place
        index = problem_index(position, size=task_size(contest), seed=config.seed)
        options = {"roles": roles} | ({"index": index} if "index" in contest.option_names else {})
        starts.append(Start(seed=config.seed * STRIDE + position, options=options, problem=place))
    seed = int(np.random.SeedSequence([config.seed, run.step]).generate_state(1)[0])
    for attempt in range(1 + RETRIES):
        played = run.rollout(
            lambda: copy.deepcopy(contest),
            {player: _seat(run, match, role, names[role], seed=seed + match.problems[0]) for player, role in roles.items()},
            starts,
            params=run.params,
            seed=seed,
            branches=(config.group_size, config.answers),
            sample=run.sample,
        )
        faults, unasked = _faults(played.contests)
        again = bool(faults) and config.on_agent_fault == "retry" and attempt < RETRIES
        for found, fate in ((faults, _FATES[config.on_agent_fault]), (unasked, _FATES["abort"])):
            if found:
                what = "they are played again from their seeds" if again else fate
                run.guards.tell("agent_fault", f"in {len(found)} of {len(played.contests)} contests {found[0]}; {what}")
        if not again:
            break
    return played


def _faults(contests: Sequence[Contest]) -> tuple[list[str], list[str]]:
    """Return what agents did wrong, and which prompts were too long: those will be so again, whoever plays."""
    faults: list[str] = []
    unasked: list[str] = []
    for contest in contests:
        if (fault := fault_of(contest)) is not None:
            too_long = fault.startswith(contest.transcript.events[-1].player + NOT_ASKED)
            (unasked if too_long else faults).append(fault)
    return faults, unasked


def _seat(run: Run, match: Match, role: str, name: str, *, seed: int) -> Agent:
    if not match.replaced(role):
        return run.policies[name]
    assert run.opponents is not None
    return run.opponents.seat(match.seats[role], name, seed=seed)
