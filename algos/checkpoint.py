"""Checkpoints: what a run needs to go on, complete or absent.

Everything random in a run follows from its seed and its step, so a checkpoint holds no random state: the
step, the adapters, the optimisers, the critics, the snapshots that opponents are drawn from, the win rates, what the
algorithm keeps and the evaluation of the untrained policies are all there is.

    checkpoint/step-20/state.json  snapshots.safetensors
                       alice/adapter_model.safetensors …  alice/optimizer.safetensors  alice/critic/
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
    from algos.run import Run

SNAPSHOTS = "snapshots.safetensors"
CRITIC = "critic"


def save_checkpoint(run: Run, folder: Path) -> None:
    """Save `run` below `folder`; older checkpoints go when the new one is complete. Of several ranks the first one saves."""
    if not run.ranks.first:
        return
    parent = folder / "checkpoint"
    if (parent / f"step-{run.step}").exists():  # of a run that was resumed and has done nothing since
        return
    final, aside = parent / f"step-{run.step}", parent / f"step-{run.step}.partial"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    for name, policy in run.policies.items():
        run.learners[name].save(policy, aside / name)
        save_file(run.learners[name].state_dict(policy), aside / name / "optimizer.safetensors")
    for name, critic in run.critics.items():
        critic.save(aside / name / CRITIC)
    if run.opponents is not None and (snapshots := run.opponents.state()):
        save_file(snapshots, aside / SNAPSHOTS)
    state = {
        "step": run.step,
        "tokens": run.tokens,
        "before": run.before,
        "algorithm": run.algorithm.state(),
        "win_rates": run.rates.state(),
    }
    write_json(aside / "state.json", state)
    _sync(aside)
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
    newest = newest_checkpoint(folder)
    if newest is None:
        return
    state = json.loads((newest / "state.json").read_text(encoding="utf-8"))
    missing = [name for name in run.policies if not (newest / name).is_dir()]
    if missing:
        raise CheckpointError(f"{newest} holds no policy {missing[0]!r}; it was saved by a run with other policies")
    for name, policy in run.policies.items():
        policy.base.load_adapter(name, newest / name)
        run.learners[name].load_state_dict(policy, load_file(newest / name / "optimizer.safetensors"))
    for name, critic in run.critics.items():
        critic.load(newest / name / CRITIC)
    if run.opponents is not None and (newest / SNAPSHOTS).exists():
        run.opponents.restore(load_file(newest / SNAPSHOTS))
    run.rates.restore(state["win_rates"])
    run.algorithm.restore(state["algorithm"])
    run.step, run.tokens, run.before = state["step"], state["tokens"], state["before"]


def newest_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint below a run folder, None if there is none."""
    complete = [path for path in (folder / "checkpoint").glob("step-*") if path.suffix != ".partial"]
    return max(complete, key=lambda path: int(path.name.removeprefix("step-")), default=None)


def _sync(folder: Path) -> None:
    """Make sure that what was renamed into a folder survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
