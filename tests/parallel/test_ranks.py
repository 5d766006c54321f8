"""Two gloo ranks learn what one process learns, however unequal their shares are."""

import math
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[1] / "algos"))
from learner_fixtures import tiny_base, tiny_rows

from agents.adapter_files import AdapterSpec
from agents.policy import LLMPolicy
from algos.learner import LocalLearner
from algos.learning.batching import tokens_of
from algos.learning.optim import OptimConfig, UnsoundUpdate
from algos.learning.update import update_policy
from algos.learning.values import Critic, update_critic
from algos.losses import LossConfig
from algos.parallel.launch import launch
from algos.parallel.ranked import RankedCritic, RankedLearner
from algos.parallel.ranks import Ranks
from algos.types import Batch, Row, ValueRow

FAULTS = ("loss", "gradient")
LOSSES = {
    **{name: LossConfig(loss_type=name, max_tokens=16) for name in ("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "gspo")},
    "with a KL term": LossConfig(kl_coef=0.1),
}
OPTIM = OptimConfig(learning_rate=1e-3, token_budget=16)
BUDGETS = {"every row alone": 1, "some micro-batches": 40, "one micro-batch": 1000}
"""Name → most tokens of a micro-batch. Of one, one rank has nothing to do."""
BATCH_SIZES = (5, 1, 7, 0, 3)
"""Rows of the batches in turn. Of one row, one rank has nothing to do; of none, nobody has, and nothing moves."""


def learn(
    ranks: Ranks | None, loss: LossConfig, *, optim: OptimConfig = OPTIM, steps: int = 20
) -> tuple[list[torch.Tensor], list[dict[str, float]]]:
    """Return the weights after some steps, and the statistics of all of them."""
    base, alice = tiny_base("alice")
    options: dict[str, Any] = {"loss": loss, "optim": optim}
    learner = LocalLearner(base, **options) if ranks is None else RankedLearner(base, ranks=ranks, **options)
    stats = []
    for step in range(steps):
        rows = tuple(tiny_rows(BATCH_SIZES[step % len(BATCH_SIZES)], seed=step, longest=12))
        if step % 2:
            stats.append(learner.forward_backward(alice, Batch(rows)))
        else:  # what is accumulated over several calls is added up once
            stats += [learner.forward_backward(alice, Batch(part, normalizer=9.0)) for part in (rows[:2], rows[2:])]
        stats.append(learner.optim_step(alice))
    scored = learner.logprobs(alice, tiny_rows(6))
    return [parameter.detach() for parameter in alice.parameters()], [*stats, {str(i): p[0] for i, p in enumerate(scored)}]


def learn_values(ranks: Ranks | None) -> tuple[list[torch.Tensor], list[dict[str, float]]]:
    """Return the weights of a critic after some steps, and its statistics."""
    base, alice = tiny_base("alice")
    learner = LocalLearner(base, optim=OPTIM) if ranks is None else RankedLearner(base, ranks=ranks, optim=OPTIM)
    make = Critic if ranks is None else RankedCritic
    critic = make(learner, alice, spec=AdapterSpec(2, 2), seed=5)  # type: ignore[arg-type]
    stats = []
    for step in range(5):
        rows = tiny_rows(3 + step, seed=step)
        values = critic.values([r.prompt_ids for r in rows], [r.completion_ids for r in rows], after=[False] * len(rows))
        learnt = [ValueRow(r.prompt_ids, r.completion_ids, v, r.old_logprobs) for r, v in zip(rows, values, strict=True)]
        stats += [critic.forward_backward(learnt), critic.optim_step()]
    return [parameter.detach() for parameter in critic.parameters()], stats


class Noted:
    """A watch that takes note of the updates that are left out."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def check_sampler(self, policy: LLMPolicy, rows: Sequence[Row], *, mismatch: float | None, temperature: float) -> None:
        pass

    def skipped(self, policy: LLMPolicy, batch: Batch, error: UnsoundUpdate) -> None:
        self.errors.append(str(error))

    def critic_skipped(self, critic: Critic, rows: Sequence[ValueRow], error: UnsoundUpdate) -> None:
        self.errors.append(str(error))


def leave_out(ranks: Ranks | None, fault: str) -> tuple[list[torch.Tensor], list[dict[str, Any]]]:
    """Return the weights of a policy and its critic after three updates of each, of which the second has a fault."""
    base, alice = tiny_base("alice")
    learner = LocalLearner(base, optim=OPTIM) if ranks is None else RankedLearner(base, ranks=ranks, optim=OPTIM)
    make = Critic if ranks is None else RankedCritic
    critic = make(learner, alice, spec=AdapterSpec(2, 2), seed=5)  # type: ignore[arg-type]
    trained = [*alice.parameters(), *critic.parameters()]
    stats: list[dict[str, Any]] = []
    for step in range(3):
        rows, watch, hooks = tiny_rows(8, seed=step, longest=12), Noted(), []
        returns = [tuple(0.1 * place for place, _ in enumerate(row.completion_ids)) for row in rows]
        if step == 1 and fault == "loss":  # of one row, which one rank has
            rows[3], returns[3] = replace(rows[3], advantage=math.nan), (math.nan,) * len(returns[3])
        if step == 1 and fault == "gradient" and (ranks is None or ranks.number == 1):
            of_each = alice.parameters()[0], critic.parameters()[0]
            hooks = [parameter.register_hook(lambda gradient: gradient * math.inf) for parameter in of_each]
        value_rows = [
            ValueRow(row.prompt_ids, row.completion_ids, (0.0,) * len(row.completion_ids), wanted)
            for row, wanted in zip(rows, returns, strict=True)
        ]
        before = [parameter.detach().clone() for parameter in trained]
        found = update_policy(learner, alice, rows, temperature=1.0, seed=(step,), watch=watch)
        found |= update_critic(critic, value_rows, seed=(step,), watch=watch)
        for hook in hooks:
            hook.remove()
        moved = any(not torch.equal(one, other) for one, other in zip(before, trained, strict=True))
        stats.append({**found, "errors": watch.errors, "moved": moved})
    return [parameter.detach() for parameter in trained], stats


def fail(ranks: Ranks) -> str:
    """Return what is raised where only the other rank's rows can't be computed."""
    base, alice = tiny_base("alice")
    good, bad = tiny_rows(2)
    rows = (good, type(bad)((99,), (1, 2), (-1.0,), 1.0))
    try:
        RankedLearner(base, ranks=ranks).forward_backward(alice, Batch(rows))
    except ValueError as error:
        assert all(parameter.grad is None for parameter in alice.parameters())
        return str(error)
    return "nothing"


def everything() -> dict[str, Any]:
    """Run on each rank; numbers cross as lists."""
    ranks, reduced = Ranks.current(), []
    all_reduce = dist.all_reduce
    dist.all_reduce = lambda tensor, *args, **kwargs: (reduced.append(tensor.numel()), all_reduce(tensor, *args, **kwargs))[1]
    found: dict[str, Any] = {name: learn(ranks, loss) for name, loss in LOSSES.items()}
    per_step = sorted(set(reduced)), len(reduced) / 20 / len(LOSSES)
    found["critic"] = learn_values(ranks)
    for name, budget in BUDGETS.items():
        with warnings.catch_warnings(record=True, action="always") as caught:
            found[name] = learn(ranks, LOSSES["grpo"], optim=replace(OPTIM, token_budget=budget))
    found |= {fault: leave_out(ranks, fault) for fault in FAULTS}
    weights = {name: [tensor.tolist() for tensor in tensors] for name, (tensors, _) in found.items()}
    stats = {name: stats for name, (_, stats) in found.items()}
    left_out = {fault: ranks.gather(stats.pop(fault)) for fault in FAULTS}
    return {
        "weights": ranks.gather(weights),
        "stats": stats,
        "reduced": per_step,
        "left_out": left_out,
        "warnings": [str(warning.message) for warning in caught],
        "failed": ranks.gather(fail(ranks)),
        "any": (ranks.any(ranks.number == 1), ranks.any(False)),
        "of_first": ranks.gather(ranks.of_first(ranks.number)),
    }


@pytest.fixture(scope="module")
def two_ranks() -> dict[str, Any]:
    return launch(everything, ranks=2)


@pytest.mark.parametrize("name", [*LOSSES, *BUDGETS, "critic"])
def test_two_ranks_learn_what_one_process_learns(two_ranks: dict[str, Any], name: str) -> None:
    optim = replace(OPTIM, token_budget=BUDGETS.get(name, OPTIM.token_budget))
    weights, stats = learn_values(None) if name == "critic" else learn(None, LOSSES.get(name, LOSSES["grpo"]), optim=optim)
    first, second = two_ranks["weights"]
    assert first[name] == second[name]  # nothing keeps them equal but that
    assert [tensor.tolist() for tensor in weights] == first[name]
    for mine, other in zip(stats, two_ranks["stats"][name], strict=True):
        assert other == pytest.approx(mine, rel=1e-4, abs=1e-5)


def learn_ranked() -> list[list[Any]]:
    weights, _ = learn(Ranks.current(), LOSSES["grpo"])
    return [tensor.tolist() for tensor in weights]


@pytest.mark.slow
def test_three_ranks_learn_it_too() -> None:
    weights, _ = learn(None, LOSSES["grpo"])
    assert launch(learn_ranked, ranks=3) == [tensor.tolist() for tensor in weights]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_on_one_rank_has_all_of_them_leave_the_update_out(two_ranks: dict[str, Any], fault: str) -> None:
    weights, alone = leave_out(None, fault)
    first, second = two_ranks["weights"]
    assert [tensor.tolist() for tensor in weights] == first[fault] == second[fault]
    for stats in (alone, *two_ranks["left_out"][fault]):
        assert [step["moved"] for step in stats] == [True, False, True]
        assert [(step.get("skipped"), step.get("value_skipped")) for step in stats] == [(None, None), (1, 1), (None, None)]
        assert [len(step["errors"]) for step in stats] == [0, 2, 0]
        assert all(fault in error for error in stats[1]["errors"])


def test_every_rank_makes_its_share_of_the_same_micro_batches() -> None:
    """Also one that has no memory for them: it makes smaller ones of the same rows."""
    base, _ = tiny_base("alice")
    rows = tiny_rows(40, longest=30)
    optim = OptimConfig(token_budget=100)
    learners = [RankedLearner(base, ranks=Ranks(number, 3), optim=optim) for number in range(3)]
    shares = [[index for piece in learner._cut(rows, 100) for index in piece] for learner in learners]
    assert sorted(index for share in shares for index in share) == list(range(40))
    loads = [tokens_of([rows[index] for index in share]) for share in shares]
    assert max(loads) <= sum(loads) / 3 + 100
    smaller = learners[0]._cut(rows, 10)
    assert len(smaller) > len(learners[0]._cut(rows, 100))
    assert sorted(index for piece in smaller for index in piece) == sorted(shares[0])


def test_ranks_that_wait_are_told_of_once(two_ranks: dict[str, Any]) -> None:
    (warning,) = two_ranks["warnings"]
    assert "micro-batches for only 1 of 2 ranks in an update of alice" in warning
    assert "optim.token_budget below 1000" in warning


def test_one_all_reduce_of_an_adapter_per_step(two_ranks: dict[str, Any]) -> None:
    base, _ = tiny_base("alice")
    assert two_ranks["reduced"] == ([base.adapters.count("alice") + 1], 1.0)


def test_an_error_of_one_rank_is_raised_on_all(two_ranks: dict[str, Any]) -> None:
    assert two_ranks["failed"][0] == two_ranks["failed"][1]
    assert "completion tokens but 1 old_logprobs" in two_ranks["failed"][0]


def test_ranks_agree(two_ranks: dict[str, Any]) -> None:
    assert two_ranks["any"] == (True, False)
    assert two_ranks["of_first"] == [0, 0]
