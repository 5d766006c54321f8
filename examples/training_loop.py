"""The plain loop under `agon train`: two policies on one frozen base, each learning to beat the other.

rollout             contests are played; every turn comes back with what it read, what it said and what it was paid
group_advantages    a turn is compared with those of its role on the same problem
forward_backward    alice's turns give a gradient to alice's adapter, bob's to bob's
optim_step          each has an optimiser of its own, so that neither moves the other

python examples/training_loop.py --steps 40
"""

from statistics import fmean

import tyro

import agon_env
from agents import SamplingParams, SharedBase
from algos.advantages import group_advantages
from algos.learner import LocalLearner, OptimConfig
from algos.rollouts import Start, rollout
from algos.types import Batch, Row


def main(*, steps: int = 20, problems: int = 8, group_size: int = 8, max_tokens: int = 96, seed: int = 0) -> None:
    """Play, compare, update; print what a contest paid."""
    base = SharedBase.load("embedded")
    policies = {name: base.policy(name, rank=8) for name in ("alice", "bob")}
    learner = LocalLearner(base, optim=OptimConfig(learning_rate=1e-3))
    env, params = agon_env.make("ArithmeticDuel-v0"), SamplingParams(max_tokens=max_tokens)
    for step in range(steps):
        seats = dict(zip(policies, env.roles if step % 2 == 0 else env.roles[::-1], strict=True))  # they swap at every step
        first = seed + step * problems
        turns = rollout(
            env.fork,
            policies,
            [Start(seed=first + number, options={"roles": seats}) for number in range(problems)],
            params=params,
            seed=first,
            branches=(group_size,),  # drafts of each problem; each draft is answered once
            sample=learner.sample,
        ).turns
        found = group_advantages([turn.reward for turn in turns], [(turn.role, turn.problem) for turn in turns])
        print(f"step {step}", end="")
        for name, policy in policies.items():
            rows = [
                Row(turn.prompt_ids, turn.completion.token_ids, turn.completion.logprobs, advantage)
                for turn, advantage, kept in zip(turns, found.values.tolist(), found.kept, strict=True)
                if turn.policy == name and kept
            ]
            if rows:
                learner.forward_backward(policy, Batch(tuple(rows)))
                learner.optim_step(policy)
            rewards = [turn.reward for turn in turns if turn.policy == name and turn.reward is not None]
            print(f"  {name}, {seats[name]}: {fmean(rewards):.2f}", end="")
        print(flush=True)


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
