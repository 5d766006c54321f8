"""Log-probabilities. Traps T45-T48, T51 and T52 of the reported faults."""

import weakref

import pytest
import torch
from learner_fixtures import FAMILIES, VOCABULARY, plain_logprobs, tiny_model, tiny_rows
from peft import LoraConfig, get_peft_model
from transformers import Qwen3Config, Qwen3ForCausalLM

from algos.learning.batching import pad_rows
from algos.learning.logprobs import Head, UnsupportedHead, check_head, token_logprobs


def with_lora(model, **options):
    config = LoraConfig(r=2, task_type="CAUSAL_LM", init_lora_weights=False, **({"target_modules": "all-linear"} | options))
    torch.manual_seed(1)
    return get_peft_model(model, config, adapter_name="alice")


def trained(model):
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def gradients(model, value):
    names, parameters = zip(*trained(model).items(), strict=True)
    return dict(zip(names, torch.autograd.grad(value, parameters, allow_unused=True, materialize_grads=True), strict=True))


def assert_same(ours, expected):
    assert ours.keys() == expected.keys()
    for name, gradient in expected.items():
        scale = gradient.abs().max().item()
        torch.testing.assert_close(
            ours[name], gradient, rtol=1e-4, atol=1e-5 * max(1, scale), msg=lambda text, name=name: f"{name}: {text}"
        )


def weights_for(rows):
    """A different weight for every token, so that no two can be mistaken for one another."""
    return [torch.linspace(0.5, 1.5, len(row.completion_ids)) * (index + 1) for index, row in enumerate(rows)]


@pytest.mark.parametrize("adapted", [True, False], ids=["lora", "full"])
@pytest.mark.parametrize("family", FAMILIES)
def test_chunks_equal_the_plain_path(family, adapted):
    """In value and gradient, at every chunk size, padded in a batch against each row alone through the full logits."""
    model = tiny_model(family)
    model = with_lora(model) if adapted else model
    rows = tiny_rows(3)
    n = sum(len(row.completion_ids) for row in rows)
    plain = [plain_logprobs(model, row, temperature=0.7) for row in rows]
    weights = weights_for(rows)
    expected = gradients(model, sum((w * logp).sum() for w, logp in zip(weights, plain, strict=True)))
    assert sum(gradient.abs().sum() for gradient in expected.values()) > 0
    batch = pad_rows(rows)
    for chunk in [*range(1, n, 3), n, n + 1, None]:
        logp_BT, entropy_BT = token_logprobs(model, batch, temperature=0.7, chunk=chunk)
        assert entropy_BT is None
        torch.testing.assert_close(logp_BT[batch.mask_BT], torch.cat(plain), rtol=1e-5, atol=1e-5)
        assert (logp_BT[~batch.mask_BT] == 0).all()
        assert_same(gradients(model, (torch.cat(weights) * logp_BT[batch.mask_BT]).sum()), expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_entropy_and_no_grad(family):
    model, rows = tiny_model(family), tiny_rows(4)
    batch = pad_rows(rows)
    logp_BT, entropy_BT = token_logprobs(model, batch, chunk=2, entropy=True, temperature=1.5)
    assert not entropy_BT.requires_grad
    row = rows[0]
    logits = model(input_ids=torch.tensor([row.prompt_ids + row.completion_ids])).logits[0, len(row.prompt_ids) - 1 : -1]
    expected = torch.distributions.Categorical(logits=logits / 1.5).entropy()
    torch.testing.assert_close(entropy_BT[0, : len(row.completion_ids)], expected, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        silent, _ = token_logprobs(model, batch, chunk=2, temperature=1.5)
    assert not silent.requires_grad
    torch.testing.assert_close(silent, logp_BT)


def test_temperature_divides_the_logits():
    """Dividing the log-probabilities instead gives something that is not even a distribution."""
    model, (row,) = tiny_model(), tiny_rows(1)
    one, half = (token_logprobs(model, pad_rows([row]), temperature=t)[0] for t in (1.0, 0.5))
    torch.testing.assert_close(half[0], plain_logprobs(model, row, temperature=0.5))
    assert not torch.allclose(half, one / 0.5, atol=1e-2)
    with pytest.raises(ValueError, match="above 0"):
        token_logprobs(model, pad_rows([row]), temperature=0.0)
    with pytest.raises(ValueError, match="at least 1 token"):
        token_logprobs(model, pad_rows([row]), chunk=0)


def test_each_position_scores_its_own_token():
    """Changing token t changes the log-probability at t, and none before it."""
    model, (row,) = tiny_model(), tiny_rows(1, seed=3)
    before = plain_logprobs(model, row)
    for t in range(len(row.completion_ids)):
        changed = list(row.completion_ids)
        changed[t] = (changed[t] + 1) % VOCABULARY
        other = type(row)(row.prompt_ids, tuple(changed), row.old_logprobs, row.advantage)
        after = token_logprobs(model, pad_rows([other]))[0][0]
        torch.testing.assert_close(after[:t], before[:t])
        assert not torch.isclose(after[t], before[t], atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_does_not_matter(family):
    """A row's scores are the same alone and beside a much longer row."""
    model, (short,) = tiny_model(family), tiny_rows(1, seed=1)
    (long,) = tiny_rows(1, seed=2, longest=30)
    alone = token_logprobs(model, pad_rows([short]))[0][0]
    beside = token_logprobs(model, pad_rows([long, short]))[0][1, : len(alone)]
    torch.testing.assert_close(beside, alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("chunk", [1, 4, None])
def test_a_frozen_head_passes_on_the_gradient_of_a_trained_one(family, chunk):
    """Also where tokens count differently, and where a softcap or a scale lies between hidden states and logits."""
    rows = tiny_rows(4)
    batch, found = pad_rows(rows), {}
    for frozen in (True, False):
        model = with_lora(tiny_model(family))
        model.get_base_model().get_output_embeddings().requires_grad_(not frozen)
        logp_BT, entropy_BT = token_logprobs(model, batch, temperature=0.7, chunk=chunk, entropy=True)
        adapter = [parameter for name, parameter in model.named_parameters() if "lora_" in name]
        value = (torch.cat(weights_for(rows)) * logp_BT[batch.mask_BT]).sum()
        adapter_gradients = torch.autograd.grad(value, adapter, allow_unused=True, materialize_grads=True)
        found[frozen] = dict(enumerate([logp_BT, entropy_BT, *adapter_gradients]))
    assert any(found[True][index].any() for index in range(2, len(found[True])))
    assert_same(found[True], found[False])


def test_of_a_frozen_head_neither_logits_are_kept_nor_computed_again(monkeypatch):
    model, rows = with_lora(tiny_model("llama")), tiny_rows(6)
    n, seen, kept = sum(len(row.completion_ids) for row in rows), [], []
    call = Head.__call__
    monkeypatch.setattr(Head, "__call__", lambda head, hidden_ND: seen.append(len(hidden_ND)) or call(head, hidden_ND))
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(weakref.ref(x)) or x, lambda x: x):
        logp_BT, _ = token_logprobs(model, pad_rows(rows), chunk=4)
    still = [tensor.shape for reference in kept if (tensor := reference()) is not None]
    assert still
    assert not any(shape[-1:] == (VOCABULARY,) for shape in still)
    logp_BT.sum().backward()
    assert sum(seen) == n
    assert max(seen) == 4


def test_the_entropy_of_a_head_that_rules_tokens_out():
    model = tiny_model("llama")
    model.lm_head = torch.nn.Linear(16, VOCABULARY)
    with torch.no_grad():
        model.lm_head.bias[5:] = -torch.inf
    _, entropy_BT = token_logprobs(model, pad_rows([tiny_rows(1)[0]]), entropy=True)
    assert ((entropy_BT >= 0) & (entropy_BT <= torch.tensor(5.0).log() + 1e-5)).all()


def test_only_completions_are_projected_and_only_a_chunk_at_a_time():
    model, rows = tiny_model("llama"), tiny_rows(6)
    n, seen = sum(len(row.completion_ids) for row in rows), []
    model.lm_head.register_forward_hook(lambda _module, inputs, _output: seen.append(inputs[0].shape[0]))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(tuple(x.shape)) or x, lambda x: x):
        logp_BT, _ = token_logprobs(model, pad_rows(rows), chunk=4)
    assert sum(seen) == n
    assert max(seen) == 4
    assert not any(len(shape) == 2 and shape[1] == VOCABULARY and shape[0] > 1 for shape in kept)
    seen.clear()
    logp_BT.sum().backward()
    assert sum(seen) == n  # computed once more in the backward pass


def test_nothing_is_computed_twice_when_one_chunk_is_enough():
    model, rows = tiny_model("llama"), tiny_rows(3)
    calls = []
    model.lm_head.register_forward_hook(lambda *_: calls.append(1))
    token_logprobs(model, pad_rows(rows))[0].sum().backward()
    assert len(calls) == 1


def test_lora_on_the_head_is_part_of_it():
    """Fused heads that read `lm_head.weight` miss the adapter (TRL#5977)."""
    rows = tiny_rows(3)
    model = with_lora(tiny_model("llama"), target_modules=["lm_head", "q_proj"])
    check_head(model)
    plain = torch.cat([plain_logprobs(model, row) for row in rows])
    expected = gradients(model, plain.square().sum())
    batch = pad_rows(rows)
    logp_BT, _ = token_logprobs(model, batch, chunk=2)
    torch.testing.assert_close(logp_BT[batch.mask_BT], plain)
    ours = gradients(model, logp_BT.square().sum())
    assert_same(ours, expected)
    assert any("lm_head" in name and gradient.abs().sum() > 0 for name, gradient in ours.items())
    with model.disable_adapter():
        assert not torch.allclose(token_logprobs(model, batch)[0], logp_BT, atol=1e-2)


def test_tied_embeddings_with_adapters_off_are_the_bare_model():
    rows = pad_rows(tiny_rows(3))
    bare = token_logprobs(tiny_model(), rows)[0]
    model = with_lora(tiny_model())
    assert not torch.allclose(token_logprobs(model, rows)[0], bare, atol=1e-2)
    with model.disable_adapter():
        assert torch.equal(token_logprobs(model, rows)[0], bare)


def test_bfloat16_head_is_normalised_in_float32():
    model, rows = tiny_model().to(torch.bfloat16), pad_rows(tiny_rows(3))
    reference = token_logprobs(model.float(), rows)[0]
    model = model.to(torch.bfloat16)
    check_head(model)
    values = [token_logprobs(model, rows, chunk=chunk)[0] for chunk in (1, 3, None)]
    assert all(value.dtype == torch.float32 for value in values)
    for value in values:
        torch.testing.assert_close(value, values[0], rtol=0, atol=0.05)
        torch.testing.assert_close(value, reference, rtol=0.05, atol=0.5)
    every_token = Head.of(model)(torch.randn(2, 16, dtype=torch.bfloat16)).log_softmax(-1).exp().sum(-1)
    torch.testing.assert_close(every_token, torch.ones(2), rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_check_head_accepts_the_families(family):
    check_head(tiny_model(family))
    check_head(with_lora(tiny_model(family)))


class OddHead(Qwen3ForCausalLM):
    def forward(self, **inputs):
        output = super().forward(**inputs)
        output.logits = output.logits * 1.1
        return output


def test_check_head_refuses_an_unknown_transformation():
    config = Qwen3Config(
        **{k: getattr(tiny_model().config, k) for k in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers")}
    )
    torch.manual_seed(0)
    with pytest.raises(UnsupportedHead, match="OddHead"):
        check_head(OddHead(config).eval())


def test_a_model_without_a_head_is_refused():
    with pytest.raises(UnsupportedHead, match="no causal language model"):
        Head.of(tiny_model().model)
