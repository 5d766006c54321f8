"""The compiled kernels against torch's operators, which are the other way to the same numbers."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from agents.engines.drawing import draw
from agents.engines.projections import Panels
from agents.engines.row_cache import RowCache
from agents.kernels import library
from agents.kernels.attention import Runs, attend_runs
from agents.kernels.elementwise import (
    Angles,
    rms_norm,
    rms_norm_backward,
    silu_gate,
    silu_gate_backward,
    turn_heads,
    turn_heads_backward,
)

compiled = pytest.mark.skipif(library.LIBRARY is None, reason="the kernels are not compiled here: no compiler, or switched off")
sizes = st.integers(1, 70)
seeds = st.integers(0, 2**31)


@contextmanager
def by_torch() -> Iterator[None]:
    before, library.LIBRARY = library.LIBRARY, None
    try:
        yield
    finally:
        library.LIBRARY = before


def randn(*shape: int, seed: int, scale: float = 1.0) -> torch.Tensor:
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def close(ours: torch.Tensor, theirs: torch.Tensor, tolerance: float = 2e-6) -> None:
    """Compare with the larger of 1 and the greatest number as the measure."""
    ours, theirs = ours.detach(), theirs.detach()
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance * max(1.0, float(theirs.abs().max())))


def test_they_are_compiled_where_they_can_be() -> None:
    """Else every test here would be skipped, and nobody would see it."""
    compiler = shutil.which("gcc")
    if sys.platform != "linux" or platform.machine() != "x86_64" or compiler is None:
        pytest.skip("no GCC on Linux here")
    if os.environ.get("AGON_KERNELS") == "0":
        pytest.skip("switched off")
    version = subprocess.run([compiler, "-dumpversion"], capture_output=True, text=True, encoding="utf-8", check=True).stdout
    if int(version.split(".")[0]) < 12:
        pytest.skip("GCC is older than 12")
    assert library.LIBRARY is not None or torch.backends.cpu.get_cpu_capability() == "DEFAULT"


@pytest.mark.parametrize("env", [{"AGON_KERNELS": "0"}, {"ATEN_CPU_CAPABILITY": "default"}], ids=["switched off", "no AVX2"])
def test_there_are_machines_without(env: dict[str, str]) -> None:
    if "ATEN_CPU_CAPABILITY" in env and platform.machine() != "x86_64":
        pytest.skip("other processors have no AVX2")
    code = "import agents.kernels.library as l, torch; print(l.LIBRARY, l.usable(torch.ones(1)))"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**env, "PATH": ""},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    assert found.stdout.strip() == "None False"


@compiled
@given(rows=sizes, width=st.sampled_from([1, 3, 16, 48, 130]), scale=st.sampled_from([1e-3, 1.0, 1e4]), seed=seeds)
@settings(deadline=None)
def test_norm(rows: int, width: int, scale: float, seed: int) -> None:
    x, grad, before = (randn(rows, width, seed=seed + i, scale=size) for i, size in enumerate((scale, 1.0, 1.0)))
    weight = randn(width, seed=seed + 3)
    found = []
    for way in (nullcontext, by_torch):
        with way():
            to_x = before.clone()
            found.append((rms_norm(x, weight, 1e-5), rms_norm_backward(grad, x, weight, 1e-5, to_x_ND=to_x), to_x))
    for ours, theirs in zip(*found, strict=True):
        close(ours, theirs, 1e-5)


@compiled
@given(rows=sizes, width=st.sampled_from([1, 5, 16, 100]), scale=st.sampled_from([0.1, 1.0, 1e3]), seed=seeds)
@settings(deadline=None)
def test_gate(rows: int, width: int, scale: float, seed: int) -> None:
    gate_up, grad = randn(rows, 2 * width, seed=seed, scale=scale), randn(rows, width, seed=seed + 1)
    found = []
    for way in (nullcontext, by_torch):
        with way():
            found.append((silu_gate(gate_up), *silu_gate_backward(grad, gate_up)))
    for ours, theirs in zip(*found, strict=True):
        close(ours, theirs)


@compiled
@pytest.mark.parametrize("normed", [True, False])
@given(rows=sizes, heads=st.integers(1, 4), kv_heads=st.integers(1, 3), width=st.sampled_from([2, 6, 32, 80]), seed=seeds)
@settings(deadline=None)
def test_turn(normed: bool, rows: int, heads: int, kv_heads: int, width: int, seed: int) -> None:
    qkv, grad = (randn(rows, heads + 2 * kv_heads, width, seed=seed + i) for i in range(2))
    weight = randn(heads + kv_heads, width, seed=seed + 2) if normed else None
    # Any numbers, not only those of a rotation: the gradient must not count on the sines being equal in both halves.
    angles = Angles(randn(rows, width, seed=seed + 3), randn(rows, width, seed=seed + 4))
    found = []
    for way in (nullcontext, by_torch):
        with way():
            options = weight, 1e-3, angles
            turned = heads + kv_heads
            found.append((turn_heads(qkv, *options, turned=turned), turn_heads_backward(grad, qkv, *options, turned=turned)))
    for ours, theirs in zip(*found, strict=True):
        close(ours, theirs, 1e-4 if normed else 2e-6)


@compiled
@given(
    rows=st.integers(1, 200),
    inputs=st.integers(1, 70),
    outputs=st.integers(1, 140),
    bias=st.booleans(),
    plus=st.booleans(),
    seed=seeds,
)
@settings(deadline=None)
def test_product_with_panels(rows: int, inputs: int, outputs: int, bias: bool, plus: bool, seed: int) -> None:
    x, weight = randn(rows, inputs, seed=seed), randn(outputs, inputs, seed=seed + 1)
    bias_O = randn(outputs, seed=seed + 2) if bias else None
    plus_NO = randn(rows, outputs, seed=seed + 3) if plus else None
    expected = F.linear(x, weight, bias_O) + (0 if plus_NO is None else plus_NO)
    close(Panels(weight, bias_O)(x, plus_NO), expected, 1e-5)


@compiled
@given(rows=st.integers(2, 40), seed=seeds)
@settings(deadline=None, max_examples=20)
def test_a_row_does_not_depend_on_its_neighbours(rows: int, seed: int) -> None:
    x, layer = randn(rows, 33, seed=seed), Panels(randn(50, 33, seed=seed + 1), None)
    together = layer(x)
    for row in range(rows):
        assert torch.equal(layer(x[row : row + 1])[0], together[row])


def sequence(roots: list[int], owners: list[int], branches: list[int], spare: int) -> tuple[Runs, torch.Tensor]:
    """Return runs, and which token sees which, (S, S)."""
    runs = Runs.of(roots, owners, branches)
    total = sum(roots) + sum(branches)
    sees = torch.zeros(total + spare, total + spare, dtype=torch.bool)
    starts = [sum([*roots, *branches][:i]) for i in range(len(roots) + len(branches))]
    for start, length in zip(starts, [*roots, *branches], strict=True):
        sees[start : start + length, start : start + length] = torch.ones(length, length).tril().bool()
    for owner, start, length in zip(owners, starts[len(roots) :], branches, strict=True):
        sees[start : start + length, starts[owner] : starts[owner] + roots[owner]] = True
    return runs, sees


def masked_attention(qkv: torch.Tensor, sees: torch.Tensor, *, kv_heads: int, scale: float) -> torch.Tensor:
    heads = qkv.shape[1] - 2 * kv_heads
    q, k, v = qkv.transpose(0, 1).split([heads, kv_heads, kv_heads])
    k, v = (x.repeat_interleave(heads // kv_heads, 0) for x in (k, v))
    weight = ((q @ k.mT) * scale).masked_fill(~sees, -torch.inf).softmax(-1).nan_to_num(0.0)
    return (weight @ v).transpose(0, 1)


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[int], list[int], list[int], int]:
    roots = draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    owners = draw(st.lists(st.integers(0, len(roots) - 1), max_size=7))
    return roots, owners, [draw(st.integers(1, 40)) for _ in owners], draw(st.integers(0, 5))


@compiled
@given(tree=trees(), kv_heads=st.integers(1, 2), group=st.integers(1, 3), width=st.sampled_from([16, 32, 48, 64]), seed=seeds)
@settings(deadline=None, max_examples=60)
def test_attention_of_runs_and_its_gradient(
    tree: tuple[list[int], list[int], list[int], int], kv_heads: int, group: int, width: int, seed: int
) -> None:
    runs, sees = sequence(*tree)
    qkv = randn(len(sees), (group + 2) * kv_heads, width, seed=seed).requires_grad_()
    ours = attend_runs(qkv, runs, kv_heads=kv_heads, scale=0.3)
    grad = randn(*ours.shape, seed=seed + 1)
    exact = qkv.detach().double().requires_grad_()
    theirs = masked_attention(exact, sees, kv_heads=kv_heads, scale=0.3)
    grad[~sees.any(-1)] = 0  # what is seen by nobody has no gradient
    close(ours.double(), theirs, 1e-5)
    (own,), (other,) = (torch.autograd.grad(x, y, g) for x, y, g in ((ours, qkv, grad), (theirs, exact, grad.double())))
    close(own.double(), other, 2e-5)


@compiled
@pytest.mark.parametrize("scale", [100.0, 1e4])
def test_attention_of_large_scores_stays_finite(scale: float) -> None:
    runs, sees = sequence([9], [0, 0], [20, 3], 0)
    qkv = randn(len(sees), 3, 16, seed=0, scale=scale).requires_grad_()
    ours = attend_runs(qkv, runs, kv_heads=1, scale=1.0)
    close(ours, masked_attention(qkv, sees, kv_heads=1, scale=1.0), 1e-3)
    (grad,) = torch.autograd.grad(ours.sum(), qkv)
    assert grad.isfinite().all()


@compiled
def test_attention_shows_what_is_not_a_number() -> None:
    runs, sees = sequence([9], [0], [20], 0)
    qkv = randn(len(sees), 3, 16, seed=0)
    qkv[4, 1, 0] = torch.nan  # a key of the root
    mixed = attend_runs(qkv, runs, kv_heads=1, scale=1.0)
    assert mixed[4:].isnan().any(-1).all()
    assert not mixed[:4].isnan().any()


@compiled
def test_numbers_do_not_depend_on_threads() -> None:
    runs, sees = sequence([30, 20], [0, 1, 1, 0], [50, 9, 33, 70], 0)
    qkv = randn(len(sees), 6, 32, seed=0).requires_grad_()
    x, layer, threads = randn(300, 64, seed=1), Panels(randn(320, 64, seed=2), None), torch.get_num_threads()
    found = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            mixed = attend_runs(qkv, runs, kv_heads=2, scale=0.2)
            gradient = torch.autograd.grad(mixed.square().sum(), qkv)
            found.append((mixed, *gradient, layer(x), rms_norm(layer(x), torch.ones(320), 1e-6)))
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        assert all(torch.equal(one, two) for one, two in zip(found[0], other, strict=True))


@compiled
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    kv_heads=st.integers(1, 2),
    group=st.integers(1, 3),
    width=st.sampled_from([16, 32, 48]),
    seed=seeds,
    data=st.data(),
)
@settings(deadline=None, max_examples=40)
def test_attention_of_next_tokens_while_rows_leave(
    lengths: list[int], kv_heads: int, group: int, width: int, seed: int, data: st.DataObject
) -> None:
    counts = [data.draw(st.integers(1, 5)) for _ in lengths]
    options = {"layers": 1, "kv_heads": kv_heads, "width": width, "room": 9, "scale": 0.3}
    ours = RowCache(torch.zeros(0), lengths, counts, **options)
    with by_torch():
        theirs = RowCache(torch.zeros(0), lengths, counts, **options)
    assert ours.is_compiled
    assert not theirs.is_compiled
    for place, length in enumerate(lengths):
        for cache in (ours, theirs):
            cache.write_prompts(0, place, *(randn(1, kv_heads, length, width, seed=seed + place + i) for i in (0, 100)))
    rows = sum(counts)
    for step in range(9):
        qkv = randn(rows, (group + 2) * kv_heads, width, seed=seed + 1000 + step)
        for cache in (ours, theirs):
            cache.advance()
        close(ours.attend(0, qkv), theirs.attend(0, qkv), 1e-5)
        ended = torch.tensor(data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows)))
        if ended.any() and not ended.all():
            orders = [cache.drop(ended) for cache in (ours, theirs)]
            assert torch.equal(*orders)
            rows = len(orders[0])


@compiled
@given(
    rows=st.integers(1, 20),
    vocabulary=st.sampled_from([1, 2, 17, 322, 2000]),
    temperature=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    seed=seeds,
)
@settings(deadline=None)
def test_draws(rows: int, vocabulary: int, temperature: float, seed: int) -> None:
    padded = randn(rows, vocabulary + 3, seed=seed, scale=4.0)
    logits = padded[:, :vocabulary]  # rows are apart, as those of a projection whose panels are not full
    logits[:, ::3] = -torch.inf if vocabulary > 2 else 0.0
    uniform = torch.rand(rows, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    token, logp = draw(logits, uniform, temperature=temperature)
    exact = (logits.double() / (temperature or 1)).log_softmax(-1)
    torch.testing.assert_close(logp.double(), exact.gather(-1, token[:, None])[:, 0], atol=1e-5, rtol=1e-5)
    assert logp.isfinite().all()
    if temperature == 0:
        assert torch.equal(token, logits.argmax(-1))
    else:  # the uniform number lies in the token's part of the unit interval
        upper = exact.exp().cumsum(-1).gather(-1, token[:, None])[:, 0]
        assert (uniform <= upper + 1e-6).all()
        assert (uniform >= upper - logp.double().exp() - 1e-6).all()
