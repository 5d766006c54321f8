"""Two policies that learn a zero-sum game: against each other they run in a circle, against a pool they come to the middle."""

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import bandit
import pennies
import pytest

from algos.training.run import Run

SEEDS = range(5)
STEPS = 150
POOL = {"opponent": "pool:win_rate", "opponents_per_step": 4, "snapshot_every": 6, "pool_size": 20}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pennies.registered():
        yield bandit.save_model(tmp_path_factory.mktemp("model"))


def late(run: Run) -> float:
    """Return how far the policies are from the equilibrium, on average over the last third of the run."""
    distances = []
    while not run.finished:
        run.advance()
        if run.step > 2 * STEPS // 3:
            distances.append(pennies.from_the_middle(run))
    return fmean(distances)


def test_the_game_is_what_it_is_called(model: Path) -> None:
    run = Run.of(pennies.config(model, steps=1, problems=2, group_size=4))
    _, played = run.advance()
    for contest in played.contests:
        heads = [pennies.is_heads(event.text) for event in contest.transcript.events]
        assert contest.outcome.rewards == ({"alice": 1, "bob": -1} if heads[0] == heads[1] else {"alice": -1, "bob": 1})
        assert contest.observe("bob").text == pennies.PROMPTS["mismatcher"]  # not what alice has shown
    assert {turn.policy: turn.role for turn in played.turns} == pennies.SEATS
    shares = [pennies.is_heads(turn.text) for turn in played.turns if turn.policy == "alice"]
    assert 0 < pennies.chance_of_heads(run.policies["alice"], "matcher") < 1
    assert len(shares) == 8


@pytest.mark.slow
def test_a_pool_leads_to_the_equilibrium_and_a_live_rival_away_from_it(model: Path) -> None:
    live, pool, mixture = [], [], []
    for seed in SEEDS:
        live.append(late(Run.of(pennies.config(model, seed=seed, steps=STEPS))))
        run = Run.of(pennies.config(model, seed=seed, steps=STEPS, **POOL))
        pool.append(late(run))
        mixture.append(pennies.mixture_from_the_middle(run))
        print(f"seed {seed}: live {live[-1]:.3f}, pool {pool[-1]:.3f}, mixture {mixture[-1]:.3f}")
    assert fmean(live) > 0.25  # 0.5 is always the same penny, 0.25 anything between with equal chance
    assert fmean(pool) < 0.75 * fmean(live)
    assert fmean(mixture) < 0.12
