"""vLLM for real, with SmolLM2-135M: what it samples is what the learner scores, and faults of the exchange are found out.

Needs vLLM: `.ci/vllm` makes an environment with it, on a CPU, and runs these tests.
"""

import math
import shutil
from pathlib import Path

import pytest
import torch

from agents.engines.served import ServedAdapter, ServedEngine
from agents.engines.torch import TorchEngine
from agents.engines.vllm import NEUTRAL, VLLM, installed_version
from agents.errors import AdapterNotServed
from agents.policy import LLMPolicy
from agents.sampling import Completion, Request, SamplingParams, sample_many
from agents.shared_base import SharedBase
from algos.learner import LocalLearner
from algos.learning.optim import OptimConfig
from algos.learning.update import correct_sampler
from algos.losses import LossConfig
from algos.types import Batch, Row

pytestmark = pytest.mark.skipif(
    installed_version() is None, reason="vLLM is not installed; .ci/vllm makes an environment with it"
)

PARAMS = SamplingParams(max_tokens=12, temperature=0.8)
QUESTIONS = ("What is 17 + 25?", "Name a river in France.", "Name a river in France.")
SEEDS = (1, 2, 3)


class World:
    """A base, two policies that differ, and vLLM."""

    def __init__(self) -> None:
        self.base = SharedBase.load("smollm2-135m", device="cpu")
        self.alice, self.bob = (self.base.policy(name, rank=8, seed=seed) for seed, name in enumerate(("alice", "bob")))
        for seed, policy in enumerate((self.alice, self.bob)):
            stir(policy, seed=seed)
        self.server = VLLM(self.base, max_adapters=2, max_context=512)
        self.engine = ServedEngine(lambda base: self.server, max_adapters=2)
        self.prompts = [tuple(self.alice.chat.encode([{"role": "user", "content": question}])) for question in QUESTIONS]

    def sample(self, policy: LLMPolicy, params: SamplingParams = PARAMS) -> list[Completion]:
        return self.engine.sample(policy, self.prompts, params, seeds=SEEDS)

    def restart(self) -> None:
        """Forget what was pushed: a new engine on the same vLLM."""
        for number in self.server._llm.llm_engine.list_loras():
            self.server._llm.llm_engine.remove_lora(number)
        numbers = self.engine._servings[self.base]._pushed if self.engine._servings else 0
        self.engine = ServedEngine(lambda base: self.server, max_adapters=2)
        self.engine._serving(self.base)._pushed = numbers  # a number is never used again


def stir(policy: LLMPolicy, *, seed: int, size: float = 0.02) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(size * torch.randn(parameter.shape, generator=generator))


@pytest.fixture(scope="module")
def made() -> World:
    return World()


@pytest.fixture
def world(made: World) -> World:
    made.restart()
    return made


def texts(completions: list[Completion]) -> list[tuple[int, ...]]:
    return [completion.token_ids for completion in completions]


def rows_of(world: World, sampled: list[Completion]) -> list[Row]:
    return [
        Row(prompt, said.token_ids, said.logprobs, advantage=(-1.0) ** place)
        for place, (prompt, said) in enumerate(zip(world.prompts, sampled, strict=True))
    ]


def test_every_field_that_changes_what_is_sampled_is_set(world: World) -> None:
    """A field that a new version brings has to be looked at: it may be on by default."""
    used = {"temperature", "seed", "max_tokens", "stop_token_ids", "logprobs"}
    harmless = {
        *("prompt_logprob_token_ids", "prompt_logprob_start", "logprob_token_ids", "flat_logprobs", "output_kind"),
        *("spaces_between_special_tokens", "include_stop_str_in_output", "stream_interval", "skip_clone", "extra_args"),
        *("skip_reading_prefix_cache", "routed_experts_prompt_start", "trace_decode_token_ids"),
        "output_text_buffer_length",
    }
    known = used | harmless | set(NEUTRAL)
    fields = {name for name in world.server._vllm.SamplingParams.__struct_fields__ if not name.startswith("_")}
    assert fields - known == set()
    assert set(NEUTRAL) <= fields


def test_both_policies_are_sampled_at_once_and_differ(world: World) -> None:
    requests = [Request(policy, world.prompts, PARAMS, SEEDS) for policy in (world.alice, world.bob)]
    for request in requests:
        request.policy.engine = world.engine
    alices, bobs = sample_many(requests)
    assert texts(alices) != texts(bobs)
    assert texts(world.sample(world.alice)) == texts(alices)
    assert texts(world.sample(world.bob)) == texts(bobs)
    assert len(world.server._llm.llm_engine.list_loras()) == 2


def test_log_probabilities_are_those_of_the_learner(world: World) -> None:
    learner = LocalLearner(world.base, loss=LossConfig(sampler_correction="token"))
    for policy in (world.alice, world.bob):
        rows, stats = correct_sampler(learner, policy, rows_of(world, world.sample(policy)), temperature=PARAMS.temperature)
        assert abs(stats["sampler_kl"]) < 1e-3
        assert stats["sampler_capped"] == 0
        assert all(weight == pytest.approx(1, abs=5e-3) for row in rows for weight in row.weights or ())


def test_greedy_tokens_are_those_of_the_torch_engine(world: World) -> None:
    greedy = SamplingParams(max_tokens=12, temperature=0)
    for policy in (world.alice, world.base.policy()):
        here = TorchEngine().sample(policy, world.prompts, greedy, seeds=SEEDS)
        there = world.sample(policy, greedy)
        assert texts(there) == texts(here)
        for one, other in zip(there, here, strict=True):
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-3)


def test_a_row_depends_on_its_seed_alone(world: World) -> None:
    first = world.sample(world.alice)
    assert texts(world.engine.sample(world.alice, world.prompts[2:], PARAMS, seeds=SEEDS[2:])) == texts(first)[2:]
    assert texts(first)[1] != texts(first)[2]  # one prompt, two seeds


def test_an_end_is_part_of_the_completion(world: World) -> None:
    said = world.sample(world.base.policy(), SamplingParams(max_tokens=200, temperature=0))
    ended = [completion for completion in said if completion.finish_reason == "stop"]
    assert ended
    assert all(completion.token_ids[-1] in world.base.eos_ids for completion in ended)
    assert all(token not in world.base.eos_ids for completion in said for token in completion.token_ids[:-1])


def test_a_training_step_reaches_the_sampler(world: World) -> None:
    learner = LocalLearner(world.base, optim=OptimConfig(learning_rate=3e-3))
    before, rival = world.sample(world.alice), world.sample(world.bob)
    learner.forward_backward(world.alice, Batch(tuple(rows_of(world, before)), temperature=PARAMS.temperature))
    learner.optim_step(world.alice)
    after = world.sample(world.alice)
    _, stats = correct_sampler(
        LocalLearner(world.base, loss=LossConfig(sampler_correction="token")),
        world.alice,
        rows_of(world, after),
        temperature=PARAMS.temperature,
    )
    assert texts(after) != texts(before)
    assert abs(stats["sampler_kl"]) < 1e-3
    assert texts(world.sample(world.bob)) == texts(rival)
    assert len(world.server._llm.llm_engine.list_loras()) == 2  # the version before is gone


def test_an_adapter_that_never_arrives_is_found_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.server, "load", lambda adapter: None)
    monkeypatch.setattr(world.server, "_request", lambda adapter: None)
    with pytest.raises(AdapterNotServed, match="samples from the bare base"):
        world.sample(world.alice)


def test_the_rivals_adapter_is_found_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.sample(world.alice)
    (alices,) = world.engine._serving(world.base)._held.values()
    honest = world.server._request
    monkeypatch.setattr(world.server, "_request", lambda adapter: honest(alices))
    with pytest.raises(AdapterNotServed, match=r"was sent 'bob@\d+' but samples from the adapter 'alice@"):
        world.sample(world.bob)


def serve_without_versions(world: World, monkeypatch: pytest.MonkeyPatch, folder: Path, *, number: int) -> None:
    """Serve every version under one name, one number and one path, read anew in place, as trainers used to."""
    request = world.server._request

    def unversioned(adapter: ServedAdapter) -> object:
        shutil.copytree(adapter.folder, folder, dirs_exist_ok=True)
        made = request(adapter)
        made.lora_name, made.lora_int_id, made.lora_path, made.load_inplace = "alice", number, str(folder), True
        return made

    monkeypatch.setattr(world.server, "_request", unversioned)
    monkeypatch.setattr(world.server, "unload", lambda adapter: None)


def test_a_stale_prefix_cache_is_found_out(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    serve_without_versions(world, monkeypatch, tmp_path / "alice", number=1000)
    monkeypatch.setattr(world.server, "reset_cache", lambda: None)
    world.sample(world.alice)
    stir(world.alice, seed=9)
    with pytest.raises(AdapterNotServed):
        world.sample(world.alice)


def test_it_is_the_cache_that_is_found_out(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    serve_without_versions(world, monkeypatch, tmp_path / "alice", number=1001)
    first = world.sample(world.alice)
    stir(world.alice, seed=9)
    assert texts(world.sample(world.alice)) != texts(first)


def test_the_size_of_the_mismatch_is_known(world: World) -> None:
    world.sample(world.alice)
    assert 0 < world.engine._serving(world.base)._noise < 1e-3
    assert math.isfinite(world.engine._serving(world.base)._noise)
