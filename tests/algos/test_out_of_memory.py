"""When memory runs out, the same gradient is computed in smaller pieces, once; then the error says the sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bandit
import pytest
import torch
from learner_fixtures import tiny_base, tiny_rows

from agents.adapter_files import AdapterSpec
from algos.errors import OutOfMemory
from algos.learner import LocalLearner
from algos.learning.memory import is_out_of_memory
from algos.learning.optim import OptimConfig
from algos.learning.values import Critic
from algos.training.run import Run
from algos.types import Batch, ValueRow

TORCH_SAYS = "[enforce fail at alloc_cpu.cpp:121] data. DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."


def test_what_counts_as_running_out_of_memory() -> None:
    assert all(map(is_out_of_memory, (MemoryError(), torch.OutOfMemoryError("CUDA out of memory"), RuntimeError(TORCH_SAYS))))
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def failing_above(monkeypatch: pytest.MonkeyPatch, learner: LocalLearner, tokens: int) -> None:
    """Let there be memory for micro-batches of so many tokens only."""
    micro_batches = learner._micro_batches

    def tight(rows: Any) -> Iterator[Any]:
        for piece in micro_batches(rows):
            yield piece  # some of the work is done when memory runs out
            if learner.budget.tokens > tokens:
                raise RuntimeError(TORCH_SAYS)

    monkeypatch.setattr(learner, "_micro_batches", tight)


def of_policy(learner: LocalLearner, policy: Any, _: Critic) -> None:
    learner.forward_backward(policy, Batch(tuple(tiny_rows(9))))


def of_critic(_: LocalLearner, __: Any, critic: Critic) -> None:
    critic.forward_backward(
        [ValueRow(r.prompt_ids, r.completion_ids, r.old_logprobs, r.old_logprobs[::-1]) for r in tiny_rows(9)]
    )


def scores(learner: LocalLearner, policy: Any, _: Critic) -> Any:
    return [*learner.logprobs(policy, tiny_rows(9)), *learner.logprobs(None, tiny_rows(9))]


def values(_: LocalLearner, __: Any, critic: Critic) -> Any:
    rows = tiny_rows(9)
    return critic.values([r.prompt_ids for r in rows], [r.completion_ids for r in rows], after=[True, False, True] * 3)


WORK: list[tuple[Callable[..., Any], str]] = [
    (of_policy, "an update of 'alice'"),
    (of_critic, "an update of 'alice-value'"),
    (scores, "scoring under 'alice'"),
    (values, "valuing with 'alice-value'"),
]


def with_critic(tokens: int) -> tuple[LocalLearner, Any, Critic]:
    base, alice = tiny_base("alice")
    learner = LocalLearner(base, optim=OptimConfig(token_budget=tokens))
    critic = Critic(learner, alice, spec=AdapterSpec(rank=2), seed=0)
    with torch.no_grad():
        critic.head_D.fill_(0.1)
    return learner, alice, critic


@pytest.mark.parametrize(("work", "what"), WORK, ids=[work.__name__ for work, _ in WORK])
def test_whatever_goes_through_rows_is_done_in_smaller_pieces_with_the_same_result(
    monkeypatch: pytest.MonkeyPatch, work: Callable[..., Any], what: str
) -> None:
    found = []
    for tight in (False, True):
        learner, alice, critic = with_critic(40)
        if tight:
            failing_above(monkeypatch, learner, 20)
        done = work(learner, alice, critic)
        grown = [each.grad for each in (*alice.parameters(), *critic.parameters()) if each.grad is not None]
        found.append((done, grown))
    assert learner.budget.tokens == 20
    (done, grown), (again, grown_again) = found
    assert len(grown) == len(grown_again)
    for one, other in zip(grown, grown_again, strict=True):
        torch.testing.assert_close(one, other)
    for one, other in zip(done or (), again or (), strict=True):
        assert other == pytest.approx(one, abs=1e-5)
    assert grown or done


@pytest.mark.parametrize(("work", "what"), WORK, ids=[work.__name__ for work, _ in WORK])
def test_what_does_not_fit_in_half_the_size_either_is_told_with_its_sizes(
    monkeypatch: pytest.MonkeyPatch, work: Callable[..., Any], what: str
) -> None:
    learner, alice, critic = with_critic(64)
    failing_above(monkeypatch, learner, 8)
    with pytest.raises(OutOfMemory, match=rf"{what} does not fit .* of 32 tokens: 9 rows, the longest of \d+ tokens"):
        work(learner, alice, critic)
    assert all(each.grad is None for each in (*alice.parameters(), *critic.parameters()))


def test_a_gradient_that_was_begun_is_not_mixed_with_a_second_try(monkeypatch: pytest.MonkeyPatch) -> None:
    base, alice = tiny_base("alice")
    learner = LocalLearner(base, optim=OptimConfig(token_budget=40))
    learner.forward_backward(alice, Batch(tuple(tiny_rows(3))))
    failing_above(monkeypatch, learner, 20)
    with pytest.raises(OutOfMemory, match=r"of 40 tokens: 3 rows.*not enough memory"):
        learner.forward_backward(alice, Batch(tuple(tiny_rows(3, seed=1))))
    assert all(parameter.grad is None for parameter in alice.parameters())


def test_a_critics_gradient_that_was_begun_is_not_mixed_with_a_second_try(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, alice, critic = with_critic(40)
    of_critic(learner, alice, critic)
    failing_above(monkeypatch, learner, 20)
    with pytest.raises(OutOfMemory, match=r"of 40 tokens: 9 rows.*not enough memory"):
        of_critic(learner, alice, critic)
    assert all(parameter.grad is None for parameter in critic.parameters())


def test_policies_on_one_base_share_the_size_and_it_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = bandit.save_model(tmp_path)
    with bandit.registered():
        run = Run.of(bandit.config(model, "competitive_grpo", env="tests/Bandit-v0"))
        failing_above(monkeypatch, run.learners["alice"], 1024)
        for _ in range(2):
            run.advance()
    assert [event.kind for event in run.guards.drain()] == ["out_of_memory"]


def test_a_run_says_so_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = bandit.save_model(tmp_path)
    with bandit.registered():
        runs = [Run.of(bandit.config(model, "grpo", env="tests/Alone-v0")) for _ in range(2)]
        expected, _ = runs[0].advance()
        failing_above(monkeypatch, runs[1].learners["alice"], 1024)
        sample = runs[1].engine.sample_many

        def few_rows(requests: Any) -> Any:
            if (runs[1].engine.max_rows or sum(len(request.prompts) for request in requests)) > 32:
                raise MemoryError
            return sample(requests)

        monkeypatch.setattr(runs[1].engine, "sample_many", few_rows)
        stats, _ = runs[1].advance()
    assert stats["alice/reward"] == expected["alice/reward"]
    assert stats["alice/grad_norm"] == pytest.approx(expected["alice/grad_norm"], rel=1e-4)
    assert [event.kind for event in runs[1].guards.drain()] == ["out_of_memory"] * 2
