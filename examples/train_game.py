"""Train the embedded model on the smaller games, and measure every role against the model as it was before.

    python examples/train_game.py --game taboo
    python examples/train_game.py --seeds 0 1 2 --output games

First the policies imitate a player that knows the form of the game (see `algos.imitation`); that is "before". Then they
train against each other, or each against the other as it was then. On held-out seeds each role is played by a trained policy
against the others of before.
"""

import copy
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro

from agents.policy import LLMPolicy
from algos.config import TINY, TrainConfig
from algos.evaluate import evaluate
from algos.imitation import Imitation, imitate
from algos.learning.optim import OptimConfig
from algos.playing.policies import make_policy
from algos.statistics import bootstrap
from algos.training.run import Run

OPTIM = OptimConfig(learning_rate=3e-3, schedule="linear")
SMALL = replace(TINY, swap_roles=False, problems=4, lora_rank=16, lora_alpha=32, optim=OPTIM, steps=14, eval_problems=0)
STILL: dict[str, Any] = {"opponent": "pool:recent", "pool_size": 1, "snapshot_every": 1000}
"""The other stands still: the one snapshot is taken before the first step."""


def small(env: str, *options: str, **changes: Any) -> TrainConfig:
    """Return how to train on a contest with these options."""
    return replace(SMALL, env=env, env_options=options, **{"imitation": Imitation(14)} | changes)


Game = Literal["debate", "prover-verifier", "proposer-solver", "taboo", "negotiation"]
GAMES: dict[Game, TrainConfig] = {
    "debate": small(
        "Debate-v0", "reward=zero_sum", "difficulty=3", "rounds=1", max_tokens=32, imitation=Imitation(16, "oracle")
    ),
    "prover-verifier": small("ProverVerifier-v0", "reward=outcome", "difficulty=2", max_tokens=24),
    "proposer-solver": small(
        "ProposerSolver-v0", "reward=outcome", "problems=chains", max_tokens=80, imitation=Imitation(100), steps=32, **STILL
    ),
    "taboo": small("AdversarialTaboo-v0", "reward=outcome", 'words=["1", "2", "3", "4"]', max_tokens=10),
    "negotiation": small(
        "Negotiation-v0", "reward=outcome", "most=1", "rounds=1", max_tokens=10, imitation=Imitation(40), steps=20, **STILL
    ),
}
"""Game → how it is trained on: the smallest form of each, with `problems` × `group_size` contests a step."""


@dataclass
class Arguments:
    """What to train, and where to write what came of it."""

    game: tuple[Game, ...] = tuple(GAMES)
    seeds: tuple[int, ...] = (0,)
    steps: int | None = None
    """At most so many steps, of imitation and of training."""
    contests: int = 128
    """Held-out contests for each figure and seed."""
    output: str = ""
    """Write the figures to OUTPUT.json, beside those of other games there, and a picture to OUTPUT.png (needs matplotlib)."""


def measure(run: Run, before: Mapping[str, LLMPolicy], contests: int) -> dict[str, dict[str, list[float]]]:
    """Return role → "before" and "after" → what it is paid in each held-out contest, the others being as before."""

    def play(players: Mapping[str, LLMPolicy]) -> list[dict[str, float]]:
        make = partial(copy.deepcopy, run.held_out)
        _, played = evaluate(make, players, problems=contests, params=run.params, both_orders=False, sample=run.sample)
        return [contest.outcome.rewards for contest in played]

    trained = dict(zip(run.held_out.players, run.policies.values(), strict=True))
    untrained = {player: before[policy.name] for player, policy in trained.items()}
    paid, found = play(untrained), {}
    for player, role in zip(run.held_out.players, run.held_out.roles, strict=True):
        now = play(untrained | {player: trained[player]})
        found[role] = {"before": [rewards[player] for rewards in paid], "after": [rewards[player] for rewards in now]}
    return found


def learn(config: TrainConfig, contests: int) -> dict[str, dict[str, list[float]]]:
    """Train one run; return what `measure` does."""
    run = Run.of(config)
    imitate(run)
    with tempfile.TemporaryDirectory() as folder:
        before = {}
        for name, policy in run.policies.items():
            run.learners[name].save(policy, Path(folder) / name)
            before[name] = make_policy(policy.base, f"{name}-before", config, adapter=Path(folder) / name)
    while not run.finished:
        run.advance()
    return measure(run, before, contests)


def estimate(runs: Sequence[Mapping[str, Mapping[str, list[float]]]]) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Return role → "before" and "after" → the mean over runs and contests, with its 95 % interval."""
    return {role: {when: astuple(bootstrap([run[role][when] for run in runs])) for when in runs[0][role]} for role in runs[0]}


def draw(games: Mapping[str, Any], path: str) -> None:
    """Write the picture: each role before and after, with the intervals."""
    import matplotlib.pyplot as plt

    rows = {f"{game}: {role}": figures for game, found in games.items() for role, figures in found["roles"].items()}
    places = range(0, -len(rows), -1)
    chart, axes = plt.subplots(figsize=(7, 0.4 * len(rows) + 1.2), layout="constrained")
    for when, color in {"before": "C7", "after": "C0"}.items():
        values, lows, highs = np.array([figures[when] for figures in rows.values()]).T
        axes.errorbar(values, places, xerr=[values - lows, highs - values], fmt="o", color=color, label=when)
    axes.set(yticks=places, yticklabels=rows, xlabel="mean reward against the others of before, with its 95 % interval")
    axes.legend()
    chart.savefig(path, dpi=120)


def main() -> None:
    """Train, print and write."""
    arguments = tyro.cli(Arguments, description=__doc__)
    file = Path(f"{arguments.output}.json")
    games = json.loads(file.read_text(encoding="utf-8")) if arguments.output and file.exists() else {}
    for game in arguments.game:
        config = GAMES[game]
        if (most := arguments.steps) is not None:
            imitation = replace(config.imitation, steps=min(most, config.imitation.steps))
            config = replace(config, steps=min(most, config.steps), imitation=imitation)
        runs = [learn(replace(config, seed=seed), arguments.contests) for seed in arguments.seeds]
        roles = estimate(runs)
        for role, figures in roles.items():
            print(
                f"{game}, {role}:",
                *(f"{when} {value:.2f} [{low:.2f}, {high:.2f}]" for when, (value, low, high) in figures.items()),
            )
        games[game] = {"seeds": arguments.seeds, "contests": arguments.contests, "steps": config.steps, "roles": roles}
    if arguments.output:
        file.write_text(json.dumps(games, indent=1), encoding="utf-8")
        draw(games, f"{arguments.output}.png")


if __name__ == "__main__":
    main()
