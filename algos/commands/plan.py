"""`agon plan`."""

from __future__ import annotations

from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text
from transformers import AutoConfig

from agents import embedded
from agents.loading import EMBEDDED, SMOLLM2, smollm2_path
from agents.shared_base import SharedBase
from agon_env.printable import printable
from algos.commands import DONE
from algos.commands.flags import Count
from algos.errors import ConfigError
from algos.planning.calibrate import calibrate, shape_of
from algos.planning.cost_model import Cost, Workload, estimate
from algos.planning.hardware import HARDWARE, SHAPES, Shape

WORKLOAD = Workload()
HERE = "here"


def command(
    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")],
    hardware: str = "h100",
    devices: Count = 1,
    work: Annotated[Workload, tyro.conf.arg(name="")] = WORKLOAD,
) -> int:
    """Say what a training step costs: tokens, FLOPs, memory, seconds.

    Args:
        model: a base: an id on the Hugging Face hub, a folder, "embedded" or "smollm2-135m".
        hardware: a100, h100, h200; or "here": this machine, whose rates are measured in a few seconds.
        devices: how many.
        work: the step.
    """
    if hardware == HERE:
        base = SharedBase.load(model)
        shape, device = shape_of(base.model.config), calibrate(base, rank=work.rank)
    elif hardware in HARDWARE:
        shape, device = SHAPES.get(model) or _shape_on_disk(model), HARDWARE[hardware]
    else:
        raise ConfigError(f'hardware must be {", ".join(HARDWARE)} or "{HERE}", not {hardware!r}')
    _print(estimate(shape, work, device, devices=devices), model=model, shape=shape, where=f"{devices} × {device.name}")
    return DONE


def _shape_on_disk(model: str) -> Shape:
    """Read a shape from the configuration of a model, without its weights."""
    folder = {EMBEDDED: embedded.path, SMOLLM2: smollm2_path}.get(model, lambda: model)()
    try:
        return shape_of(AutoConfig.from_pretrained(folder))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{model!r} is no model whose configuration can be read; without a network, take a folder, or one of "
            f"{', '.join(SHAPES)}"
        ) from error


def _print(cost: Cost, *, model: str, shape: Shape, where: str) -> None:
    rows = {
        "base": f"{model}, {shape.weights / 1e9:.2f} B weights",
        "on": where,
        "tokens of a step": f"{cost.sampled_tokens:,.0f} sampled, {cost.trained_tokens:,.0f} trained on",
        "FLOPs of a step": f"{cost.flops:.2e}",
        "seconds of a step": f"{cost.seconds:,.1f}: {cost.seconds_sampling:,.1f} sampling, {cost.seconds_training:,.1f} "
        f"learning, {cost.seconds_other:,.1f} other",
        "tokens per second": f"{cost.sampled_tokens / cost.seconds_sampling:,.0f} while sampling",
        "memory of a device": f"{cost.memory_sampling / 1e9:.1f} GB while sampling ({cost.rows_at_once} rows at once, caches "
        f"{cost.cache_bytes / 1e9:.1f} GB), {cost.memory_training / 1e9:.1f} GB while learning "
        f"(activations {cost.activation_bytes / 1e9:.1f} GB); base {cost.base_bytes / 1e9:.1f} GB, adapters with their "
        f"optimisers {cost.adapter_bytes / 1e9:.2f} GB",
        "travels in a step": f"{cost.pushed_bytes / 1e6:,.1f} MB of adapters to each sampler, {cost.reduced_bytes / 1e6:,.1f} "
        "MB of gradients from each rank",
    }
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, Text(printable(value)))
    for note in cost.notes:
        table.add_row("note", Text(printable(note)))
    Console().print(table)
