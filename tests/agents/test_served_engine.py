"""A server gets every version of an adapter before it is sampled with, and a server that does not use it is found out."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from tiny_models import stir, tiny_base

from agents.engines.canary import Reading, own_logprobs
from agents.engines.served import Backend, ServedAdapter, ServedEngine, ServedRow
from agents.engines.torch import TorchEngine
from agents.engines.vllm import require_vllm
from agents.engines.vllm_server import VLLMServer
from agents.errors import AdapterNotServed, DependencyNotInstalled, PromptTooLong, ServerFailed
from agents.policy import LLMPolicy
from agents.sampling import Completion, Request, SamplingParams, sample_many
from agents.shared_base import SharedBase

PARAMS = SamplingParams(max_tokens=8)
PROMPTS = ((5, 6, 7), (5, 6, 7), (9, 10))
SEEDS = (1, 2, 3)


class Server(Backend):
    """A server with a model of its own, a prefix cache by names of adapters, and faults when they are planted."""

    def __init__(self, base: SharedBase) -> None:
        self.base, self.block = base, 16
        self.held: dict[int, str] = {}
        self.heard: list[str] = []
        self.cache: dict[tuple[str | None, tuple[int, ...]], dict[int, float]] = {}
        self.serves: Callable[[ServedAdapter | None], str | None] = self.honest
        self.forgets_to_reset = False

    def honest(self, adapter: ServedAdapter | None) -> str | None:
        return None if adapter is None else self.held[adapter.number]

    def load(self, adapter: ServedAdapter) -> None:
        self.heard.append(f"load {adapter.name}")
        own = adapter.name.replace("@", "-v")
        self.base.policy(own, adapter=adapter.folder)
        self.held[adapter.number] = own

    def unload(self, adapter: ServedAdapter) -> None:
        self.heard.append(f"unload {adapter.name}")
        self.base.adapters.remove(self.held.pop(adapter.number))

    def reset_cache(self) -> None:
        self.heard.append("reset")
        if not self.forgets_to_reset:
            self.cache.clear()

    def generate(self, rows: Sequence[ServedRow], *, temperature: float, eos_ids: frozenset[int]) -> list[Completion]:
        requests = []
        for row in rows:
            player = LLMPolicy(self.base, self.serves(row.adapter) or "base", params=PARAMS, engine=TorchEngine())
            params = SamplingParams(max_tokens=row.max_tokens, temperature=temperature)
            requests.append(Request(player, [row.prompt], params, [row.seed]))
        return [completions[0] for completions in TorchEngine(lean=False).sample_many(requests)]

    def next_logprobs(self, prompts: Sequence[Sequence[int]], adapter: ServedAdapter | None, *, top: int) -> Reading:
        key = None if adapter is None else adapter.name.partition("@")[0] if self.forgets_to_reset else adapter.name
        for prompt, logp_V in zip(prompts, own_logprobs(self.base, self.serves(adapter), prompts), strict=True):
            values, ids = logp_V.topk(top)
            self.cache.setdefault((key, tuple(prompt)), dict(zip(ids.tolist(), values.tolist(), strict=True)))
        return [self.cache[key, tuple(prompt)] for prompt in prompts]

    def rest(self) -> None:
        self.heard.append("rest")


class World:
    """A base with two policies, and a server of it."""

    def __init__(self) -> None:
        self.base, self.server = tiny_base(), Server(tiny_base())
        self.engine = ServedEngine(lambda base: self.server, max_adapters=2)
        self.alice, self.bob = (self.base.policy(name, rank=2, engine=self.engine) for name in ("alice", "bob"))
        stir(self.base, "alice", seed=1)
        stir(self.base, "bob", seed=2)

    def sample(self, policy: LLMPolicy) -> list[Completion]:
        return policy.sample(PROMPTS, params=PARAMS, seeds=SEEDS)


@pytest.fixture
def world() -> World:
    return World()


def same(found: Sequence[Completion], expected: Sequence[Completion]) -> bool:
    return [one.token_ids for one in found] == [one.token_ids for one in expected] and all(
        torch.allclose(torch.tensor(one.logprobs), torch.tensor(other.logprobs), atol=1e-4)
        for one, other in zip(found, expected, strict=True)
    )


def test_a_server_samples_what_the_model_here_samples(world: World) -> None:
    here = [TorchEngine().sample(policy, PROMPTS, PARAMS, seeds=SEEDS) for policy in (world.alice, world.bob)]
    requests = [Request(policy, PROMPTS, PARAMS, SEEDS) for policy in (world.alice, world.bob)]
    for found, expected in zip(sample_many(requests), here, strict=True):
        assert same(found, expected)
    assert not same(here[0], here[1])
    bare = world.base.policy(engine=world.engine)
    assert same(world.sample(bare), TorchEngine().sample(bare, PROMPTS, PARAMS, seeds=SEEDS))


def test_a_changed_adapter_is_sent_once_and_the_old_one_unloaded(world: World) -> None:
    before = world.sample(world.alice)
    world.sample(world.alice)
    assert world.server.heard == ["load alice@1", "reset"]
    stir(world.base, "alice", seed=3, size=0.3)
    after = world.sample(world.alice)
    assert world.server.heard[2:] == ["unload alice@1", "load alice@2", "reset"]
    assert not same(before, after)
    assert same(after, TorchEngine().sample(world.alice, PROMPTS, PARAMS, seeds=SEEDS))


def test_weights_that_were_read_from_a_file_are_sent_as_well(world: World, tmp_path: Path) -> None:
    world.base.save("bob", tmp_path / "bob")
    world.sample(world.alice)
    world.base.load_adapter("alice", tmp_path / "bob")
    assert same(world.sample(world.alice), TorchEngine().sample(world.bob, PROMPTS, PARAMS, seeds=SEEDS))


def test_the_adapter_not_asked_for_the_longest_makes_room(world: World) -> None:
    third = world.base.policy("carol", rank=2, engine=world.engine)
    for policy in (world.alice, world.bob, world.alice, third, world.bob):
        world.sample(policy)
    loads = [word for word in world.server.heard if word != "reset"]
    assert loads == ["load alice@1", "load bob@2", "unload bob@2", "load carol@3", "unload alice@1", "load bob@4"]
    assert len(world.server.held) == 2


def test_more_adapters_at_once_than_the_server_holds_are_refused(world: World) -> None:
    policies = [world.alice, world.bob, world.base.policy("carol", rank=2), world.base.policy()]
    requests = [Request(policy, PROMPTS, PARAMS, SEEDS) for policy in policies]
    with pytest.raises(ValueError, match="3 adapters are asked for at once, but the server holds 2: raise max_adapters"):
        world.engine.sample_many(requests)
    assert world.server.heard == []
    assert len(world.engine.sample_many([requests[0], requests[1], requests[0], requests[3]])) == 4


def test_files_of_old_versions_do_not_pile_up(world: World) -> None:
    folders = set()
    for seed in range(3):
        stir(world.base, "alice", seed=seed)
        world.sample(world.alice)
        folders |= {path.name for path in world.engine._serving(world.base)._folder.iterdir()}
    assert folders == {"alice@1", "alice@2", "alice@3"}
    assert [path.name for path in world.engine._serving(world.base)._folder.iterdir()] == ["alice@3"]


def test_an_adapter_that_never_arrives_is_found_out(world: World) -> None:
    world.server.serves = lambda adapter: None
    with pytest.raises(AdapterNotServed, match="was sent 'alice@1' but samples from the bare base"):
        world.sample(world.alice)


def test_the_rivals_adapter_is_found_out(world: World) -> None:
    world.sample(world.alice)
    world.server.serves = lambda adapter: world.server.held[1]
    with pytest.raises(AdapterNotServed, match="was sent 'bob@2' but samples from the adapter 'alice@1'"):
        world.sample(world.bob)


def test_an_old_version_is_found_out_after_the_smallest_step(world: World) -> None:
    world.sample(world.alice)
    first = world.server.base.policy("first", adapter=world.engine._serving(world.base)._held["alice"].folder)
    world.server.serves = lambda adapter: first.name
    stir(world.base, "alice", seed=3, size=1e-5)
    with pytest.raises(AdapterNotServed, match="was sent 'alice@2' but samples from the adapter 'alice@1'"):
        world.sample(world.alice)


def test_a_stale_prefix_cache_is_found_out(world: World) -> None:
    world.server.forgets_to_reset = True  # and keeps its entries by names without a version
    world.sample(world.alice)
    stir(world.base, "alice", seed=3)
    with pytest.raises(AdapterNotServed, match="'alice@1'"):
        world.sample(world.alice)


def test_another_model_is_found_out(world: World) -> None:
    world.server.base = tiny_base(seed=7)
    with pytest.raises(AdapterNotServed, match="serves another model"):
        world.sample(world.alice)


def test_a_prompt_that_fills_the_context_is_refused(world: World) -> None:
    with pytest.raises(PromptTooLong, match="fills the context of 256"):
        world.alice.sample([(5,) * 256], params=PARAMS, seeds=[1])


def test_a_row_that_goes_on_has_luck_that_it_has_not_had(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds, generate = [], world.server.generate
    monkeypatch.setattr(
        world.server, "generate", lambda rows, **how: seeds.extend(row.seed for row in rows) or generate(rows, **how)
    )
    for begun in (None, [0], [3], [3], [4]):
        world.engine.sample_many([Request(world.alice, PROMPTS[:1], PARAMS, [7], begun)])
    assert seeds[:2] == [7, 7]
    assert seeds[2] == seeds[3]
    assert len(set(seeds)) == 3


def test_servers_rest_when_they_are_told_to(world: World) -> None:
    world.engine.rest()
    assert world.server.heard == []  # nobody has asked it yet
    world.sample(world.alice)
    world.engine.rest()
    assert world.server.heard[-1] == "rest"


def test_another_version_of_vllm_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.engines.vllm.version", lambda name: "0.19.1")
    with pytest.raises(DependencyNotInstalled, match=r"vLLM 0.19.1 is installed, .* needs vLLM 0.32 or later, before 0.34"):
        require_vllm()


def test_a_server_that_does_not_answer_is_named() -> None:
    with pytest.raises(ServerFailed, match=r"http://127.0.0.1:9/v1/models does not answer"):
        VLLMServer(tiny_base(), "http://127.0.0.1:9", timeout=2)
