"""A run folder as training leaves it, without the training: two adapters on the embedded model, and a server of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from agents import SharedBase
from algos.config import TINY, TrainConfig
from algos.serving.app import ChatServer, Limits
from algos.serving.models import served_models
from algos.serving.server import background
from algos.training.run_folder import write_json
from algos.training.trained import load_trained

CONFIG = replace(TINY, name="run", max_tokens=24, env_options=("difficulty=2",))


def make_run(folder: Path, config: TrainConfig = CONFIG) -> Path:
    """Write a run folder with policies that differ from the base and from each other."""
    run = folder / config.name
    base = SharedBase.load("embedded", device="cpu")
    for seed, name in enumerate(config.make_algorithm().policies):
        policy = base.policy(name, rank=4)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
        policy.save(run / name)
    write_json(run / "config.json", config.to_dict())
    return run


@dataclass
class Running:
    """A server that answers."""

    url: str
    port: int
    chat: ChatServer


@contextlib.contextmanager
def serving(
    run: Path, *, limits: Limits | None = None, api_key: str | None = None, max_rows: int = 64, engine: Any = None
) -> Iterator[Running]:
    """Serve a run from a thread of this process, on a free port."""
    chat = ChatServer(
        served_models(load_trained(run, engine=engine)), limits=limits or Limits(), api_key=api_key, max_rows=max_rows
    )
    with background(chat) as url:
        yield Running(url, int(url.split(":")[2].split("/")[0]), chat)
