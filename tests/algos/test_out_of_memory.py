"""When memory runs out, the same gradient is computed in smaller pieces, once; then the error says the sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bandit
import pytest
import torch
from learner_fixtures import tiny_base, tiny_rows

from algos.errors import OutOfMemory
from algos.learner import LocalLearner
from algos.memory import is_out_of_memory
from algos.optim import OptimConfig
from algos.run import Run
from algos.types import Batch

TORCH_SAYS = "[enforce fail at alloc_cpu.cpp:121] data. DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."


def test_what_counts_as_running_out_of_memory() -> None:
    assert all(map(is_out_of_memory, (MemoryError(), torch.OutOfMemoryError("CUDA out of memory"), RuntimeError(TORCH_SAYS))))
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def failing_above(monkeypatch: pytest.MonkeyPatch, learner: LocalLearner, tokens: int) -> None:
    """Let there be memory for micro-batches of so many tokens only."""
    accumulate = learner._accumulate

    def tight(*args: Any) -> Any:
        if learner.token_budget > tokens:
            accumulate(*args)  # some of the gradient is there when memory runs out
            raise RuntimeError(TORCH_SAYS)
        return accumulate(*args)

    monkeypatch.setattr(learner, "_accumulate", tight)


def gradients(policy: Any) -> list[torch.Tensor]:
    return [parameter.grad.clone() for parameter in policy.parameters()]


def test_the_gradient_is_the_same_in_smaller_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    base, alice = tiny_base("alice")
    batch = Batch(tuple(tiny_rows(9)))
    learner = LocalLearner(base, optim=OptimConfig(token_budget=40))
    learner.forward_backward(alice, batch)
    expected = gradients(alice)
    learner.drop_gradient(alice)
    failing_above(monkeypatch, learner, 20)
    stats = learner.forward_backward(alice, batch)
    assert learner.token_budget == 20
    assert stats["rows"] == 9
    for one, other in zip(gradients(alice), expected, strict=True):
        torch.testing.assert_close(one, other)


def test_it_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    base, alice = tiny_base("alice")
    learner = LocalLearner(base, optim=OptimConfig(token_budget=64))
    failing_above(monkeypatch, learner, 8)
    with pytest.raises(
        OutOfMemory, match=r"micro-batches of 32 tokens: 9 rows, the longest of \d+ tokens.*Set optim.recompute"
    ):
        learner.forward_backward(alice, Batch(tuple(tiny_rows(9))))
    assert all(parameter.grad is None for parameter in alice.parameters())


def test_a_gradient_that_was_begun_is_not_mixed_with_a_second_try(monkeypatch: pytest.MonkeyPatch) -> None:
    base, alice = tiny_base("alice")
    learner = LocalLearner(base, optim=OptimConfig(token_budget=40))
    learner.forward_backward(alice, Batch(tuple(tiny_rows(3))))
    failing_above(monkeypatch, learner, 20)
    with pytest.raises(RuntimeError, match="not enough memory"):
        learner.forward_backward(alice, Batch(tuple(tiny_rows(3, seed=1))))


def test_a_run_says_so_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = bandit.save_model(tmp_path)
    with bandit.registered():
        runs = [Run.of(bandit.config(model, "grpo", env="tests/Alone-v0")) for _ in range(2)]
        expected, _ = runs[0].advance()
        failing_above(monkeypatch, runs[1].learners["alice"], 1024)
        sample = runs[1].engine.sample

        def few_rows(policy: Any, prompts: Any, params: Any, *, seeds: Any) -> Any:
            if (runs[1].engine.max_rows or len(prompts)) > 32:
                raise MemoryError
            return sample(policy, prompts, params, seeds=seeds)

        monkeypatch.setattr(runs[1].engine, "sample", few_rows)
        stats, _ = runs[1].advance()
    assert stats["alice/reward"] == expected["alice/reward"]
    assert stats["alice/grad_norm"] == pytest.approx(expected["alice/grad_norm"], rel=1e-4)
    assert [event.kind for event in runs[1].guards.drain()] == ["out_of_memory"] * 2
