"""The cost model against what can be counted: weights, adapters, FLOPs; and its command."""

import dataclasses

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from agents.shared_base import SharedBase
from algos.commands import run
from algos.errors import ConfigError
from algos.planning.calibrate import calibrate, shape_of
from algos.planning.cost_model import Workload, estimate, forward_flops, update_flops
from algos.planning.hardware import HARDWARE, SHAPES

H100 = HARDWARE["h100"]
SHAPE = SHAPES["Qwen/Qwen3-1.7B"]


@pytest.fixture(scope="module")
def base() -> SharedBase:
    return SharedBase.load("embedded", device="cpu")


def test_weights_and_adapters_are_those_of_the_model(base: SharedBase) -> None:
    shape = shape_of(base.model.config)
    norms = sum(parameter.numel() for parameter in base.model.parameters() if parameter.dim() == 1)
    assert shape.weights == sum(parameter.numel() for parameter in base.model.parameters()) - norms
    base.policy("counted", rank=4)
    assert shape.adapter_weights(4) == base.adapters.count("counted")
    base.adapters.remove("counted")


@pytest.mark.parametrize(("name", "millions"), [("Qwen/Qwen3-1.7B", 34.9), ("Qwen/Qwen3-8B", 87.3)])
def test_adapters_of_known_bases(name: str, millions: float) -> None:
    assert SHAPES[name].adapter_weights(32) / 1e6 == pytest.approx(millions, abs=0.05)


def test_flops_of_a_forward_pass_are_those_that_torch_counts(base: SharedBase) -> None:
    ids = torch.zeros(2, 48, dtype=torch.long)
    base.model.set_attn_implementation("eager")  # torch does not count the fused kernel of a CPU
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            base.model(input_ids=ids, use_cache=False)
    finally:
        base.model.set_attn_implementation("sdpa")
    # Without the mask: to all 48 positions.
    assert forward_flops(shape_of(base.model.config), 96, 48, with_head=96) == counter.get_total_flops()


def test_flops_of_an_update() -> None:
    """Frozen weights take one product backward, adapters two; what is recomputed goes forward once more."""
    plain = update_flops(SHAPE, tokens=10, completions=0, context=0, rank=32, recompute=False)
    assert plain == 10 * (4 * SHAPE.block_weights + 6 * SHAPE.adapter_weights(32))
    again = update_flops(SHAPE, tokens=10, completions=0, context=0, rank=32, recompute=True)
    assert again - plain == 10 * 2 * SHAPE.block_weights
    scored = update_flops(SHAPE, tokens=10, completions=3, context=0, rank=32, recompute=False)
    assert scored - plain == 3 * 4 * SHAPE.head_weights


def test_tokens_of_a_step() -> None:
    work = Workload(problems=3, group_size=4, answers=2, prompt_tokens=10, draft_tokens=20, answer_tokens=30)
    assert (work.drafts, work.replies) == (12, 24)
    assert work.sampled == 12 * 20 + 24 * 30
    assert work.prefilled == 3 * 10 + 12 * (10 + 20)  # once for each problem, once for each draft
    assert work.trained == work.sampled + work.prefilled
    assert dataclasses.replace(work, distinct=0.5).prefilled == 3 * 10 + 6 * (10 + 20)  # answers to equal drafts share theirs


@pytest.mark.parametrize("field", ["learning", "distinct"])
def test_a_share_is_from_0_to_1(field: str) -> None:
    with pytest.raises(ConfigError, match=f"{field} is a share, from 0 to 1, not 1.5"):
        Workload(**{field: 1.5})


@pytest.mark.parametrize("field", ["problems", "draft_tokens", "answer_tokens"])
def test_a_step_without_rows_or_tokens_is_refused(field: str) -> None:
    with pytest.raises(ConfigError, match=f"{field} must be at least 1, not 0"):
        Workload(**{field: 0})


def test_devices_divide_the_learning_and_carry_gradients() -> None:
    one, eight = (estimate(SHAPE, Workload(), H100, devices=devices) for devices in (1, 8))
    assert eight.seconds_training == pytest.approx(one.seconds_training / 8, rel=0.1)
    assert eight.seconds_sampling > one.seconds_sampling / 8  # a step of decoding reads the weights however few the rows are
    assert one.reduced_bytes == 0
    assert eight.reduced_bytes == 2 * SHAPE.adapter_weights(32) * 4 * 2 * 7 / 8
    assert one.pushed_bytes == 2 * SHAPE.adapter_weights(32) * 2
    assert one.flops == eight.flops


@pytest.mark.parametrize(("budget", "devices", "part"), [(46_656, 8, 1 / 8), (46_656, 3, 3 / 8), (186_624, 8, 1 / 2)])
def test_ranks_wait_for_the_one_that_has_most_micro_batches(budget: int, devices: int, part: float) -> None:
    work = Workload(prompt_tokens=32, draft_tokens=960, answer_tokens=960, token_budget=budget)
    assert work.trained / work.policies == 8 * 46_656
    costs = [estimate(SHAPE, work, H100, devices=number) for number in (1, devices)]
    assert costs[1].seconds_training == pytest.approx(part * costs[0].seconds_training)


def test_memory_bounds_the_rows() -> None:
    long = dataclasses.replace(Workload(), draft_tokens=16_000, answer_tokens=16_000)
    cost = estimate(SHAPE, long, H100)
    assert cost.rows_at_once < 256
    assert cost.memory_sampling <= H100.memory
    assert any("caches fill the memory" in note for note in cost.notes)
    two = estimate(SHAPE, dataclasses.replace(long, copies=2), H100)
    assert two.rows_at_once < cost.rows_at_once


def test_a_base_that_does_not_fit_is_refused_or_divided() -> None:
    large = SHAPES["Qwen/Qwen3-32B"]
    with pytest.raises(ConfigError, match="can't hold the base"):
        estimate(large, Workload(), H100)
    divided = estimate(large, Workload(), H100, devices=8)
    assert divided.devices_per_replica == 2
    assert any("every rank of the learner here holds a whole one" in note for note in divided.notes)


def test_a_machine_is_measured_and_left_as_it_was(base: SharedBase) -> None:
    names, ends = base.adapters.names, base.eos_ids
    hardware = calibrate(base, rank=4, rows=(2, 16))
    assert (base.adapters.names, base.eos_ids) == (names, ends)
    assert 1e8 < hardware.train_flops < 1e13
    assert hardware.overhead < 0.1
    assert 0 < hardware.turn < 1


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", ["Qwen/Qwen3-8B", "--devices", "8", "--rank", "16"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "8 × H100 80 GB" in said
    assert "2,048,000 sampled" in said
    assert "174.6 MB of adapters" in said
    assert run("plan", ["embedded", "--hardware", "a100"]) == 0
    with pytest.raises(ConfigError, match='hardware must be a100, h100, h200 or "here"'):
        run("plan", ["embedded", "--hardware", "tpu"])
    with pytest.raises(ConfigError, match="no model whose configuration can be read"):
        run("plan", ["nobody/nothing"])
