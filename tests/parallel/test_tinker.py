"""A run at a Tinker service is the run of this machine; what the service does wrong is said, or tried again.

The client is the real one, of PyPI; the service is a small one of our own (tinker_service.py).
"""

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

pytest.importorskip("tinker", reason='tinker is not installed: pip install "agon-env[tinker]"')

from tinker_service import KEY, TinkerService, serving

from agents.adapter_files import WEIGHTS_FILE
from agents.engines.tinker import TinkerEngine
from agents.errors import DependencyNotInstalled, PromptTooLong, ServerFailed
from agents.policy import LLMPolicy
from agents.sampling import Request, SamplingParams
from agents.shared_base import SharedBase
from algos.commands.train import main
from algos.config import TINY, TrainConfig
from algos.errors import ConfigError, RunStopped
from algos.learner import Learner, LocalLearner
from algos.learning.optim import OptimConfig
from algos.learning.tinker import TinkerLearner, service_loss
from algos.losses import LossConfig
from algos.trainer import train
from algos.training.run import Run
from algos.types import Batch, Row

OPTIM = OptimConfig(learning_rate=1e-3, eps=1e-5)
"""With Adam's usual eps, rounding is as large as the step where a gradient is all but 0. A step is of 1e-3."""
LOSSES = {
    **{name: LossConfig(loss_type=name, max_tokens=8) for name in ("grpo", "dr_grpo", "dapo", "bnpo", "cispo")},
    "clipped": LossConfig(clip_low=0.01, clip_high=0.02),
    "gspo": LossConfig(loss_type="gspo", clip_low=3e-4, clip_high=4e-4),
    "dual_clip": LossConfig(dual_clip=1.5),
    "with a KL term": LossConfig(kl_coef=0.1),
}
OWN = ("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "clipped")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinkerService]:
    service = TinkerService("embedded", folder=tmp_path_factory.mktemp("service"))
    with serving(service), pytest.MonkeyPatch.context() as patch:
        patch.setenv("TINKER_API_KEY", KEY)
        patch.setenv("TINKER_TELEMETRY", "0")
        yield service


@pytest.fixture
def service(made: TinkerService) -> TinkerService:
    made.asked.clear()
    return made


def weights(service: TinkerService, policy: LLMPolicy) -> dict[str, torch.Tensor]:
    """Return an adapter, out of the service's memory."""
    return service._state(policy.base.trainer(policy.name).model_id)  # type: ignore[attr-defined]


def assert_close(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], *, atol: float = 5e-6) -> None:
    assert found.keys() == expected.keys()
    for key, tensor in expected.items():
        torch.testing.assert_close(found[key], tensor, atol=atol, rtol=0)


def two_policies(service: TinkerService) -> tuple[LLMPolicy, LLMPolicy]:
    base = TinkerEngine(service.url).base("embedded")
    alice, bob = (base.policy(name, rank=2, seed=seed) for seed, name in enumerate(("alice", "bob")))
    return alice, bob


def rows_of(policy: LLMPolicy) -> list[Row]:
    """Return rows of two prompts, said by another policy, with weights and, in part, advantages of tokens."""
    prompts = [tuple(range(20, 25)), tuple(range(20, 25)), tuple(range(30, 42)), (50, 51)]
    rows = []
    for place, prompt in enumerate(prompts):
        length = 3 + 2 * place
        generator = torch.Generator().manual_seed(place)
        ids = torch.randint(10, 200, (length,), generator=generator).tolist()
        old = (-5 + torch.randn(length, generator=generator)).tolist()
        weight = torch.rand(length, generator=generator).add(0.5).tolist()
        rows.append(Row(prompt, tuple(ids), tuple(old), advantage=0.7 - place, weights=tuple(weight)))
    return rows


def learn(learner: Learner, policy: LLMPolicy) -> list[dict[str, float]]:
    """Learn twice on rows, the second time with an advantage for each token, and once on nothing."""
    rows = rows_of(policy)
    scored = learner.logprobs(policy, rows)
    near = [dataclasses.replace(row, old_logprobs=tuple(p + 0.1 for p in old)) for row, old in zip(rows, scored, strict=True)]
    by_token = [dataclasses.replace(row, advantages=tuple(0.3 * p for p in row.old_logprobs)) for row in rows]
    stats = []
    for batch in (near, by_token, []):
        stats += [learner.forward_backward(policy, Batch(tuple(batch))), learner.optim_step(policy)]
    return stats


@pytest.mark.parametrize("name", LOSSES)
def test_the_service_takes_the_steps_of_the_local_learner(service: TinkerService, name: str) -> None:
    base = SharedBase.load("embedded", device="cpu")
    here = base.policy("alice", rank=2, alpha=2, seed=0)
    there, idle = two_policies(service)
    before, start = weights(service, idle), weights(service, there)
    mine = learn(LocalLearner(base, loss=LOSSES[name], optim=OPTIM), here)
    theirs = learn(TinkerLearner(there.base, loss=LOSSES[name], optim=OPTIM), there)
    assert_close(weights(service, there), base.adapters.state("alice"))
    assert any(not torch.equal(start[key], tensor) for key, tensor in weights(service, there).items())
    assert_close(weights(service, idle), before, atol=0)
    for local, remote in zip(mine, theirs, strict=True):
        local.pop("entropy", None)
        local.pop("grad_norm", None) if "grad_norm" not in remote else None
        assert remote == pytest.approx(local, abs=1e-4, rel=1e-4)
    assert service.asked["optim_step"] == 2
    assert (service_loss(LOSSES[name]) is not None) == (name in OWN)


def config(service: TinkerService, **changes: object) -> TrainConfig:
    small = dataclasses.replace(
        TINY, steps=2, problems=8, group_size=6, max_tokens=24, eval_problems=0, lora_rank=2, lora_alpha=2, optim=OPTIM
    )
    return dataclasses.replace(small, **({"learner": f"tinker:{service.url}"} | changes))  # type: ignore[arg-type]


def test_two_steps_of_competitive_grpo_give_the_adapters_of_the_local_learner(service: TinkerService) -> None:
    there = Run.of(config(service))
    here = Run.of(config(service, learner="local"))
    for _ in range(2):
        stats, played = there.advance()
        _, expected = here.advance()
        assert [turn.text for turn in played.turns] == [turn.text for turn in expected.turns]
        assert stats["alice/rows"] > 0
        assert stats["bob/rows"] > 0
        assert abs(stats["alice/approx_kl"]) < 1e-6
    for name, policy in there.policies.items():
        assert_close(weights(service, policy), here.policies[name].base.adapters.state(name))


def test_a_run_that_goes_on_is_the_run_that_went_through(service: TinkerService, tmp_path: Path) -> None:
    whole = train(config(service, output_dir=str(tmp_path), name="whole", eval_problems=2))
    half = train(config(service, output_dir=str(tmp_path), name="half", eval_problems=2, steps=1))
    assert main(["--resume", str(half), "--steps", "2"]) == 0
    for name in ("alice", "bob"):
        assert_close(*(load_file(run / name / WEIGHTS_FILE) for run in (half, whole)), atol=0)
    assert not any(KEY in path.read_text(errors="replace") for path in half.rglob("*") if path.is_file())


@pytest.mark.parametrize("what", ["asample", "forward_backward", "optim_step", "save_weights_for_sampler", "retrieve_future"])
def test_a_service_that_is_busy_is_asked_again(service: TinkerService, what: str) -> None:
    alice, _ = two_policies(service)
    learner = TinkerLearner(alice.base, optim=OPTIM)
    service.fail(what, 429, 503)
    said = learner.sample([Request(alice, [(20, 21)], SamplingParams(max_tokens=4), seeds=[1])])[0][0]
    row = Row((20, 21), said.token_ids, said.logprobs, advantage=1.0)
    before = weights(service, alice)
    learner.forward_backward(alice, Batch((row,)))
    learner.optim_step(alice)
    assert not service.failing[what]
    assert any(not torch.equal(before[key], tensor) for key, tensor in weights(service, alice).items())
    assert service.asked["optim_step"] == 1


def test_a_completion_that_is_lost_is_sampled_again_and_an_update_is_not(service: TinkerService) -> None:
    alice, _ = two_policies(service)
    learner = TinkerLearner(alice.base)
    request = Request(alice, [(20, 21)], SamplingParams(max_tokens=4), seeds=[1])
    expected = learner.sample([request])
    service.lose("asample")
    assert learner.sample([request]) == expected
    service.lose("forward_backward")
    with pytest.raises(ServerFailed, match=r"an update of 'alice': the Tinker service failed.*expired"):
        learner.forward_backward(alice, Batch(tuple(rows_of(alice))))


def test_a_refused_key_is_named(service: TinkerService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINKER_API_KEY", "tml-another")
    with pytest.raises(ServerFailed, match="refuses the key: set TINKER_API_KEY"):
        two_policies(service)


def test_a_gradient_at_the_service_stays(service: TinkerService) -> None:
    alice, bob = two_policies(service)
    learner = TinkerLearner(alice.base)
    learner.drop_gradient(bob)
    learner.forward_backward(alice, Batch(tuple(rows_of(alice))))
    with pytest.raises(RunStopped, match="can't be told to forget it"):
        learner.drop_gradient(alice)


def test_a_prompt_that_fills_the_context_is_refused_here(service: TinkerService) -> None:
    alice, _ = two_policies(service)
    with pytest.raises(PromptTooLong):
        alice.sample([(1,) * alice.base.context_length], seeds=[1])
    assert not service.asked["asample"]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"engine": "vllm"}, "engine='vllm' can't be had with it"),
        ({"ranks": 2, "temperature": 0.7}, r"ranks=2, temperature=0\.7"),
        ({"opponent": "pool:recent"}, "opponent='pool:recent'"),
        ({"algorithm": "competitive_ppo"}, "algorithm='competitive_ppo'"),
        ({"learner": "tinker:localhost"}, 'learner must be "local", "tinker" or "tinker:URL"'),
        ({"learner": "remote"}, 'learner must be "local"'),
    ],
)
def test_what_a_service_can_not_do_is_refused_at_once(service: TinkerService, changes: dict[str, object], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        config(service, **changes)


def test_without_the_package_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tinker", None)
    with pytest.raises(DependencyNotInstalled, match=r"agon-env\[tinker\]"):
        TinkerEngine().base("embedded")
