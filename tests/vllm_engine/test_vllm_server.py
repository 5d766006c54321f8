"""A vLLM server on this machine, started as docs/scaling.md says, with SmolLM2-135M."""

from collections.abc import Iterator

import pytest
import torch
from vllm_process import serving

from agents.engines.served import ServedEngine
from agents.engines.torch import TorchEngine
from agents.engines.vllm import installed_version
from agents.engines.vllm_server import VLLMServer
from agents.errors import AdapterNotServed
from agents.sampling import SamplingParams
from agents.shared_base import SharedBase

pytestmark = pytest.mark.skipif(
    installed_version() is None, reason="vLLM is not installed; .ci/vllm makes an environment with it"
)

GREEDY = SamplingParams(max_tokens=8, temperature=0)


@pytest.fixture(scope="module")
def base() -> SharedBase:
    return SharedBase.load("smollm2-135m", device="cpu")


@pytest.fixture(scope="module")
def url(base: SharedBase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("server") / "log"
    with serving(base.model.config._name_or_path, adapters=2, log=log) as place:
        yield place


def test_a_server_samples_with_every_version_that_it_was_sent(base: SharedBase, url: str) -> None:
    engine = ServedEngine(lambda base: VLLMServer(base, url), max_adapters=2)
    alice, bob = (base.policy(name, rank=8, seed=seed) for seed, name in enumerate(("alice", "bob")))
    prompts = [tuple(alice.chat.encode([{"role": "user", "content": "Name a river in France."}]))]
    for step in range(2):
        for seed, policy in enumerate((alice, bob)):
            generator = torch.Generator().manual_seed(10 * step + seed)
            with torch.no_grad():
                for parameter in policy.parameters():
                    parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator))
            here = TorchEngine().sample(policy, prompts, GREEDY, seeds=[1])
            there = engine.sample(policy, prompts, GREEDY, seeds=[1])
            assert there[0].token_ids == here[0].token_ids
            assert there[0].logprobs == pytest.approx(here[0].logprobs, abs=1e-3)
            assert there[0].finish_reason == here[0].finish_reason
    once, again, other = (
        engine.sample(alice, prompts, SamplingParams(max_tokens=8), seeds=[seed])[0].token_ids for seed in (1, 1, 2)
    )
    assert once == again != other


def test_a_server_of_another_model_is_found_out(base: SharedBase, url: str) -> None:
    changed = SharedBase.load("smollm2-135m", device="cpu")
    with torch.no_grad():
        changed.model.get_decoder().layers[3].mlp.up_proj.weight.neg_()
    engine = ServedEngine(lambda base: VLLMServer(base, url))
    with pytest.raises(AdapterNotServed, match="serves another model"):
        engine.sample(changed.policy("carol", rank=8), [(5, 6)], GREEDY, seeds=[1])
