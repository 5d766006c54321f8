"""Train two policies on Kuhn poker against each other's past, and compute exactly how far they are from an equilibrium.

    python examples/train_kuhn_poker.py --seeds 0 1 2 --output kuhn

The model is a random one that reads each of the twelve situations of the game as one word, so that it is as good as a
table of chances, and everything else is what an LLM would be trained with: two adapters, competitive GRPO, a pool of past
rivals. A move is one token, so the chances of the moves are read from the model's logits, not sampled.
"""

import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import tyro

from agents.policy import LLMPolicy
from agents.table_model import move_chances, save_table_model
from agon_env.games.kuhn_equilibrium import Strategy, exploitability, information_sets, mixture
from agon_env.games.kuhn_poker import KuhnPoker, kuhn_prompt, moves_after
from agon_env.games.speech import chosen
from agon_env.types import Observation
from algos.config import TrainConfig
from algos.imitation import Imitation, imitate
from algos.learning.optim import OptimConfig
from algos.training.run import Run


@dataclass
class Arguments:
    """What to train, and where to write what came of it."""

    seeds: tuple[int, ...] = (0,)
    steps: int = 200
    """Training steps."""
    every: int = 10
    """Steps between two looks at the policies, and between two snapshots of the pool."""
    output: str = ""
    """Write the figures to OUTPUT.json and a picture to OUTPUT.png (needs matplotlib)."""


def strategy_of(policy: LLMPolicy) -> Strategy:
    """Return the exact chances of the policy's moves in every situation."""
    strategy = {}
    for card, history in information_sets():
        message = {"role": "user", "content": kuhn_prompt(card, history)}
        seen = Observation("anyone", KuhnPoker.roles[len(history) % 2], (message,))
        strategy[card, history] = move_chances(policy, seen, moves_after(history), read=chosen)
    return strategy


def learn(model: Path, seed: int, arguments: Arguments) -> dict[str, list[float]]:
    """Train one run; return exploitability at every look: of the policies as they are, and of all so far taken in turns."""
    config = TrainConfig(
        env="KuhnPoker-v0",
        env_options=("reward=outcome",),  # chips, which sum to zero; no bonus on top
        algorithm="competitive_grpo",
        model=str(model),
        seed=seed,
        steps=arguments.steps,
        problems=16,
        group_size=16,
        max_tokens=1,
        lora_rank=8,
        opponent="pool:uniform",
        opponents_per_step=4,
        snapshot_every=arguments.every,
        pool_size=32,
        eval_problems=0,
        threads=1,
        optim=OptimConfig(learning_rate=1e-3, betas=(0.0, 0.99)),  # momentum is a lag, which makes circles wider
        imitation=Imitation(steps=20),
    )
    run, past, found = Run.of(config), {}, {"step": [], "now": [], "mixture": []}
    imitate(run)
    while True:
        if run.step % arguments.every == 0:
            now: dict[str, Strategy] = {name: strategy_of(policy) for name, policy in run.policies.items()}
            for name, strategy in now.items():
                past.setdefault(name, []).append(strategy)
            found["step"].append(run.step)
            found["now"].append(fmean(map(exploitability, now.values())))
            found["mixture"].append(fmean(exploitability(mixture(strategies)) for strategies in past.values()))
            print(f"seed {seed}, step {run.step}: exploitability {found['now'][-1]:.3f}, mixture {found['mixture'][-1]:.3f}")
        if run.finished:
            return found
        run.advance()


def draw(curves: dict[int, dict[str, list[float]]], path: str) -> None:
    """Write the picture."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for number, (seed, curve) in enumerate(curves.items()):
        axes.plot(curve["step"], curve["now"], color=f"C{number}", alpha=0.35)
        axes.plot(curve["step"], curve["mixture"], color=f"C{number}", label=f"seed {seed}: mixture of all so far (faint: now)")
    axes.axhline(11 / 24, color="grey", linestyle=":", label="moves at random")
    axes.set(xlabel="step", ylabel="exploitability, chips per game", ylim=(0, None), title="Kuhn poker: 0 is an equilibrium")
    axes.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Train every seed, print and write what came of it."""
    arguments = tyro.cli(Arguments, description=__doc__)
    with tempfile.TemporaryDirectory() as folder:
        prompts = [kuhn_prompt(*situation) for situation in information_sets()]
        model = save_table_model(folder, prompts=prompts, moves=("1", "2"))
        curves = {seed: learn(model, seed, arguments) for seed in arguments.seeds}
    for seed, curve in curves.items():
        print(f"seed {seed}: {curve['mixture'][0]:.3f} untrained, {curve['mixture'][-1]:.3f} trained (11/24 = 0.458 at random)")
    if arguments.output:
        Path(f"{arguments.output}.json").write_text(
            json.dumps({"settings": asdict(arguments), "curves": curves}, indent=1), encoding="utf-8"
        )
        draw(curves, f"{arguments.output}.png")


if __name__ == "__main__":
    main()
