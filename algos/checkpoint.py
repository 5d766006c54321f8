"""Checkpoints: what a run needs to go on, complete or absent.

Everything random in a run follows from its seed and its step, so a checkpoint holds no random state: the
step, the adapters, the optimisers and the evaluation of the untrained policies are all there is.

    checkpoint/step-20/state.json
                       alice/adapter_model.safetensors …  alice/optimizer.safetensors
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors.torch import load_file, save_file

from algos.errors import CheckpointError
from algos.run_folder import write_json

if TYPE_CHECKING:
    from algos.trainer import Run


def save_checkpoint(run: Run, folder: Path) -> None:
    """Save `run` below `folder`; older checkpoints go when the new one is complete."""
    parent = folder / "checkpoint"
    final, aside = parent / f"step-{run.step}", parent / f"step-{run.step}.partial"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    for name, policy in run.policies.items():
        run.learner.save(policy, aside / name)
        save_file(run.learner.state_dict(policy), aside / name / "optimizer.safetensors")
    write_json(aside / "state.json", {"step": run.step, "before": run.before})
    _sync(aside)
    if final.exists():
        shutil.rmtree(final)
    os.replace(aside, final)
    _sync(parent)
    for other in parent.iterdir():
        if other != final:
            shutil.rmtree(other)


def load_checkpoint(run: Run, folder: Path) -> None:
    """Put `run` where the newest checkpoint below `folder` left it; where there is none it begins anew.

    Raises:
        CheckpointError: the checkpoint is not that of such a run.
    """
    complete = [path for path in (folder / "checkpoint").glob("step-*") if path.suffix != ".partial"]
    if not complete:
        return
    newest = max(complete, key=lambda path: int(path.name.removeprefix("step-")))
    state = json.loads((newest / "state.json").read_text(encoding="utf-8"))
    missing = [name for name in run.policies if not (newest / name).is_dir()]
    if missing:
        raise CheckpointError(f"{newest} holds no policy {missing[0]!r}; it was saved by a run with other policies")
    for name, policy in run.policies.items():
        run.base.load_adapter(name, newest / name)
        run.learner.load_state_dict(policy, load_file(newest / name / "optimizer.safetensors"))
    run.step, run.before = state["step"], state["before"]


def _sync(folder: Path) -> None:
    """Make sure that what was renamed into a folder survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
