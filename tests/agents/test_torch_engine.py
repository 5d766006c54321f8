"""The torch engine: what it samples, with which log-probabilities; the traps T45-T49 as far as they are its own."""

import copy
import itertools
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from tiny_models import FAMILIES, stir, tiny_base, tiny_model
from torch import Tensor

from agents.engines import common_block
from agents.engines.common_block import LeanModel, is_common
from agents.engines.drawing import draw
from agents.engines.lean import LeanDecoder, fits
from agents.engines.torch import TorchEngine
from agents.errors import PromptTooLong
from agents.kernels import library
from agents.policy import LLMPolicy
from agents.sampling import MIN_TEMPERATURE, Completion, Request, SamplingParams, sample_many
from agents.shared_base import SharedBase

LENGTHS = (5, 12, 1, 20, 70, 12)
GREEDY = SamplingParams(max_tokens=24, temperature=0.0)
SAMPLED = SamplingParams(max_tokens=24, temperature=0.7)


def player(family: str, *, eos: tuple[int, ...] = (3, 7)) -> LLMPolicy:
    base = tiny_base(family)
    base.eos_ids = frozenset(eos)
    policy = base.policy("alice", rank=4)
    stir(base, "alice")
    return policy


ENGINES = {
    **{family: {} for family in FAMILIES},
    "qwen3, no compiled kernels": {},
    "qwen3, its own forward": {"lean": False},
    "qwen3, its own weights": {"scratch_bytes": 0},
}
"""The engine's paths: every family with the default, and the ways that Qwen3 takes only on other machines."""


@pytest.fixture(scope="module", params=ENGINES)
def alice(request: pytest.FixtureRequest) -> Iterator[LLMPolicy]:
    # Every tenth token ends a row, so that the rows end at different times.
    policy = player(request.param.split(",")[0], eos=tuple(range(0, 320, 10)))
    policy.engine = TorchEngine(**ENGINES[request.param])
    with pytest.MonkeyPatch.context() as patch:
        if "no compiled kernels" in request.param:
            patch.setattr(library, "LIBRARY", None)
        yield policy


@pytest.fixture(scope="module")
def qwen() -> LLMPolicy:
    return player("qwen3", eos=tuple(range(0, 320, 10)))


def prompts(lengths: tuple[int, ...] = LENGTHS, seed: int = 0) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    return [tuple(rng.integers(320, size=length).tolist()) for length in lengths]


def sample(
    policy: LLMPolicy, rows: list[tuple[int, ...]], params: SamplingParams, seeds: list[int] | None = None
) -> list[Completion]:
    return policy.sample(rows, params=params, seeds=seeds if seeds is not None else list(range(len(rows))))


def recomputed(policy: LLMPolicy, prompt: tuple[int, ...], completion: Completion, temperature: float) -> Tensor:
    """Return the log-probabilities of a completion by one plain forward pass of its row alone."""
    with torch.no_grad(), policy.base.use(policy.name):
        logits_TV = policy.base.model(torch.tensor([prompt + completion.token_ids])).logits[0, len(prompt) - 1 : -1]
    logp_TV = (logits_TV / temperature).log_softmax(-1)
    return logp_TV.gather(-1, torch.tensor(completion.token_ids)[:, None])[:, 0]


def assert_logprobs(policy: LLMPolicy, rows: list[tuple[int, ...]], completions: list[Completion], temperature: float) -> None:
    for prompt, completion in zip(rows, completions, strict=True):
        own = torch.tensor(completion.logprobs)
        torch.testing.assert_close(own, recomputed(policy, prompt, completion, temperature), atol=1e-4, rtol=0)


# --- on every family --------------------------------------------------------------------------------


def test_greedy_equals_generate_with_uneven_prompts_and_ends(alice: LLMPolicy) -> None:
    rows = prompts()
    completions = sample(alice, rows, GREEDY)
    with alice.base.use("alice"):
        for prompt, completion in zip(rows, completions, strict=True):
            ids = torch.tensor([prompt])
            generated = alice.base.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=GREEDY.max_tokens,
                do_sample=False,
                eos_token_id=sorted(alice.base.eos_ids),
                pad_token_id=0,
            )
            assert list(completion.token_ids) == generated[0, len(prompt) :].tolist()
    assert len({len(completion.token_ids) for completion in completions}) > 2
    assert_logprobs(alice, rows, completions, 1.0)


def test_t46_t47_logprobs_equal_those_of_the_unpadded_row(alice: LLMPolicy) -> None:
    rows = prompts()
    assert_logprobs(alice, rows, sample(alice, rows, SAMPLED), 0.7)


def test_a_row_is_the_same_alone_and_among_others(alice: LLMPolicy) -> None:
    rows = prompts()
    together = sample(alice, rows, SAMPLED)
    for seed, (prompt, completion) in enumerate(zip(rows, together, strict=True)):
        (alone,) = sample(alice, [prompt], SAMPLED, [seed])
        assert alone.token_ids == completion.token_ids
        assert alone.logprobs == pytest.approx(completion.logprobs, abs=1e-4)


def test_equal_prompts_share_their_prefix_and_change_nothing(alice: LLMPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.engines.lean.ROUND", 1)
    one, two = prompts((9, 30))
    rows, seeds = [one, two, one, one], [5, 6, 7, 8]
    sample(alice, [one], SAMPLED, [5])  # the first call also tries which decoder fits the model
    computed: list[int] = []
    lean_forward = LeanModel.forward

    def counting(model: LeanModel, token_N: Tensor, *rest: object) -> Tensor:
        computed.append(len(token_N))
        return lean_forward(model, token_N, *rest)

    monkeypatch.setattr(LeanModel, "forward", counting)
    hook = alice.base.model.register_forward_pre_hook(
        lambda _model, _args, kwargs: computed.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    group = sample(alice, rows, SAMPLED, seeds)
    hook.remove()
    assert computed[0] in (9 + 30, 2 * 30)  # without padding, or with
    assert set(computed[1:]) <= {1, 2, 3, 4}
    alone = [sample(alice, [row], SAMPLED, [seed])[0].token_ids for row, seed in zip(rows, seeds, strict=True)]
    assert [completion.token_ids for completion in group] == alone
    assert len(set(alone)) == 4


def test_waves_of_rows_equal_one_batch(alice: LLMPolicy) -> None:
    rows = prompts()
    seeds = list(range(len(rows)))
    waves = TorchEngine(max_rows=2).sample(alice, rows, SAMPLED, seeds=seeds)
    assert [w.token_ids for w in waves] == [c.token_ids for c in sample(alice, rows, SAMPLED)]


@pytest.mark.parametrize("family", FAMILIES)
def test_models_of_the_common_block_are_decoded_by_the_lean_path(family: str) -> None:
    base = tiny_base(family)
    with torch.no_grad():
        assert fits(base.model, None, scratch_bytes=2**30) == (family in ("qwen3", "llama"))


def test_equal_modules_that_are_multiplied_otherwise_keep_their_own_forward() -> None:
    base = tiny_base("llama")
    assert is_common(base.model)
    for layer in base.model.model.layers:
        layer.mlp.register_forward_hook(lambda _module, _args, output: output * 0.9)  # as Granite's residual multiplier
    with torch.no_grad():
        assert not fits(base.model, None, scratch_bytes=2**30)


# --- the adapter and the model's state --------------------------------------------------------------


def test_each_policy_samples_with_its_own_adapter_and_leaves_the_active_one(qwen: LLMPolicy) -> None:
    base = tiny_base()
    alice, bob, bare = base.policy("alice", rank=4), base.policy("bob", rank=4), base.policy()
    stir(base, "bob", size=0.3)
    rows = prompts()
    with base.use("bob"):
        texts = {policy.name: [c.token_ids for c in sample(policy, rows, GREEDY)] for policy in (alice, bob, bare)}
        assert base.active == "bob"
    assert texts["alice"] == texts["base"]  # an untrained adapter is the identity
    assert texts["bob"] != texts["base"]
    assert_logprobs(bob, rows, sample(bob, rows, SAMPLED), 0.7)


def test_t48_sampling_in_training_mode_is_without_dropout_and_puts_the_mode_back() -> None:
    base = tiny_base(attention_dropout=0.5)
    policy = base.policy()
    evaluating = sample(policy, prompts(), GREEDY)
    base.model.train()
    base.model.gradient_checkpointing_enable()
    assert sample(policy, prompts(), GREEDY) == evaluating
    assert base.model.training


def test_sampling_leaves_no_trace_in_training(qwen: LLMPolicy) -> None:
    before = torch.get_rng_state()
    sample(qwen, prompts(), SAMPLED)
    assert torch.equal(torch.get_rng_state(), before)
    with qwen.base.use("alice"):
        qwen.base.model(torch.tensor(prompts((6,)))).logits.sum().backward()
    assert all(parameter.grad is not None for parameter in qwen.parameters())
    qwen.base.model.zero_grad(set_to_none=True)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_attention_implementation_does_not_matter(attention: str) -> None:
    base = tiny_base()
    base.model.set_attn_implementation(attention)
    policy = base.policy()
    assert_logprobs(policy, prompts(), sample(policy, prompts(), SAMPLED), 0.7)


def test_merging_an_adapter_for_a_call_never_touches_the_base_and_sees_new_weights(qwen: LLMPolicy) -> None:
    base = tiny_base()
    alice, bob = base.policy("alice", rank=4), base.policy("bob", rank=4)
    checksum, rows = base.checksum(), prompts()
    start = sample(alice, rows, GREEDY)
    stir(base, "alice", size=0.3)
    stir(base, "bob", seed=1, size=0.3)
    texts = {policy.name: sample(policy, rows, GREEDY) for policy in (alice, bob)}
    assert start != texts["alice"] != texts["bob"] != start
    for policy in (alice, bob, alice):
        assert sample(policy, rows, GREEDY) == texts[policy.name]
    base.adapters.reset("alice", seed=1)
    assert [c.token_ids for c in sample(alice, rows, GREEDY)] == [c.token_ids for c in start]
    assert base.checksum() == checksum


def test_biases_and_grouped_heads_of_the_common_block() -> None:
    base = tiny_base("llama", attention_bias=True, mlp_bias=True, num_key_value_heads=1)
    with torch.no_grad():
        for name, parameter in base.model.named_parameters():
            if name.endswith("bias"):
                parameter.copy_(torch.linspace(-1, 1, len(parameter)))
        assert fits(base.model, None, scratch_bytes=2**30)
    policy = base.policy("alice", rank=4)
    stir(base, "alice")
    assert_logprobs(policy, prompts(), sample(policy, prompts(), SAMPLED), 0.7)


@pytest.mark.parametrize("shared", [True, False])
def test_several_policies_sampled_at_once_say_what_each_says_alone(
    alice: LLMPolicy, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common_block, "SHARE_BYTES", 0 if shared else 2**60)
    monkeypatch.setattr(common_block, "SHARE_RANK", 1)
    laid_out: list[int] = []
    lay_out = LeanModel.__init__

    def counting(model: LeanModel, base: object, adapters: list[str | None], **options: object) -> None:
        laid_out.append(len(adapters))
        lay_out(model, base, adapters, **options)

    monkeypatch.setattr(LeanModel, "__init__", counting)
    base = alice.base
    if "bob" not in base.adapters.names:
        base.policy("bob", rank=2)
        stir(base, "bob", seed=1, size=0.3)
    bob, bare = copy.copy(alice), copy.copy(alice)
    bob.name, bare.name = "bob", "base"
    rows = prompts()
    requests = [
        Request(policy, rows[start:] * 2, SAMPLED, range(2 * (len(rows) - start)))
        for policy, start in ((alice, 0), (bob, 1), (bare, 2), (alice, 3))
    ]
    found = sample_many(requests)
    if laid_out:  # without a copy of the weights there is nothing that a shared batch could lose
        assert set(laid_out) == ({3} if shared or alice.engine.scratch_bytes == 0 else {1})
    for request, together in zip(requests, found, strict=True):
        alone = request.policy.sample(request.prompts, params=request.params, seeds=request.seeds)
        assert [c.token_ids for c in together] == [c.token_ids for c in alone]
        assert_logprobs(request.policy, list(request.prompts), together, 0.7)


def test_models_without_a_lean_path_never_mix_adapters_in_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Built of the common modules, so that shared batches would pay, but with products of its own."""
    monkeypatch.setattr(common_block, "SHARE_BYTES", 0)
    monkeypatch.setattr(common_block, "SHARE_RANK", 1)
    alice = player("llama")
    base = alice.base
    for layer in base.model.model.layers:
        layer.mlp.register_forward_hook(lambda _module, _args, output: output * 0.9)
    bob = base.policy("bob", rank=2)
    stir(base, "bob", seed=1, size=0.3)
    requests = [Request(policy, prompts(), SAMPLED, range(len(LENGTHS))) for policy in (alice, bob)]
    for request, together in zip(requests, sample_many(requests), strict=True):
        assert_logprobs(request.policy, list(request.prompts), together, 0.7)


def test_requests_of_other_temperatures_and_bases_are_told_apart(qwen: LLMPolicy) -> None:
    other = player("llama")
    requests = [
        Request(qwen, prompts((5, 9)), GREEDY, [0, 1]),
        Request(other, prompts((5, 9)), GREEDY, [0, 1]),
        Request(qwen, prompts((5, 9)), SAMPLED, [0, 1]),
    ]
    for request, together in zip(requests, qwen.engine.sample_many(requests), strict=True):
        alone = request.policy.sample(request.prompts, params=request.params, seeds=request.seeds)
        assert [c.token_ids for c in together] == [c.token_ids for c in alone]


# --- how a row ends ---------------------------------------------------------------------------------


def test_t49_every_end_token_ends_a_row_and_stays_in_it(qwen: LLMPolicy) -> None:
    completions = sample(qwen, prompts((8,) * 40), SAMPLED)
    ends = {completion.token_ids[-1] for completion in completions if completion.finish_reason == "stop"}
    assert len(ends) > 1
    for completion in completions:
        *body, last = completion.token_ids
        assert not qwen.base.eos_ids & set(body)
        assert (last in qwen.base.eos_ids) == (completion.finish_reason == "stop")
        assert completion.finish_reason == "stop" or len(completion.token_ids) == SAMPLED.max_tokens
        assert len(completion.token_ids) == len(completion.logprobs)
    assert {completion.finish_reason for completion in completions} == {"stop", "length"}


def test_t49_an_end_token_that_also_pads_is_sampled_and_counted() -> None:
    base = tiny_base()
    base.eos_ids = frozenset(range(320))  # whatever comes first ends the row
    policy = base.policy()
    completions = sample(policy, prompts((3, 9)), SAMPLED)
    assert [len(completion.token_ids) for completion in completions] == [1, 1]
    assert all(completion.finish_reason == "stop" for completion in completions)
    assert_logprobs(policy, prompts((3, 9)), completions, 0.7)


def test_rows_end_at_the_context_and_too_long_prompts_are_refused() -> None:
    policy = player("qwen3", eos=())
    long = SamplingParams(max_tokens=20, temperature=1.0)
    completions = sample(policy, prompts((250, 255, 10)), long)
    assert [len(completion.token_ids) for completion in completions] == [6, 1, 20]
    assert {completion.finish_reason for completion in completions} == {"length"}
    assert_logprobs(policy, prompts((250, 255, 10)), completions, 1.0)
    with pytest.raises(PromptTooLong, match="256"):
        sample(policy, prompts((256,)), long)


def test_one_token_at_most_no_rows_and_bad_arguments(qwen: LLMPolicy) -> None:
    assert [len(c.token_ids) for c in sample(qwen, prompts(), SamplingParams(max_tokens=1))] == [1] * len(LENGTHS)
    assert sample(qwen, [], SAMPLED) == []
    with pytest.raises(ValueError, match="one seed for each row"):
        sample(qwen, prompts(), SAMPLED, [1])
    with pytest.raises(ValueError, match="empty"):
        sample(qwen, [()], SAMPLED)
    with pytest.raises(ValueError, match="max_rows"):
        TorchEngine(max_rows=0)


def test_progress_ends_with_all_rows(qwen: LLMPolicy) -> None:
    seen: list[tuple[int, int]] = []
    rows = prompts()
    TorchEngine(max_rows=4).sample(qwen, rows, SAMPLED, seeds=[0] * len(rows), progress=lambda *counts: seen.append(counts))
    assert seen[-1] == (len(rows), len(rows))
    assert all(a[0] <= b[0] for a, b in itertools.pairwise(seen))


# --- the distribution -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [None, 1.5, -1, True, "1", 2**128])
def test_a_row_seed_is_a_non_negative_integer(qwen: LLMPolicy, seed: object) -> None:
    with pytest.raises(ValueError, match="seed of a row"):
        qwen.sample(prompts((3, 3)), params=GREEDY, seeds=[0, seed])


def test_row_seeds_of_numpy_are_those_of_python(qwen: LLMPolicy) -> None:
    one = prompts((3,))
    for seed in (7, 2**128 - 1):
        (plain,) = sample(qwen, one, SAMPLED, [seed])
        (numpys,) = sample(qwen, one, SAMPLED, [np.uint64(seed) if seed < 2**64 else seed])
        assert plain == numpys


@pytest.mark.parametrize("temperature", [1e-40, 9e-4, -1.0, float("nan"), float("inf")])
def test_a_temperature_that_nothing_can_be_divided_by_is_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match=r"temperature must be 0 .* from 0\.001 up"):
        SamplingParams(temperature=temperature)


def test_the_least_temperature_gives_finite_log_probabilities(qwen: LLMPolicy) -> None:
    completions = sample(qwen, prompts((3, 20)), SamplingParams(max_tokens=24, temperature=MIN_TEMPERATURE))
    assert all(np.isfinite(completion.logprobs).all() for completion in completions)


def test_t25_different_seeds_give_different_texts_and_equal_seeds_equal_ones(qwen: LLMPolicy) -> None:
    (prompt,) = prompts((8,))
    texts = [c.token_ids for c in sample(qwen, [prompt] * 6, SAMPLED, [1, 2, 3, 1, 2**63, 2**100])]
    assert texts[0] == texts[3]
    assert len(set(texts)) == 5


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_t45_tokens_are_drawn_at_exactly_the_temperature(temperature: float) -> None:
    logits_V = torch.tensor([2.0, -1.0, 0.0, -torch.inf, 1.0])
    uniform_R = torch.from_numpy(np.random.default_rng(0).random(40_000))
    token_R, logp_R = draw(logits_V.expand(len(uniform_R), -1), uniform_R, temperature=temperature)
    expected_V = (logits_V / temperature).softmax(-1)
    observed_V = torch.bincount(token_R, minlength=5) / len(uniform_R)
    torch.testing.assert_close(observed_V, expected_V, atol=0.01, rtol=0)
    assert observed_V[3] == 0
    torch.testing.assert_close(logp_R, expected_V.log()[token_R])


def test_the_ends_of_the_unit_interval_draw_possible_tokens() -> None:
    logits_RV = torch.tensor([[-torch.inf, 0.0, 0.0, -torch.inf]]).expand(2, -1)
    token_R, _ = draw(logits_RV, torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64), temperature=1.0)
    assert token_R.tolist() == [1, 2]


def test_rare_tokens_of_a_large_vocabulary_are_drawn_as_often_as_they_should() -> None:
    logits_V = torch.randn(150_000, generator=torch.Generator().manual_seed(0))
    uniform_R = torch.linspace(0, 1, 33, dtype=torch.float64)[:-1]
    token_R, _ = draw(logits_V.expand(len(uniform_R), -1), uniform_R, temperature=1.0)
    exact_V = logits_V.double().softmax(-1).cumsum(-1)
    exact_R = torch.searchsorted(exact_V, uniform_R, right=True)
    assert (exact_V[token_R] - exact_V[exact_R]).abs().max() < 1e-6


def test_low_precision_logits_get_a_float32_softmax() -> None:
    logits_RV = torch.randn(4, 1000, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    token_R, logp_R = draw(logits_RV, torch.full((4,), 0.5, dtype=torch.float64), temperature=1.0)
    assert logp_R.dtype == torch.float32
    torch.testing.assert_close(logp_R, logits_RV.double().log_softmax(-1).gather(-1, token_R[:, None])[:, 0].float())


def test_a_padded_row_does_not_enter_the_recurrent_state() -> None:
    base = SharedBase(tiny_model("qwen3_5", vocab=320), tiny_base().tokenizer)
    policy = base.policy()
    short, long = prompts((2, 90))
    (alone,), (padded, _) = sample(policy, [short], SAMPLED, [1]), sample(policy, [short, long], SAMPLED, [1, 2])
    assert padded.token_ids == alone.token_ids
    assert padded.logprobs == pytest.approx(alone.logprobs, abs=1e-4)


def test_the_number_of_rows_goes_down_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    base = tiny_base()
    base.eos_ids = frozenset(range(0, 50, 4))  # rows end at many different steps
    counts, step, policy = [], LeanDecoder.step, base.policy()
    policy.sample([(1, 2)], seeds=[0])  # the first call also tries which decoder fits the model
    monkeypatch.setattr(LeanDecoder, "step", lambda self, token_R: counts.append(len(token_R)) or step(self, token_R))
    found = policy.sample([(1, 2)] * 23, params=SamplingParams(max_tokens=40), seeds=range(23))
    assert len({len(one.token_ids) for one in found}) > 4
    assert len(set(counts)) > 2
    assert all(count % LeanDecoder.ROW_STEP == 0 for count in counts if count != 23)
    assert counts[-1] <= 2 * LeanDecoder.ROW_STEP
