"""The optimiser of one policy, and its learning rate."""

import pytest
import torch
from torch import nn

from algos.learning.optim import NonFiniteUpdate, OptimConfig, PolicyOptimizer, learning_rate


def rates(total, **options):
    config = OptimConfig(learning_rate=1.0, **options)
    return [learning_rate(step, config, total_steps=total) for step in range(total)]


def test_schedules_by_hand():
    assert rates(3) == [1, 1, 1]
    assert rates(5, warmup_steps=4) == [0.25, 0.5, 0.75, 1, 1]
    assert rates(4, schedule="linear") == [1, 0.75, 0.5, 0.25]
    assert rates(6, schedule="linear", warmup_steps=2) == [0.5, 1, 1, 0.75, 0.5, 0.25]
    assert rates(4, schedule="cosine") == pytest.approx([1, 0.8535534, 0.5, 0.1464466])


def test_after_the_end_a_decaying_rate_stays_at_zero():
    config = OptimConfig(schedule="cosine")
    assert learning_rate(10, config, total_steps=10) == learning_rate(99, config, total_steps=10) == 0


def test_decay_needs_an_end():
    assert learning_rate(7, OptimConfig(learning_rate=0.5)) == 0.5
    with pytest.raises(ValueError, match="total_steps"):
        learning_rate(0, OptimConfig(schedule="linear"))


@pytest.mark.parametrize(
    "bad",
    [
        {"learning_rate": -1},
        {"warmup_steps": -1},
        {"schedule": "step"},
        {"betas": (1.5, 0.9)},
        {"eps": -1.0},
        {"weight_decay": -0.1},
        {"max_grad_norm": 0},
        {"token_budget": 0},
        {"logit_chunk": 0},
    ],
)
def test_config_is_checked(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        OptimConfig(**bad)


def parameters(*gradients):
    made = {f"p{index}": nn.Parameter(torch.zeros(2)) for index in range(len(gradients))}
    for parameter, gradient in zip(made.values(), gradients, strict=True):
        parameter.grad = None if gradient is None else torch.tensor(gradient)
    return made


def test_gradient_is_clipped_over_all_parameters_and_the_norm_before_is_reported():
    ours, reference = parameters([3.0, 0.0], [0.0, 4.0]), parameters([0.6, 0.0], [0.0, 0.8])
    stats = PolicyOptimizer(ours, OptimConfig(learning_rate=0.1, eps=1.0)).step()
    torch.optim.AdamW(reference.values(), lr=0.1, eps=1.0, weight_decay=0).step()
    assert stats == {"grad_norm": pytest.approx(5.0), "learning_rate": 0.1}
    for name, parameter in reference.items():
        torch.testing.assert_close(ours[name], parameter)
    assert all(parameter.grad is None for parameter in ours.values())


def test_without_clipping():
    ours, reference = parameters([30.0, 0.0]), parameters([30.0, 0.0])
    PolicyOptimizer(ours, OptimConfig(learning_rate=0.1, eps=1.0, max_grad_norm=None)).step()
    torch.optim.AdamW(reference.values(), lr=0.1, eps=1.0, weight_decay=0).step()
    torch.testing.assert_close(ours["p0"], reference["p0"])


def test_several_backward_passes_are_added_up_in_any_order_and_layout():
    pieces = torch.randn(5, 3, 2, generator=torch.Generator().manual_seed(0))
    stepped = []
    for order in ([0, 1, 2, 3, 4], [3, 1, 4, 0, 2]):
        weight = nn.Parameter(torch.zeros(2, 3))
        optimizer = PolicyOptimizer({"weight": weight}, OptimConfig(learning_rate=0.1, max_grad_norm=None))
        with optimizer.accumulating() as collect:
            for index in order:
                weight.grad = pieces[index].t()  # as autograd may hand it out, with other strides than the parameter's
                collect()
        assert torch.equal(weight.grad, pieces.double().sum(0).t().float())
        optimizer.step()
        stepped.append(weight.detach())
    torch.testing.assert_close(stepped[0], -0.1 * pieces.sum(0).t().sign())
    assert torch.equal(*stepped)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_bad_gradient_steps_nothing(bad):
    ours = parameters([1.0, 2.0], [bad, 0.0])
    optimizer = PolicyOptimizer(ours, OptimConfig())
    with pytest.raises(NonFiniteUpdate, match="step was not taken"):
        optimizer.step()
    assert optimizer.steps == 0
    assert optimizer.state_dict().keys() == {"steps"}
    for parameter in ours.values():
        assert parameter.tolist() == [0, 0]
        assert parameter.grad is None


def test_step_without_gradient_moves_nothing_and_the_schedule_goes_on():
    ours = parameters([1.0, 1.0])
    optimizer = PolicyOptimizer(ours, OptimConfig(weight_decay=0.5, schedule="linear"), total_steps=4)
    optimizer.step()
    before, state = ours["p0"].clone(), optimizer.state_dict()
    stats = optimizer.step()
    assert stats == {"grad_norm": 0.0, "learning_rate": pytest.approx(0.75e-3)}
    assert torch.equal(ours["p0"], before)
    assert torch.equal(optimizer.state_dict()["exp_avg:p0"], state["exp_avg:p0"])
    assert optimizer.steps == 2


def test_state_is_a_copy_and_foreign_state_is_refused():
    ours = parameters([1.0, 1.0], [1.0, 2.0])
    optimizer = PolicyOptimizer(ours, OptimConfig())
    optimizer.step()
    state = optimizer.state_dict()
    kept = {name: value.clone() for name, value in state.items()}
    ours["p0"].grad = torch.ones(2)
    ours["p1"].grad = torch.ones(2)
    optimizer.step()
    assert all(torch.equal(state[name], value) for name, value in kept.items())
    after = optimizer.state_dict()
    broken = [
        {**state, "exp_avg:other": torch.zeros(2)},
        {**state, "exp_avg:p0": torch.zeros(3)},
        {name: value for name, value in state.items() if not name.endswith("p1")},
        {name: value for name, value in state.items() if name != "steps"},
    ]
    for bad in broken:
        with pytest.raises(ValueError, match="optimiser state"):
            optimizer.load_state_dict(bad)
    assert all(torch.equal(optimizer.state_dict()[name], value) for name, value in after.items())
