"""Products with frozen weights against torch's own."""

import pytest
import torch

from agents import products
from agents.products import frozen_linear, product


def matrices(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(5, 16, dtype=dtype), torch.randn(7, 16, dtype=dtype), torch.randn(7, dtype=dtype)


@pytest.fixture(params=[True, False], ids=["onednn", "torch"], autouse=True)
def routine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param and not products._HAS_ONEDNN:
        pytest.skip("this torch has no oneDNN")
    monkeypatch.setattr(products, "_HAS_ONEDNN", request.param)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_product_of_plain_transposed_and_empty_matrices(dtype: torch.dtype) -> None:
    x, weight, bias = matrices(dtype)
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype != torch.bfloat16 else {"rtol": 0.05, "atol": 0.1}
    torch.testing.assert_close(product(x, weight, bias), x @ weight.T + bias, **close)
    torch.testing.assert_close(product(x[:, :7], weight.T), x[:, :7] @ weight, **close)
    torch.testing.assert_close(product(x.T, weight.T[:, :5]), x.T @ weight.T[:, :5].T, **close)
    torch.testing.assert_close(product(x[:, ::2], weight[:, 1::2]), x[:, ::2] @ weight[:, 1::2].T, **close)
    assert product(x[:0], weight, bias).shape == (0, 7)


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("shape", [(5, 16), (2, 3, 16)])
def test_frozen_linear_equals_a_linear_layer(with_bias: bool, shape: tuple[int, ...]) -> None:
    _, weight, bias = matrices()
    x = torch.randn(shape, requires_grad=True)
    out = frozen_linear(x, weight, bias if with_bias else None)
    plain = torch.nn.functional.linear(x, weight, bias if with_bias else None)
    torch.testing.assert_close(out, plain, rtol=1e-4, atol=1e-4)
    upstream = torch.randn_like(out)
    ours, theirs = (torch.autograd.grad((y * upstream).sum(), x)[0] for y in (out, plain))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(frozen_linear(x, weight, bias if with_bias else None), plain, rtol=1e-4, atol=1e-4)


def test_nothing_is_kept_where_no_gradient_is_wanted() -> None:
    x, weight, bias = matrices()
    assert not frozen_linear(x, weight, bias).requires_grad
