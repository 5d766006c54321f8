"""Inputs and installations that would have the compiled kernels read what is not theirs, or answer with it."""

import ctypes
import ctypes.util
import shutil
from pathlib import Path

import pytest
import torch
from tiny_models import tiny_model

from agents.engines.common_block import Norm, angles_of, is_common
from agents.engines.drawing import draw
from agents.engines.projections import Panels
from agents.engines.row_cache import RowCache
from agents.kernels import library
from agents.kernels.elementwise import silu_gate_backward
from agents.training_block import fuse

compiled = pytest.mark.skipif(library.LIBRARY is None, reason="the kernels are not compiled here: no compiler, or switched off")


@compiled
@pytest.mark.parametrize("rows", [1, 2, 500])
def test_uniform_numbers_may_lie_apart(rows: int) -> None:
    """A copy that nobody held was freed before the draw, and the draw's own scratch was written over it."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(rows, 40, generator=generator)
    uniform = torch.rand(rows, 7, generator=generator, dtype=torch.float64)
    apart, together = (draw(logits, x, temperature=1.0) for x in (uniform[:, 3], uniform[:, 3].clone()))
    assert all(map(torch.equal, apart, together))


@compiled
def test_the_default_type_does_not_matter() -> None:
    logits, uniform = torch.randn(3, 40), torch.rand(3, dtype=torch.float64)
    x, weight = torch.randn(3, 8), torch.randn(40, 8)
    before = draw(logits, uniform, temperature=1.0), Panels(weight, None)(x)
    torch.set_default_dtype(torch.float64)
    try:
        after = draw(logits, uniform, temperature=1.0), Panels(weight, None)(x)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(before[1], after[1])
    assert all(map(torch.equal, before[0], after[0]))


@pytest.mark.parametrize("logit", [torch.finfo(torch.float32).min, -1e31, 0.0, 1e30])
def test_tokens_of_equal_logits_are_equally_likely_however_small_they_are(logit: float) -> None:
    """What was below the least score of attention had no weight at all, and its log-probability was not a number."""
    uniform = torch.tensor([0.0, 0.3, 0.7, 1 - 2**-53], dtype=torch.float64)
    token, logp = draw(torch.full((4, 1000), logit), uniform, temperature=1.0)
    assert token.tolist() == [0, 300, 700, 999]
    torch.testing.assert_close(logp, torch.full((4,), 1e-3).log())


def test_tensors_that_lie_otherwise_in_memory() -> None:
    gate_up, grad = torch.randn(12, 5).T, torch.randn(5, 6)
    for ours, theirs in zip(silu_gate_backward(grad, gate_up), silu_gate_backward(grad, gate_up.contiguous()), strict=True):
        assert torch.equal(ours, theirs)

    norm = torch.nn.Module()
    norm.weight, norm.variance_epsilon = torch.nn.Parameter(torch.randn(24)[::3]), 1e-6
    x = torch.randn(5, 8)
    torch.testing.assert_close(Norm.of(norm)(x), torch.nn.functional.rms_norm(x, (8,), norm.weight, 1e-6))

    wide = torch.randn(1, 4, 32)
    apart, together = angles_of(wide[..., ::2], wide[..., 1::2]), angles_of(*(wide[..., i::2].clone() for i in (0, 1)))
    assert torch.equal(apart.cos_NW, together.cos_NW)
    assert apart.cos_NW.is_contiguous()
    assert apart.sin_NW.is_contiguous()


def test_the_gradient_to_states_that_lie_across() -> None:
    model = tiny_model("qwen3").requires_grad_(False)
    decoder = model.get_decoder()
    assert fuse(model, scratch_bytes=2**30)
    x = torch.randn(model.config.hidden_size, 5, generator=torch.Generator().manual_seed(0))
    grads = []
    for states in (x.T[None], x.T.contiguous()[None]):
        states = states.detach().requires_grad_()
        decoder(inputs_embeds=states, use_cache=False).last_hidden_state.square().sum().backward()
        grads.append(states.grad)
    torch.testing.assert_close(*grads)


def test_norms_of_another_type_are_left_to_transformers() -> None:
    model = tiny_model("llama")
    assert is_common(model)
    model.get_decoder().layers[0].input_layernorm.bfloat16()
    assert not is_common(model)


@pytest.mark.parametrize("by_kernels", [pytest.param(True, marks=compiled), False])
def test_a_row_cannot_outgrow_its_room(by_kernels: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By torch this was an error of indexing, by the kernels a write beyond the cache."""
    if not by_kernels:
        monkeypatch.setattr(library, "LIBRARY", None)
    cache = RowCache(torch.zeros(0), [3], [2], layers=1, kv_heads=1, width=16, room=2, scale=1.0)
    assert cache.is_compiled is by_kernels
    for _ in range(2):
        cache.advance()
        cache.attend(0, torch.randn(2, 3, 16))
    with pytest.raises(IndexError, match="2 tokens already"):
        cache.advance()


@compiled
def test_kernels_of_another_version_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """An editable installation keeps the old kernels when its Python moves on."""
    monkeypatch.setattr(library, "INTERFACE", library.INTERFACE + 1)
    with pytest.warns(RuntimeWarning, match="install agon-env once more"):
        assert library._load() is None


@compiled
def test_kernels_with_threads_of_their_own_are_left_out(tmp_path: Path) -> None:
    """They would not heed torch.set_num_threads, and two sets of threads would wait for each other's cores."""
    assert library._shares_threads(library.LIBRARY)
    name = ctypes.util.find_library("gomp")
    if name is None:
        pytest.skip("no second OpenMP here")
    original = next((file for folder in ("/lib", "/usr/lib") for file in Path(folder).glob(f"*/{name}")), None)
    if original is None:
        pytest.skip("no second OpenMP here")
    copy = shutil.copy(original, tmp_path / "libgomp.so")
    assert not library._shares_threads(ctypes.CDLL(str(copy)))
