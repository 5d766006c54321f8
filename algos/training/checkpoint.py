"""Checkpoints: what a run needs to go on, complete or absent.

Everything random in a run follows from its seed and its step, so a checkpoint holds no random state: the
step, the adapters, the optimisers with their places in the schedule, the critics, the snapshots that opponents are drawn
from, the win rates, what the algorithm and the guards keep, and the evaluation of the untrained policies are all there is.
The roles, the problems and the samples of a step follow from its number.

    checkpoint/step-20/manifest.json  state.json  snapshots.safetensors
                       alice/adapter_model.safetensors …  alice/optimizer.safetensors  alice/critic/

A checkpoint is written aside, sealed (`algos.training.manifest`) and renamed; only then do the ones that are not kept go.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from agents.errors import AdapterMismatch
from algos.errors import CheckpointError
from algos.training.manifest import MANIFEST, NewerFormat, seal, sync, verify
from algos.training.run_folder import write_json

if TYPE_CHECKING:
    from algos.training.run import Run

SNAPSHOTS = "snapshots.safetensors"
CRITIC = "critic"
PARTIAL = ".partial"
"""What the name of a checkpoint that is being written ends with."""

_STEP = re.compile(r"step-(\d{1,18})", re.ASCII)


def save_checkpoint(run: Run, folder: Path, *, logged: Mapping[str, int] | None = None, keep: int = 2) -> None:
    """Save `run` below `folder`.

    Args:
        run: what to save.
        folder: that of the run.
        logged: the size of each of its logs, see `RunFolder.sync`; None where nothing is logged.
        keep: how many checkpoints stay, the newest ones; the best one by held-out problems (`run.best`) stays as well.
    """
    parent = folder / "checkpoint"
    final = parent / f"step-{run.step}"
    if not _is_sound(final):  # else it is that of a run that was resumed and has done nothing since
        aside = final.with_name(final.name + PARTIAL)
        for left_over in (aside, final):
            _remove(left_over)
        aside.mkdir(parents=True)
        _write(run, aside, logged or {})
        seal(aside, version=version("agon-env"))
        os.replace(aside, final)
        sync(parent)
    done = [path for path in checkpoints(folder) if step_of(path) <= run.step]  # later ones are damaged and were passed over
    kept = {*done[-keep:], *(path for path in [best_checkpoint(run, folder)] if path is not None)}
    for other in parent.iterdir():
        if _STEP.fullmatch(other.name.removesuffix(PARTIAL)) and other not in kept:  # the rest is not ours
            _remove(other)


def load_checkpoint(run: Run, folder: Path, *, on_skip: Callable[[str], None] = warnings.warn) -> dict[str, int]:
    """Put `run` where the newest sound checkpoint below `folder` left it; where there is none it begins anew.

    Args:
        run: made of the same config.
        folder: that of the run.
        on_skip: told what is wrong with a checkpoint that is passed over for an older one.

    Returns:
        The sizes that the logs had when it was saved.

    Raises:
        CheckpointError: there are checkpoints and none of them is sound, a later version wrote the newest, or it is
            that of another kind of run.
    """
    broken = []
    for path in reversed(_folders(folder)):
        try:
            verify(path)
        except NewerFormat:
            raise
        except CheckpointError as error:
            broken.append(str(error))
            continue
        for reason in broken:
            on_skip(f"{reason}. Going on from {path.name} instead")
        return _restore(run, path)
    if broken:
        raise CheckpointError(
            f"no checkpoint of {folder} can be gone on from: {'; '.join(broken)}. Begin a new run, or delete the folder "
            "'checkpoint' in it to begin this one anew"
        )
    return {}


def checkpoints(folder: Path) -> list[Path]:
    """Return the complete checkpoints below a run folder, the oldest first. Whether they are sound is for `verify` to tell."""
    return [path for path in _folders(folder) if (path / MANIFEST).is_file()]


def newest_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint below a run folder, None if there is none."""
    return next(reversed(checkpoints(folder)), None)


def best_checkpoint(run: Run, folder: Path) -> Path | None:
    """Return the checkpoint that did best on held-out problems so far, None if there is none."""
    path = None if run.best is None else folder / "checkpoint" / f"step-{run.best['step']:.0f}"
    return path if path is not None and path.is_dir() else None


def step_of(checkpoint: Path) -> int:
    """Return after how many steps a checkpoint was saved."""
    return int(checkpoint.name.removeprefix("step-"))


def _folders(folder: Path) -> list[Path]:
    """Return what has the name of a checkpoint, the oldest first; one without a manifest was damaged, or is from elsewhere."""
    found = [path for path in (folder / "checkpoint").glob("step-*") if _STEP.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=step_of)


def _remove(path: Path) -> None:
    """Remove a checkpoint, or whatever lies in its place."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_sound(checkpoint: Path) -> bool:
    try:
        verify(checkpoint)
    except CheckpointError:
        return False
    return True


def _write(run: Run, folder: Path, logged: Mapping[str, int]) -> None:
    for name, policy in run.policies.items():
        run.learners[name].save(policy, folder / name)
        save_file(run.learners[name].state_dict(policy), folder / name / "optimizer.safetensors")
    for name, critic in run.critics.items():
        critic.save(folder / name / CRITIC)
    if run.opponents is not None and (snapshots := run.opponents.state()):
        save_file(snapshots, folder / SNAPSHOTS)
    state = {
        "step": run.step,
        "tokens": run.tokens,
        "before": run.before,
        "best": run.best,
        "algorithm": run.algorithm.state(),
        "win_rates": run.rates.state(),
        "guards": run.guards.state(),
        "logged": dict(logged),
    }
    write_json(folder / "state.json", state)


def _restore(run: Run, path: Path) -> dict[str, int]:
    if missing := [name for name in run.policies if not (path / name).is_dir()]:
        raise CheckpointError(f"{path} holds no policy {missing[0]!r}; it was saved by a run with other policies")
    try:
        state = _read_state(path)
        run.guards.restore(state["guards"])
        for name, policy in run.policies.items():
            policy.base.load_adapter(name, path / name)
            run.learners[name].load_state_dict(policy, load_file(path / name / "optimizer.safetensors"))
        for name, critic in run.critics.items():
            critic.load(path / name / CRITIC)
        if run.opponents is not None and (path / SNAPSHOTS).exists():
            run.opponents.restore(load_file(path / SNAPSHOTS))
        run.rates.restore(state["win_rates"])
        run.algorithm.restore(state["algorithm"])
        run.guards.loaded()
        run.step, run.tokens, run.before, run.best = (state[key] for key in ("step", "tokens", "before", "best"))
        return dict(state["logged"])
    except (
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        RecursionError,
        OSError,
        SafetensorError,
        AdapterMismatch,
    ) as error:
        raise CheckpointError(f"{path} is sound, but not the checkpoint of such a run: {error}") from error


def _read_state(path: Path) -> dict[str, Any]:
    """Return what `state.json` holds, if it can be that of its folder.

    Raises:
        ValueError: it can't.
    """
    state: dict[str, Any] = json.loads((path / "state.json").read_text(encoding="utf-8"))
    if state["step"] != step_of(path):
        raise ValueError(f"state.json speaks of step {state['step']!r}")
    best = state["best"]
    counts = [state["tokens"], *state["logged"].values(), *([] if best is None else [best["step"]])]
    if not all(isinstance(count, int | float) and count >= 0 for count in counts):
        raise ValueError("state.json holds a count that is none")
    if not isinstance(state["before"], dict | None):
        raise ValueError("state.json holds an evaluation that is none")
    return state
