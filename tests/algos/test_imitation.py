"""Imitation: the gradient is that of cross-entropy, and a policy comes to say what it was shown."""

import dataclasses
import json
import math
from pathlib import Path

import bandit
import pytest
import torch

from agents.policy import LLMPolicy
from algos.config import TrainConfig
from algos.imitation import Imitation, demonstrate, imitate, tokens_of
from algos.learning.optim import OptimConfig
from algos.trainer import train
from algos.training.run import Run

SMALL = TrainConfig(
    env="KuhnPoker-v0",
    problems=4,
    group_size=4,
    max_tokens=2,
    lora_rank=8,
    lora_alpha=32,
    threads=1,
    eval_problems=0,
    optim=OptimConfig(learning_rate=3e-3),
    imitation=Imitation(steps=14),
)


def test_a_policy_comes_to_say_what_it_was_shown() -> None:
    run = Run.of(SMALL)
    losses = imitate(run)
    assert len(losses) == 14
    assert all(loss.keys() == {"alice", "bob"} for loss in losses)
    for name in run.policies:
        assert losses[-1][name] < 1.5 < 5 < losses[0][name]
    run.advance()  # the guards take the weights as they are now
    assert run.step == 1


def test_the_learning_rate_decays_over_imitation_and_steps_together() -> None:
    optim = OptimConfig(learning_rate=1e-3, schedule="linear")
    run = Run.of(dataclasses.replace(SMALL, optim=optim, imitation=Imitation(steps=2), steps=2))
    imitate(run)
    rates = [run.advance()[0]["alice/learning_rate"] for _ in range(2)]
    assert rates == pytest.approx([0.5e-3, 0.25e-3])


def test_the_gradient_is_that_of_cross_entropy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with bandit.registered():
        config = bandit.config(bandit.save_model(tmp_path), "competitive_grpo", env="tests/Bandit-v0")
        run = Run.of(dataclasses.replace(config, imitation=Imitation(steps=1, player="oracle")))
        grads: dict[str, list[torch.Tensor]] = {}

        def keep(policy: LLMPolicy) -> dict[str, float]:
            grads[policy.name] = [parameter.grad.clone() for parameter in policy.parameters() if parameter.grad is not None]
            return {}

        for learner in run.learners.values():
            monkeypatch.setattr(learner, "optim_step", keep)
        imitate(run)
        shown = demonstrate(run, 0)
        for role, name in run.algorithm.seats(0, run.contest.roles).items():
            policy = run.policies[name]
            losses = []
            with policy.base.use(name):
                for prompt, said in ((policy.encode(obs), tokens_of(policy, a.text)) for obs, a in shown if obs.role == role):
                    logits_TV = policy.base.model(torch.tensor([[*prompt, *said]])).logits[0, len(prompt) - 1 : -1]
                    losses.append(torch.nn.functional.cross_entropy(logits_TV, torch.tensor(said)))
                wanted = torch.autograd.grad(torch.stack(losses).mean(), policy.parameters())
            assert any(want.abs().max() > 1e-4 for want in wanted)
            for grad, want in zip(grads[name], wanted, strict=True):
                torch.testing.assert_close(grad, want, rtol=1e-3, atol=1e-6)


def test_an_update_that_is_not_finite_is_left_out_and_told(tmp_path: Path) -> None:
    with bandit.registered():
        config = bandit.config(bandit.save_model(tmp_path), "competitive_grpo", env="tests/Bandit-v0")
        run = Run.of(dataclasses.replace(config, imitation=Imitation(steps=2, player="oracle")))
        run.guards.begin(0, folder=None)
        alice = run.policies["alice"].parameters()
        updates = iter(range(100))
        alice[0].register_hook(lambda gradient: gradient * (math.nan if next(updates) == 0 else 1))
        before = [parameter.detach().clone() for parameter in alice]
        seen: list[bool] = []
        imitate(run, lambda _: seen.append(all(map(torch.equal, before, alice))))
    assert seen == [True, False]
    assert [(event.kind, event.policy) for event in run.guards.drain()] == [("update_not_finite", "alice")]


def test_demonstrations_follow_from_the_seed_and_differ_from_step_to_step() -> None:
    run = Run.of(SMALL)
    shown = [[(obs.text, action.text) for obs, action in demonstrate(run, step)] for step in (0, 0, 1)]
    assert shown[0] == shown[1] != shown[2]
    assert {text for _, text in shown[0]} <= {"1", "2"}


def test_a_role_that_may_say_anything_does_not_learn_noise() -> None:
    run = Run.of(dataclasses.replace(SMALL, env="ProposerSolver-v0", swap_roles=False, imitation=Imitation(steps=1)))
    assert {obs.role for obs, _ in demonstrate(run, 0)} == {"proposer"}
    solver = [parameter.clone() for parameter in run.policies["bob"].parameters()]
    (loss,) = imitate(run)
    assert loss.keys() == {"alice"}
    assert all(map(torch.equal, solver, run.policies["bob"].parameters()))


def test_the_oracle_can_be_imitated_and_a_game_without_one_says_so() -> None:
    config = dataclasses.replace(SMALL, env="ArithmeticDuel-v0", imitation=Imitation(steps=1, player="oracle"))
    run = Run.of(config)
    shown = demonstrate(run, 0)
    assert {obs.role for obs, _ in shown} == {"drafter", "challenger"}
    assert all("\\boxed{" in action.text for _, action in shown)
    with pytest.raises(NotImplementedError, match="has no oracle"):
        demonstrate(Run.of(dataclasses.replace(config, env="KuhnPoker-v0")), 0)


def test_a_run_imitates_before_it_is_judged_and_not_again_when_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = dataclasses.replace(SMALL, imitation=Imitation(steps=12), eval_problems=8, steps=1, output_dir=str(tmp_path))
    folder = train(config)
    before = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["before"]
    assert before["mean_tokens"] < 2.5  # a move and the end
    monkeypatch.setattr("algos.trainer.imitate", lambda *_: pytest.fail("again"))
    train(dataclasses.replace(config, steps=2), resume=folder)


@pytest.mark.parametrize(
    ("options", "what"), [({"steps": -1}, "steps must be at least 0"), ({"player": "human"}, "player must be")]
)
def test_what_can_not_be_is_refused(options: dict[str, object], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        Imitation(**options)  # type: ignore[arg-type]
