"""The compiled attention of packed rows against torch's own, value and gradient, on rows of every shape."""

import pytest
import torch
from learner_fixtures import tiny_base, tiny_rows
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from agents.kernels import library
from agents.kernels.attention import attend_runs
from algos.learner import LocalLearner
from algos.learning import packing
from algos.learning.packing import ATTENTION, pack_rows
from algos.types import Row

HEADS, WIDTH = 4, 16
pytestmark = pytest.mark.skipif(library.LIBRARY is None, reason="the kernels are not compiled here")


def rows_of(*shapes: tuple[int, int, int]) -> list[Row]:
    """Make rows: (tokens of the prompt, tokens of the completion, which prompt)."""
    return [
        Row(tuple(100 * which + token for token in range(prompt)), tuple(range(said)), (0.0,) * said, 1.0)
        for prompt, said, which in shapes
    ]


LAYOUTS = {
    "two groups, all of one length": rows_of(*[(5, 7, which) for which in (1, 1, 1, 2, 2, 2)]),
    "two groups, row by row": rows_of(*[(5, 7 + which, which) for which in (1, 2, 1, 2, 1)]),
    "completions of different lengths": rows_of((5, 7, 1), (5, 3, 1), (5, 6, 2), (5, 2, 2)),
    "prompts of different lengths": rows_of((5, 7, 1), (5, 7, 1), (9, 7, 2), (9, 7, 2)),
    "both, and a row alone": rows_of((4, 9, 1), (4, 2, 1), (11, 5, 2), (11, 6, 2), (7, 3, 3), (7, 12, 3), (6, 6, 4)),
    "nothing shared": rows_of((5, 7, 1), (3, 4, 2), (8, 2, 3)),
    "a single row": rows_of((6, 5, 1)),
    "long rows": rows_of((300, 40, 1), (300, 90, 1)),
    "rows of several blocks of keys": rows_of((600, 40, 1), (600, 530, 1), (20, 1025, 2)),
}


def attend_by_torch(qkv_SYW: torch.Tensor, layout: object, kv_heads: int) -> torch.Tensor:
    heads = qkv_SYW.shape[1] - 2 * kv_heads
    q, k, v = qkv_SYW[None].transpose(1, 2).split([heads, kv_heads, kv_heads], 1)
    return ALL_ATTENTION_FUNCTIONS[ATTENTION](torch.nn.Module(), q, k, v, None, packed_layout=layout, scaling=0.3)[0][0]


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("rows", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_value_and_gradient_are_those_of_torch(rows: list[Row], kv_heads: int) -> None:
    packed = pack_rows(rows, dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    qkv_SYW = torch.randn(packed.input_ids_1S.shape[1], HEADS + 2 * kv_heads, WIDTH, generator=generator, requires_grad=True)
    ours = attend_runs(qkv_SYW, packed.layout.runs, kv_heads=kv_heads, scale=0.3)
    theirs = attend_by_torch(qkv_SYW, packed.layout, kv_heads)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=2e-6)
    grad_SHW = torch.randn(ours.shape, generator=generator)
    (own,), (other,) = (torch.autograd.grad(mixed, qkv_SYW, grad_SHW) for mixed in (ours, theirs))
    assert other.abs().max() > 0.1
    torch.testing.assert_close(own, other, rtol=1e-5, atol=2e-5)


def test_a_fused_model_goes_this_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tests above would test what nobody uses."""
    calls = []
    real = packing.attend_runs
    monkeypatch.setattr(packing, "attend_runs", lambda *args, **options: calls.append(1) or real(*args, **options))
    base, _ = tiny_base("alice")
    learner, rows = LocalLearner(base), tiny_rows(4)
    calls.clear()
    learner.logprobs(None, rows)
    assert len(calls) == base.model.config.num_hidden_layers


@pytest.mark.parametrize(
    "more",
    [
        {"softcap": 30.0},
        {"sliding_window": 4},
        {"dropout": 0.1},
        {"attention_mask": torch.ones(1)},
        {"width": 8},
        {"half": True},
    ],
)
def test_what_it_does_not_know_is_left_to_torch(more: dict[str, object]) -> None:
    packed = pack_rows(LAYOUTS["nothing shared"], dtype=torch.float32)
    joint = ALL_ATTENTION_FUNCTIONS[ATTENTION].joint
    tokens = packed.input_ids_1S.shape[1]
    options = {"packed_layout": packed.layout, "kv_heads": HEADS, "scaling": 0.3, "dropout": 0.0}
    assert joint(torch.zeros(1, tokens, 3 * HEADS, WIDTH), **options) is not None
    x = torch.zeros(1, tokens, 3 * HEADS, more.get("width", WIDTH), dtype=torch.bfloat16 if more.get("half") else torch.float32)
    options |= {name: value for name, value in more.items() if name not in ("width", "half")}
    assert joint(x, **options) is None
