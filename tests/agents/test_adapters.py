"""Two policies on one frozen base train as if each were alone, and start as the base (T4 to T6, T9 to T12, T18, T48, T51)."""

import pytest
import torch
from adapter_pair import gradients, ids, logits, loss, pair, stirred_pair
from tiny_models import FAMILIES, stir, tiny_base, tiny_model
from transformers import AutoModelForCausalLM, Gemma4Config, Qwen3Config

from agents.adapter_files import AdapterSpec
from agents.adapters import Adapters
from agents.errors import AdapterSwitched
from agents.shared_base import SharedBase


@pytest.fixture
def base() -> SharedBase:
    return stirred_pair()


# --- T4, T6, T9: two policies train as if each were alone -------------------------------------------


def test_t04_training_one_leaves_the_bytes_of_the_other_and_of_the_base(base: SharedBase) -> None:
    bob = [parameter.clone() for parameter in base.parameters("bob")]
    checksum = base.checksum()
    optimizer = torch.optim.AdamW(base.parameters("alice"), lr=0.1)
    for step in range(2):
        with base.use("alice"):
            loss(base, step).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    assert all(torch.equal(a, b) for a, b in zip(bob, base.parameters("bob"), strict=True))
    assert base.checksum() == checksum


def test_t06_gradients_equal_those_of_pefts_mixed_batch(base: SharedBase) -> None:
    for name, seed in (("alice", 0), ("bob", 1)):
        with base.use(name):
            loss(base, seed).backward()
    own = gradients(base, "alice") + gradients(base, "bob")
    base.model.zero_grad(set_to_none=True)
    with base.use("alice"):  # PEFT routes each row to its adapter; the switch only has to be on
        names = ["alice"] * 3 + ["bob"] * 3
        both = base.adapters.peft.eval()(input_ids=torch.cat([ids(0), ids(1)]), adapter_names=names).logits
        both.log_softmax(-1)[..., 3].sum().backward()
    for a, b in zip(own, gradients(base, "alice") + gradients(base, "bob"), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_t09_adapters_start_as_the_base_with_different_seeds() -> None:
    base = pair(tiny_base())
    assert torch.equal(logits(base, "alice"), logits(base, None))
    assert torch.equal(logits(base, "bob"), logits(base, None))
    names = list(base.adapters.named_parameters("alice"))
    with base.use("alice"):
        loss(base).backward()
    for name, gradient in zip(names, gradients(base, "alice"), strict=True):
        assert gradient.any() == ("lora_B" in name), name
    starts = [[p for n, p in base.adapters.named_parameters(who).items() if "lora_A" in n] for who in ("alice", "bob")]
    assert not any(torch.equal(a, b) for a, b in zip(*starts, strict=True))


def test_adding_adapters_leaves_the_global_random_state_alone() -> None:
    base = tiny_base()
    before = torch.get_rng_state()
    pair(base).reset("alice", seed=3)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_same_seed_gives_the_same_adapter() -> None:
    a, b = tiny_base(), tiny_base()
    a.policy("alice", rank=4, seed=5)
    b.policy("bob", rank=4)
    b.policy("alice", rank=4, seed=5)
    assert all(torch.equal(x, y) for x, y in zip(a.parameters("alice"), b.parameters("alice"), strict=True))


# --- T10, T12, T18, T51: weights --------------------------------------------------------------------


def test_t10_adapters_are_float32_on_a_bfloat16_base() -> None:
    base = SharedBase(tiny_model(vocab=320).to(torch.bfloat16), tiny_base().tokenizer)
    pair(base)
    base.reset("alice", seed=1)
    assert {parameter.dtype for name in ("alice", "bob") for parameter in base.parameters(name)} == {torch.float32}
    with base.use("alice"):
        loss(base).backward()
    assert {gradient.dtype for gradient in gradients(base, "alice")} == {torch.float32}


def test_t12_reset_gives_the_fresh_start(base: SharedBase) -> None:
    fresh = pair(tiny_base())
    base.reset("alice", seed=7)
    fresh.reset("alice", seed=7)
    assert torch.equal(logits(base, "alice"), logits(base, None))
    for (name, a), b in zip(base.adapters.named_parameters("alice").items(), fresh.parameters("alice"), strict=True):
        assert torch.equal(a, b)
        if "lora_A" in name:  # uniform within ±1/sqrt(inputs), as torch's Linear
            bound = a.shape[1] ** -0.5
            assert 0.8 * bound < a.abs().max() <= bound
        else:
            assert not a.any()
    assert not torch.equal(logits(base, "bob"), logits(base, None))


def test_t18_the_base_keeps_its_checksum(base: SharedBase) -> None:
    plain = Adapters(tiny_model(vocab=len(base.tokenizer)))
    assert base.checksum() == plain.base_checksum()
    next(base.model.get_input_embeddings().parameters()).data[0, 0] += 1e-3
    assert base.checksum() != plain.base_checksum()


def test_t48_there_is_no_dropout_in_training_mode(base: SharedBase) -> None:
    base.model.train()
    assert torch.equal(logits(base, "alice"), logits(base, "alice"))


def test_t51_all_linear_leaves_the_head_alone_and_a_head_adapter_counts() -> None:
    base = tiny_base(tie_word_embeddings=True)
    base.policy("alice", rank=2)
    base.policy("bob", rank=2, target_modules=("lm_head",))
    assert not any("lm_head" in name for name in base.adapters.named_parameters("alice"))
    stir(base, "bob")
    assert not torch.equal(logits(base, "bob"), logits(base, None))
    head, embedding = base.model.get_output_embeddings(), base.model.get_input_embeddings()
    assert head.weight is embedding.weight  # still tied


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_takes_adapters(family: str) -> None:
    base = pair(tiny_base(family))
    assert torch.equal(logits(base, "alice"), logits(base, None))
    with base.use("alice"):
        loss(base).backward()
    assert any(gradient is not None and gradient.any() for gradient in gradients(base, "alice"))


def test_adapter_memory_is_at_most_a_twentieth_of_qwen3_1_7b() -> None:
    # huggingface.co/Qwen/Qwen3-1.7B/blob/main/config.json
    config = Qwen3Config(
        vocab_size=151936,
        hidden_size=2048,
        intermediate_size=6144,
        num_hidden_layers=28,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        tie_word_embeddings=True,
    )
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    adapters = Adapters(model)
    adapters.add("alice", AdapterSpec(), seed=0)
    assert 1.6e9 < sum(p.numel() for p in model.parameters()) - adapters.count("alice") < 1.8e9
    assert adapters.count("alice") == 28 * 32 * (2 * 4096 + 2 * 3072 + 3 * 8192)
    assert 0.03 < adapters.overhead("alice") <= 0.05


def test_multimodal_models_are_adapted_and_guarded_in_their_text_part_alone() -> None:
    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 8}
    text = {**FAMILIES["gemma4"](320).to_dict(), "pad_token_id": 0}
    config = Gemma4Config(text_config=text, vision_config={**vision, "num_key_value_heads": 2}, audio_config=None)
    base = pair(SharedBase(AutoModelForCausalLM.from_config(config), tiny_base().tokenizer))
    assert any("vision" in name for name, _ in base.model.named_modules())
    for name in ("alice", "bob"):
        keys = list(base.adapters.named_parameters(name))
        assert keys
        assert not any("vision" in key or "lm_head" in key for key in keys)
    with base.use("alice"):
        pending = loss(base)
    with pytest.raises(AdapterSwitched):
        pending.backward()
