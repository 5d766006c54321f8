"""Packed rows against padded ones: the same values and gradients, whichever prompts are shared."""

from dataclasses import replace

import pytest
import torch
from learner_fixtures import VOCABULARY, plain_logprobs, tiny_base, tiny_model, tiny_rows

from agents.adapter_files import AdapterSpec
from agents.adapters import Adapters
from algos.learner import LocalLearner
from algos.learning.batching import pad_rows
from algos.learning.logprobs import token_logprobs
from algos.learning.optim import OptimConfig
from algos.learning.packing import ROUND, can_pack, pack_rows
from algos.losses import LossConfig
from algos.types import Batch, Row

FULL_ATTENTION = ("qwen3", "llama", "granite")


def group_rows(*, prompts=3, each=4, seed=0, longest=7):
    """Rows of which several share a prompt, in mixed order, and one whose prompt is its own."""
    starts = [row.prompt_ids for row in tiny_rows(prompts, seed=seed + 100)]
    rows = tiny_rows(prompts * each, seed=seed, longest=longest, ref=True)
    shared = [replace(row, prompt_ids=starts[index % prompts]) for index, row in enumerate(rows)]
    return [*shared, *tiny_rows(1, seed=seed + 7, ref=True)]


def of_length(row, length):
    return Row(row.prompt_ids, (row.completion_ids * length)[:length], (-1.0,) * length, row.advantage)


CASES = {
    "groups": group_rows(),
    "every prompt its own": tiny_rows(5),
    "one group": group_rows(prompts=1)[:4],
    "answers of one token": [of_length(row, 1) for row in group_rows()],
    "some without any": [of_length(row, index % 3) for index, row in enumerate(group_rows())],
    "one row": tiny_rows(1),
    "the same row twice": tiny_rows(1) * 2,
    "a prompt that begins another": [Row((1, 2), (3, 4, 5), (-1.0,) * 3, 1.0), Row((1, 2, 3), (4, 5), (-1.0,) * 2, 1.0)] * 2,
}


def pack(model, rows):
    return pack_rows(rows, dtype=model.dtype, device=model.device)


@pytest.mark.parametrize("rows", CASES.values(), ids=CASES)
@pytest.mark.parametrize("family", FULL_ATTENTION)
def test_values_and_gradients_equal_each_row_alone(family, rows):
    model = tiny_model(family)
    packed, weights = pack(model, rows), [torch.linspace(0.5, 1.5, len(row.completion_ids)) for row in rows]
    expected = [plain_logprobs(model, row, temperature=0.7) for row in rows]
    logp_BT, _ = token_logprobs(model, packed, temperature=0.7)
    torch.testing.assert_close(logp_BT[packed.mask_BT], torch.cat(expected), rtol=1e-5, atol=1e-5)
    wanted = list(model.parameters())
    ours = torch.autograd.grad((logp_BT[packed.mask_BT] * torch.cat(weights)).sum(), wanted)
    theirs = torch.autograd.grad((torch.cat(expected) * torch.cat(weights)).sum(), wanted)
    for gradient, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-4, atol=1e-5 * max(1.0, other.abs().max().item()))


def test_by_hand():
    rows = [
        Row((5, 6), (7, 8, 9), (-1.0,) * 3, 1.0),
        Row((4,), (3, 2), (-1.0,) * 2, 1.0),
        Row((5, 6), (1, 0), (-1.0,) * 2, 1.0),
    ]
    packed = pack_rows(rows, dtype=torch.float32)
    assert packed.input_ids_1S[:, :7].tolist() == [[5, 6, 4, 3, 7, 8, 1]]
    assert packed.position_ids_1S[:, :7].tolist() == [[0, 1, 0, 1, 2, 3, 2]]
    assert packed.input_ids_1S.shape == packed.position_ids_1S.shape == (1, ROUND)
    assert packed.predicts_N.tolist() == [1, 4, 5, 2, 3, 1, 6]
    assert packed.target_ids_N.tolist() == [7, 8, 9, 3, 2, 1, 0]
    assert packed.mask_BT.int().tolist() == [[1, 1, 1], [1, 1, 0], [1, 1, 0]]
    assert packed.layout.owner_R.tolist() == [0, 0]


@pytest.mark.parametrize("family", FULL_ATTENTION)
def test_full_attention_is_packed(family):
    assert can_pack(tiny_model(family).get_decoder())


@pytest.mark.parametrize("family", ["gemma4", "qwen3_5"])
def test_other_attention_is_padded(family):
    base, alice = tiny_base("alice", family=family)
    learner = LocalLearner(base)
    assert not learner._packs
    rows = group_rows()
    for row, scored in zip(rows, learner.logprobs(alice, rows), strict=True):
        with base.use("alice"), torch.no_grad():
            expected = plain_logprobs(base.model, row)
        torch.testing.assert_close(torch.tensor(scored), expected, rtol=1e-4, atol=1e-4)


def test_windows_other_kernels_and_unknown_arithmetic_are_not_packed():
    model = tiny_model("llama")
    model.config._attn_implementation = "eager"
    assert not can_pack(model.get_decoder())
    model.config._attn_implementation = "sdpa"
    model.config.sliding_window = 4096
    assert not can_pack(model.get_decoder())
    model.config.sliding_window = None
    assert can_pack(model.get_decoder())
    attention = model.get_decoder().layers[0].self_attn
    attention.register_forward_hook(lambda _module, _inputs, output: (output[0].cumsum(1), *output[1:]))  # sees neighbours
    assert not can_pack(model.get_decoder())


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("budget", [20, 10_000])
def test_the_learner_gets_the_gradient_of_padded_rows(recompute, budget):
    rows, results = group_rows(), {}
    for packs in (True, False):
        base, alice = tiny_base("alice")
        learner = LocalLearner(base, loss=LossConfig(kl_coef=0.1), optim=OptimConfig(recompute=recompute, token_budget=budget))
        assert learner._packs
        learner._packs = packs
        stats = learner.forward_backward(alice, Batch(tuple(rows)))
        results[packs] = stats, [parameter.grad for parameter in alice.parameters()]
        assert base.model.config._attn_implementation == "sdpa"
    assert results[True][0] == pytest.approx(results[False][0], rel=1e-4, abs=1e-6)
    for ours, expected in zip(results[True][1], results[False][1], strict=True):
        assert expected.any()
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-6)


def test_a_shared_prompt_is_computed_once(monkeypatch):
    monkeypatch.setattr("algos.learning.packing.ROUND", 1)
    base, alice = tiny_base("alice")
    learner, seen = LocalLearner(base), []
    base.model.get_decoder().layers[0].register_forward_hook(lambda _m, inputs, _o: seen.append(inputs[0].shape[:-1].numel()))
    prompt = tuple(range(1, 21))
    rows = [replace(row, prompt_ids=prompt) for row in tiny_rows(8)]
    learner.forward_backward(alice, Batch(tuple(rows)))
    assert sum(seen) == len(prompt) + sum(len(row.completion_ids) - 1 for row in rows)


def test_an_error_in_the_pass_puts_the_attention_back():
    model = tiny_model("llama")
    model.get_decoder().layers[1].register_forward_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        token_logprobs(model, pack(model, tiny_rows(2)))
    assert model.config._attn_implementation == "sdpa"


def test_bfloat16_rows_are_packed():
    model = tiny_model("llama").to(torch.bfloat16)
    assert can_pack(model.get_decoder())
    rows = group_rows()
    with torch.no_grad():
        ours, padded = (token_logprobs(model, batch)[0] for batch in (pack(model, rows), pad_rows(rows)))
    torch.testing.assert_close(ours, padded, rtol=0.05, atol=0.5)


def test_adapters_work_on_packed_rows():
    model = tiny_model("qwen3")
    adapters = Adapters(model)
    adapters.add("alice", AdapterSpec(2), seed=0)
    with adapters.use("alice"):
        assert can_pack(model.get_decoder())
    assert model.config.vocab_size == VOCABULARY
