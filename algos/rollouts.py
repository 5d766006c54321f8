"""Rollouts: contests played by policies, as the turns that they learn from.

Contests advance in lockstep; every player's turns are sampled in one batch. A position may *branch*: with
`branches=(G, K)` each problem is begun G times and each of these positions is answered K times. The
contests then form a tree, and a move that several contests pass through is paid for their mean: its
scores are the mean scores of these contests, to which the reward rule is applied (so with K answers the
drafter meets their mean).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from statistics import fmean
from typing import Any, Protocol, TypeAlias

import numpy as np

from agents.agent import Agent, actions_of
from agents.errors import PromptTooLong
from agents.playing import require_seated
from agents.policy import LLMPolicy
from agents.sampling import Completion, Request, SamplingParams, sample_many
from agon_env.contest import Contest
from agon_env.rewards import total
from agon_env.types import Action, NoMove, Observation, Reward
from agon_env.vector import VectorContest
from algos.phases import phase
from algos.types import Turn

Sample: TypeAlias = Callable[[Sequence[Request]], list[list[Completion]]]
"""How tokens are generated: the requests of all policies that are to move → their completions. A learner's verb `sample`."""

NOT_ASKED = " could not be asked: "
"""What follows the player's name where its prompt is too long, so that it has no move."""

Path: TypeAlias = tuple[int, ...]
"""Where a contest is in the tree: which problem, which branch of its first turn, which of its second …"""


@dataclass(frozen=True)
class Start:
    """A contest to be begun."""

    seed: int
    options: Mapping[str, Any]
    problem: int | None = None
    """Its first number in the tree. Default: its place among the starts."""


@dataclass(frozen=True)
class _Move:
    """A turn before its reward is known."""

    player: str
    policy: str | None
    role: str
    parent: Path
    path: Path
    prompt_ids: tuple[int, ...]
    completion: Completion | None
    text: str


@dataclass(frozen=True)
class Rollout:
    """What came of a set of contests."""

    turns: list[Turn]
    """Every move of every player, in the order of play."""
    contests: list[Contest]
    """The contests, all ended; those that branched off from one another share their first moves."""
    beneath: list[tuple[int, ...]]
    """For each turn the indices of the contests that passed through it: one, or those that branched off after it."""


class Rollouts(Protocol):
    """What plays contests as `rollout` does, here or elsewhere."""

    def __call__(
        self,
        make_contest: Callable[[], Contest],
        players: Mapping[str, Agent],
        starts: Sequence[Start],
        *,
        params: SamplingParams,
        seed: int,
        branches: Sequence[int] = (),
        sample: Sample | None = None,
    ) -> Rollout:
        """Play one tree of contests for each start, to the end; see `rollout`."""
        ...


def rollout(
    make_contest: Callable[[], Contest],
    players: Mapping[str, Agent],
    starts: Sequence[Start],
    *,
    params: SamplingParams,
    seed: int,
    branches: Sequence[int] = (),
    sample: Sample | None = None,
) -> Rollout:
    """Play one tree of contests for each start, to the end.

    Args:
        make_contest: makes an empty contest.
        players: player → who plays it. Only the turns of an `LLMPolicy` carry tokens.
        starts: one per problem.
        params: how policies sample here.
        seed: every row's own seed follows from it and from the row's place in the tree, so that the same
            seed gives the same contests, whatever is batched with what.
        branches: copies of each position before its first, second, … turn; 1 afterwards.
        sample: generates the tokens. Default: the policy's own engine.

    Returns:
        The turns with their rewards, and the contests.

    Raises:
        PromptTooLong: a prompt leaves no room to sample, and by its policy's `on_long_prompt` that is an error.
        ValueError: nobody plays for a player of a contest.
    """
    nodes: list[tuple[Contest, Path]] = []
    for index, start in enumerate(starts):
        contest = make_contest()
        contest.reset(seed=start.seed, options=start.options)
        require_seated(contest, players)
        nodes.append((contest, (index if start.problem is None else start.problem,)))
    moves: list[_Move] = []
    for depth in count():
        if all(contest.done for contest, _ in nodes):
            break
        copies = branches[depth] if depth < len(branches) else 1
        nodes = [
            (contest if copy == 0 else contest.fork(), (*path, copy))
            for contest, path in nodes
            for copy in range(1 if contest.done else copies)
        ]
        moves += _advance(nodes, players, params=params, seed=seed, sample=sample)
    passed: defaultdict[Path, list[int]] = defaultdict(list)
    for index, (_, path) in enumerate(nodes):
        for length in range(1, len(path) + 1):
            passed[path[:length]].append(index)
    contests = [contest for contest, _ in nodes]
    later = _later([path for _, path in nodes], {move.path: move.player for move in moves})
    return Rollout(
        turns=[_paid(move, [contests[i] for i in passed[move.path]], later=later[move.path]) for move in moves],
        contests=contests,
        beneath=[tuple(passed[move.path]) for move in moves],
    )


def _later(ends: Sequence[Path], mover: Mapping[Path, str]) -> dict[Path, float]:
    """Return for each move how many more its player made, on average over the contests that end at `ends`."""
    counts: defaultdict[Path, list[int]] = defaultdict(list)
    for end in ends:
        seen: Counter[str] = Counter()
        for length in range(len(end), 1, -1):
            if (player := mover.get(end[:length])) is not None:
                counts[end[:length]].append(seen[player])
                seen[player] += 1
    return {path: fmean(values) for path, values in counts.items()}


def _advance(
    nodes: Sequence[tuple[Contest, Path]],
    players: Mapping[str, Agent],
    *,
    params: SamplingParams,
    seed: int,
    sample: Sample | None,
) -> list[_Move]:
    """Play one move in every contest that is not over."""
    contests = VectorContest([contest for contest, _ in nodes])
    waiting: defaultdict[str, list[tuple[int, Observation]]] = defaultdict(list)
    for index, observation in contests.pending().items():
        waiting[observation.player].append((index, observation))
    actions: dict[int, Action] = {}
    moves: list[_Move] = []
    for spectator in players.values():
        if callable(watch := getattr(spectator, "watch", None)):
            watch(contests)
    requests: dict[str, Request] = {}
    for player, asked in waiting.items():
        agent = players[player]
        if isinstance(agent, LLMPolicy):
            encoded: list[tuple[int, ...]] = []
            waiting[player] = []
            for (index, observation), prompt in zip(asked, _encode(agent, [one for _, one in asked], params), strict=True):
                if isinstance(prompt, NoMove):
                    actions[index], path = prompt, nodes[index][1]
                    moves.append(_Move(player, None, observation.role, path[:-1], path, (), None, ""))
                else:
                    encoded.append(prompt)
                    waiting[player].append((index, observation))
            if encoded:
                seeds = [row_seed(seed, nodes[index][1]) for index, _ in waiting[player]]
                requests[player] = Request(agent, encoded, params, seeds)
    with phase("sample"):
        sampled = dict(zip(requests, (sample or sample_many)(list(requests.values())), strict=True))
    for player, asked in waiting.items():
        if not asked:
            continue
        agent, observations = players[player], [observation for _, observation in asked]
        name = agent.name if isinstance(agent, LLMPolicy) else None
        paths = [nodes[index][1] for index, _ in asked]
        if isinstance(agent, LLMPolicy):
            prompts = [tuple(prompt) for prompt in requests[player].prompts]
            completions: list[Completion | None] = [*sampled[player]]
            said = [agent.decode(completion) for completion in sampled[player]]
        else:
            prompts, completions = [()] * len(asked), [None] * len(asked)
            said = actions_of(agent, observations)
        for (index, observation), path, prompt_ids, completion, action in zip(
            asked, paths, prompts, completions, said, strict=True
        ):
            actions[index] = action
            moves.append(_Move(player, name, observation.role, path[:-1], path, prompt_ids, completion, action.text))
    with phase("verify"):
        contests.step(actions)
    return moves


def row_seed(seed: int, path: Path) -> int:
    """Return the seed of the row at `path`, in [0, 2**63).

    The length counts because `SeedSequence` pads with zeros: without it, the first answer to a draft would be
    sampled with the luck of the draft itself.
    """
    return int(np.random.SeedSequence([seed, len(path), *path]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _encode(policy: LLMPolicy, observations: Sequence[Observation], params: SamplingParams) -> list[tuple[int, ...] | NoMove]:
    """Encode every observation; equal ones, of which a group is made, only once.

    Where not even a prompt that was cut fits into the context there is no move: the contest is aborted, nobody is paid.

    Raises:
        PromptTooLong: one does not fit, and by the policy's `on_long_prompt` that is an error.
    """
    known: dict[tuple[tuple[str, str], ...], tuple[int, ...] | NoMove] = {}
    prompts = []
    for observation in observations:
        key = tuple((message["role"], message["content"]) for message in observation.messages)
        if key not in known:
            try:
                known[key] = policy.encode(observation, params=params)
            except PromptTooLong as error:
                if policy.on_long_prompt == "error":
                    raise
                known[key] = NoMove(reason=f"{observation.player}{NOT_ASKED}{error}", forfeits=False)
        prompts.append(known[key])
    return prompts


def _paid(move: _Move, contests: Sequence[Contest], *, later: float) -> Turn:
    """Return the move with the reward that the contests beneath it bring to its role."""
    components, score = _components(move, contests)
    return Turn(
        player=move.player,
        policy=move.policy,
        role=move.role,
        problem=move.path[0],
        parent=move.parent,
        prompt_ids=move.prompt_ids,
        completion=move.completion,
        text=move.text,
        reward=total(components),
        components=components,
        score=score,
        later=later,
    )


def _components(move: _Move, contests: Sequence[Contest]) -> tuple[Mapping[str, Reward], Reward]:
    outcomes = [contest.outcome for contest in contests if contest.outcome is not None]
    if len(outcomes) == 1:
        return outcomes[0].components[move.player], outcomes[0].scores[move.player]
    if any(outcome.reason.startswith("forfeit") for outcome in outcomes):  # without scores; what counts is what was paid
        return _mean_components([outcome.components[move.player] for outcome in outcomes]), None
    by_role = [{outcome.roles[player]: score for player, score in outcome.scores.items()} for outcome in outcomes]
    scores = {role: _mean([scores[role] for scores in by_role]) for role in contests[0].roles}
    return contests[0].pay(scores)[move.role], scores[move.role]


def _mean_components(paid: Sequence[Mapping[str, Reward]]) -> dict[str, Reward]:
    """Return components that sum to the mean reward of those contests whose reward is known."""
    known = [components for components in paid if total(components) is not None]
    names = dict.fromkeys(name for components in known for name in components)
    return {name: _mean([components.get(name, 0.0) for components in known]) for name in names} or {"unknown": None}


def _mean(values: Sequence[Reward]) -> Reward:
    """Return the mean of the values that could be computed; None if none could."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
