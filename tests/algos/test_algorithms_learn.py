"""Each algorithm finds the optimum of a game whose optimum is known, from a stated number of samples."""

from pathlib import Path
from statistics import fmean

import bandit
import pytest

from algos.learning.optim import OptimConfig
from algos.trainer import Run

STEPS = 80
CONTESTS = STEPS * 4 * 16
"""5,120 contests are what each algorithm may take on the bandit."""
ALONE = ("grpo", "rloo", "ppo")
PAIRED = ("competitive_grpo", "cooperative_grpo", "self_refine", "reinforce", "competitive_ppo")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bandit.save_model(tmp_path_factory.mktemp("model"))


def learn(run: Run, steps: int) -> list[float]:
    """Train, and return the mean score of the last speaker at each step."""
    return [bandit.mean_last_score(run.advance()[1]) for _ in range(steps)]


def check(model: Path, algorithm: str, seed: int) -> None:
    env = "tests/Alone-v0" if algorithm in ALONE else "tests/Bandit-v0"
    optim = OptimConfig(learning_rate=1e-3)
    with bandit.registered():
        run = Run.of(bandit.config(model, algorithm, env=env, seed=seed, steps=STEPS, optim=optim))
        curve = learn(run, STEPS)
    assert STEPS * run.config.problems * run.config.group_size == CONTESTS
    assert curve[0] < 0.3 * bandit.OPTIMUM
    assert fmean(curve[-10:]) >= 0.95 * bandit.OPTIMUM


@pytest.mark.parametrize("algorithm", ALONE)
def test_it_reaches_the_optimum(model: Path, algorithm: str) -> None:
    check(model, algorithm, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", [*ALONE, *PAIRED])
@pytest.mark.parametrize("seed", range(5))
def test_it_reaches_the_optimum_from_every_seed(model: Path, algorithm: str, seed: int) -> None:
    check(model, algorithm, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_reinforce_learns_games_of_uneven_turns_without_groups(model: Path, seed: int) -> None:
    """Uneven turns, of which only the last one of each player pays: 50 steps of 64 contests of 3 to 9 turns."""
    with bandit.registered():
        run = Run.of(
            bandit.config(
                model,
                "reinforce",
                env="tests/Long-v0",
                seed=seed,
                steps=50,
                problems=64,
                group_size=1,
                discount=0.5,
                optim=OptimConfig(learning_rate=2e-3),
            )
        )
        curve = learn(run, 50)
    assert curve[0] < 0.3 * bandit.OPTIMUM
    assert fmean(curve[-10:]) >= 0.95 * bandit.OPTIMUM
    assert set(run.algorithm.state()) == {"first", "second"}


def test_several_epochs_of_minibatches_learn_more_from_the_same_contests(model: Path) -> None:
    """Twelve steps of 64 contests, each sample used in three epochs of two minibatches, against one pass."""
    ends = {}
    for epochs, minibatches in ((1, 1), (3, 2)):
        optim = OptimConfig(learning_rate=1e-3, epochs=epochs, minibatches=minibatches)
        with bandit.registered():
            run = Run.of(bandit.config(model, "grpo", env="tests/Alone-v0", steps=12, optim=optim))
            steps = [run.advance() for _ in range(12)]
        ends[epochs] = fmean(bandit.mean_last_score(played) for _, played in steps[-3:])
        moved = max(step.get("alice/approx_kl", 0.0) for step, _ in steps)
        assert moved > 1e-3 if epochs > 1 else moved < 1e-6
    assert ends[3] > ends[1] + 0.2
