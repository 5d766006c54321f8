"""Rules of what a contest comes to: who is paid what, what is recorded of it, and that only good play scores."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

from agon_env.checker.players import (
    GARBAGE,
    PLAYERS,
    SEEDS,
    UNICODE,
    able_player,
    has_oracle,
    play,
    says,
    seated,
)
from agon_env.checker.requirements import Make, require
from agon_env.contest import Contest
from agon_env.registration import registry
from agon_env.transcript import load, replay


def check_rewards(make: Make) -> None:
    """Every player is paid, what the components and the steps add up to; the contest itself sees to range and sum."""
    for seed, players in itertools.product(SEEDS, itertools.product(PLAYERS, repeat=min(2, len(make().roles)))):
        env = make()
        record = play(env, seated(dict(zip(env.roles, itertools.cycle(players), strict=False))), seed=seed)
        outcome = env.outcome
        assert outcome is not None
        for rewards in (outcome.rewards, *(step[1] for step in record[1:])):
            require(set(rewards) == set(env.players), f"rewards must hold every player, not {sorted(rewards)}")
            for reward in rewards.values():
                require(reward is None or type(reward) is float, f"a reward must be a float or None, not {reward!r}")
        for player, reward in outcome.rewards.items():
            if reward is None:
                continue
            require(reward == sum(outcome.components[player].values()), f"the components of {player} do not add up")  # type: ignore[arg-type]
            require(reward == sum(step[1][player] for step in record[1:]), f"the steps did not bring {player} its reward")


def check_transcript(make: Make) -> None:
    """A transcript survives its file and, for a registered contest, can be replayed."""
    for player, seed in itertools.product((*PLAYERS, says(UNICODE)), SEEDS):
        env = make()
        play(env, player, seed=seed)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "transcript.jsonl")
            env.transcript.save(path)
            (back,) = load(path)
        require(list(back.to_lines()) == list(env.transcript.to_lines()), "the transcript changes when written and read")
        if env.spec is not None and registry.get(env.spec.id) is not None:
            again = replay(back)
            require(again.outcome == env.outcome, "the replay of the transcript ends differently")


def check_canaries(make: Make) -> None:
    """In a game with an oracle, garbage, injections and lists of all answers score nothing, whoever says them."""
    if not has_oracle(make()):
        return
    for role, text, seed in itertools.product(make().roles, (*GARBAGE, UNICODE), SEEDS[:2]):
        env = make()
        play(env, seated(dict.fromkeys(env.roles, able_player) | {role: says(text)}), seed=seed)
        score = _score_of(env, role)
        require(score in (None, env.score_range[0]), f"{role} scores {score} by saying {text!r}; mend apply() or score()")


def check_oracle(make: Make) -> None:
    """The oracle reaches the top score, at least when its rivals play garbage."""
    if not has_oracle(make()):
        return
    for role, seed in itertools.product(make().roles, SEEDS):
        scores = []
        for rival in (able_player, says("")):
            env = make()
            play(env, seated(dict.fromkeys(env.roles, rival) | {role: able_player}), seed=seed)
            scores.append(_score_of(env, role))
        best = max((score for score in scores if score is not None), default=None)
        require(
            best in (None, env.score_range[1]),
            f"the oracle scores {best} as {role}, seed {seed}; mend solution(), apply() or score()",
        )


def _score_of(env: Contest, role: str) -> float | None:
    assert env.outcome is not None
    return env.outcome.scores[env.player_of[role]]
