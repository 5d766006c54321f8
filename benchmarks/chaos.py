"""Train while everything goes wrong, and compare with the run that nothing happened to.

    python benchmarks/chaos.py --minutes 10 --seed 0 --output docs/results/chaos.json

Kills (`kill -9`) come at random moments, and at random file operations in the run folder, checkpoints included. After each
the run goes on; in the end its adapters, metrics, contests and evaluations must be those of an uninterrupted run, byte for
byte. The other faults are a full disk, a folder that can't be written, a damaged file of each kind, and a clock that jumps.

Every attempt is a forked child of this process, which has imported torch and never used it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from measure import machine, publish
from rich.console import Console

from algos.config import TINY, TrainConfig
from algos.guards import GuardConfig
from algos.trainer import train
from algos.training.checkpoint import checkpoints
from algos.training.console import RunConsole

SMALL = replace(
    TINY,
    guards=GuardConfig(min_free_gb=0),
    steps=8,
    problems=2,
    group_size=4,
    max_tokens=48,
    eval_problems=6,
    eval_every=3,
    checkpoint_every=2,
    name="run",
)
"""A run of seconds, in which everything happens that happens in a long one."""
UNLIKE = ("time/", "memory/", "guards/checkpoint_skipped", "custom_scalars")
"""What differs from start to start: times, what was told of a damaged checkpoint, the layout at the head of an event file."""
FINISHED, SENTENCE, CRASHED = 0, 2, 1
"""How a child ends: the run is done; it was refused with an error of the library; anything else."""


@dataclass(frozen=True)
class Fault:
    """What happens to an attempt."""

    after_seconds: float | None = None
    """Kill it so long after its start."""
    at_operation: int | None = None
    """Kill it at this file operation in its folder, counted from 1."""
    clock_seed: int | None = None
    """Let its clock jump by up to a year, forth and back."""


# --- one attempt ------------------------------------------------------------------------------------


def attempt(config: TrainConfig, fault: Fault | None = None) -> tuple[int, str]:
    """Begin a run in a child, or go on with it, and let `fault` happen to it.

    Returns:
        How it ended (negative: the signal that killed it), and what it said last.
    """
    folder = Path(config.output_dir) / config.run_name()
    resume = folder if (folder / "config.json").exists() else None
    if resume is None:
        shutil.rmtree(folder, ignore_errors=True)  # killed before it had begun
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        child = os.fork()
        if not child:
            os._exit(_train_in_child(config, resume, fault, said.fileno()))
        if fault is not None and fault.after_seconds is not None:
            _wait(child, fault.after_seconds)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        said.seek(0)
        return os.waitstatus_to_exitcode(status), said.read()


def _train_in_child(config: TrainConfig, resume: Path | None, fault: Fault | None, output: int) -> int:
    from agon_env.errors import Error

    os.dup2(output, 1)
    os.dup2(output, 2)
    with open(output, "w", encoding="utf-8", closefd=False) as said:  # sys.stdout may be a test's, not this process's
        try:
            with _happening(fault, Path(config.output_dir)):
                train(config, resume=resume, console=RunConsole(Console(file=said)))
        except Error as error:
            print(f"SENTENCE: {error}", file=said)
            return SENTENCE
        except BaseException:
            traceback.print_exc(file=said)
            return CRASHED
    return FINISHED


@contextlib.contextmanager
def _happening(fault: Fault | None, folder: Path) -> Iterator[None]:
    if fault is not None and fault.at_operation is not None:
        _count_operations(folder, lambda number, _: number == fault.at_operation and os.kill(os.getpid(), signal.SIGKILL))
    if fault is not None and fault.clock_seed is not None:
        luck, now = random.Random(fault.clock_seed), time.time
        time.time = lambda: now() + luck.uniform(-3e7, 3e7)
    yield


def _count_operations(folder: Path, tell: Callable[[int, str], Any]) -> None:
    """Call `tell` with the number and the file of each operation below `folder`, before it is done. There is no way back."""
    seen, below = iter(range(1, 10**9)), os.fsencode(folder.resolve())

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate") and _is_below(args[0], below):
            tell(next(seen), os.fsdecode(args[0]))

    sys.addaudithook(hook)


def _is_below(path: object, folder: bytes) -> bool:
    return isinstance(path, str | bytes | os.PathLike) and os.fsencode(os.path.abspath(os.fsencode(path))).startswith(folder)


def _wait(child: int, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        time.sleep(0.01)


def operations(config: TrainConfig) -> tuple[list[int], list[int]]:
    """Return the numbers of all file operations of an uninterrupted run, and of those that are part of a checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        here, told = replace(config, output_dir=f"{folder}/runs"), Path(folder) / "operations"
        child = os.fork()
        if not child:
            found: list[str] = []
            _count_operations(Path(here.output_dir), lambda _, path: found.append(path))
            train(here, console=RunConsole(Console(quiet=True)))
            told.write_text(json.dumps(found), encoding="utf-8")
            os._exit(0)
        os.waitpid(child, 0)
        paths = json.loads(told.read_text(encoding="utf-8"))
    return list(range(1, 1 + len(paths))), [number for number, path in enumerate(paths, start=1) if "/checkpoint" in path]


# --- what a run comes to ----------------------------------------------------------------------------


def result(run: Path) -> dict[str, Any]:
    """Return everything that a run promises to be the same: times, memory and the log of starts are left out."""
    found: dict[str, Any] = {name: (run / name).read_bytes() for name in ("contests.jsonl", "summary.json")}
    for policy in ("alice", "bob"):
        found[policy] = (run / policy / "adapter_model.safetensors").read_bytes()
    newest = checkpoints(run)[-1]
    found |= {str(file.relative_to(newest)): file.read_bytes() for file in newest.rglob("*.safetensors")}
    state = json.loads((newest / "state.json").read_text(encoding="utf-8"))
    del state["logged"]  # sizes of files that hold times
    found["state"] = state
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").split("\n")
    found["metrics"] = [_timeless(json.loads(line)) for line in lines if line]
    found["TensorBoard"] = _logged(run)
    return found


def _timeless(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if not key.startswith(UNLIKE)}


def _logged(run: Path) -> list[tuple[Any, ...]]:
    """Return everything in the event files, as (tag, step, value), without anything that a viewer would do to it."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    found = [
        (value.tag, event.step, tuple(value.tensor.float_val) or tuple(value.tensor.string_val) or value.tensor.tensor_content)
        for file in sorted(run.glob("events.out.*"))
        for event in EventFileLoader(str(file)).Load()
        for value in event.summary.value
        if not value.tag.startswith(UNLIKE)
    ]
    return sorted(found)


def uninterrupted(config: TrainConfig, folder: Path) -> dict[str, Any]:
    """Return what a run comes to that nothing happens to."""
    config = replace(config, output_dir=str(folder / "whole"))
    code, said = attempt(config)
    assert code == FINISHED, said
    return result(folder / "whole" / config.run_name())


def compare(run: Path, expected: dict[str, Any]) -> list[str]:
    """Return what of a run differs from `uninterrupted`."""
    found = result(run)
    return [name for name in sorted(found.keys() | expected.keys()) if found.get(name) != expected.get(name)]


# --- the faults -------------------------------------------------------------------------------------


def kills(
    config: TrainConfig, folder: Path, expected: dict[str, Any], *, count: int, seed: int, until: float = float("inf")
) -> dict[str, Any]:
    """Kill runs at random moments, `count` times or until the time `until`; go on after each kill; compare what is finished.

    Returns:
        `kills`, how many came, `in_checkpoint`, how many of them left a half-written checkpoint, `runs`, how many
        were finished, `seconds`, and `faults`, what was wrong.
    """
    luck, (anywhere, in_checkpoints) = random.Random(seed), operations(config)
    start = time.monotonic()
    told: dict[str, Any] = {"kills": 0, "in_checkpoint": 0, "runs": 0, "faults": []}
    number, seconds = 0, 4.0
    while (told["kills"] < count and time.monotonic() < until) or number:
        here = replace(config, output_dir=str(folder / f"killed-{told['runs']}"))
        run = folder / f"killed-{told['runs']}" / config.run_name()
        fault = None
        if told["kills"] < count and time.monotonic() < until:
            moments = [
                Fault(after_seconds=luck.uniform(0, seconds)),
                *(Fault(at_operation=luck.choice(m)) for m in (anywhere, in_checkpoints)),
            ]
            fault = luck.choice(moments)
        begun = time.monotonic()
        code, said = attempt(here, fault)
        if code == -signal.SIGKILL:
            told["kills"] += 1
            told["in_checkpoint"] += any((run / "checkpoint").glob("*.partial"))
            number += 1
        elif code == FINISHED:
            seconds = max(seconds, time.monotonic() - begun)
            if wrong := compare(run, expected):
                told["faults"].append(f"run {told['runs']} differs after {number} kills: {', '.join(wrong)}")
            told["runs"], number = told["runs"] + 1, 0
        else:
            told["faults"].append(f"run {told['runs']} ended with {code}: {said[-2000:]}")
            told["runs"], number = told["runs"] + 1, 0
    return told | {"seconds": round(time.monotonic() - start)}


WAYS = ("flipped", "cut", "emptied", "gone")
"""What can happen to a file."""


def damages(
    config: TrainConfig, folder: Path, expected: dict[str, Any], *, seed: int, ways: Sequence[str] = WAYS
) -> dict[str, Any]:
    """Damage one file after another of a run's newest checkpoint, go on, and compare.

    Returns:
        `cases`, how much damage was done, and `faults`, what went wrong by file.
    """
    luck, faults = random.Random(seed), {}
    stopped = _stopped(config, folder)
    newest = checkpoints(stopped)[-1]
    files = sorted(str(file.relative_to(newest)) for file in newest.rglob("*") if file.is_file())
    for name in files:
        for how in ways:
            copy = folder / "damaged" / "run"
            shutil.rmtree(copy.parent, ignore_errors=True)
            shutil.copytree(stopped, copy)
            _damage(copy / "checkpoint" / newest.name / name, how, luck)
            code, said = attempt(replace(config, output_dir=str(copy.parent)))
            if code != FINISHED or "Going on from" not in said:
                faults[f"{name} {how}"] = said[-2000:]
            elif wrong := compare(copy, expected):
                faults[f"{name} {how}"] = f"differs: {', '.join(wrong)}"
    for name in ("metrics.jsonl", "contests.jsonl"):
        copy = folder / "damaged" / "run"
        shutil.rmtree(copy.parent, ignore_errors=True)
        shutil.copytree(stopped, copy)
        with open(copy / name, "ab") as file:
            file.write(b'{"step": 6, "al\x00\xff')
        code, said = attempt(replace(config, output_dir=str(copy.parent)))
        if code != FINISHED or compare(copy, expected):
            faults[f"{name} torn"] = said[-2000:]
    shutil.rmtree(copy.parent, ignore_errors=True)
    shutil.copytree(stopped, copy)
    for path in checkpoints(copy):
        _damage(path / "state.json", "flipped", luck)
    code, said = attempt(replace(config, output_dir=str(copy.parent)))
    if code != SENTENCE or "no checkpoint of" not in said:
        faults["every checkpoint"] = said[-2000:]
    return {"cases": len(files) * len(ways) + 3, "faults": faults}


def _stopped(config: TrainConfig, folder: Path) -> Path:
    """Return the folder of a run that was killed when it had two checkpoints and steps after the second."""
    here = replace(config, output_dir=str(folder / "stopped"))
    run = folder / "stopped" / config.run_name()
    child = os.fork()
    if not child:
        os._exit(_train_in_child(here, None, None, os.open(os.devnull, os.O_WRONLY)))
    while len((run / "metrics.jsonl").read_bytes().split(b"\n")) < config.steps if (run / "metrics.jsonl").exists() else True:
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return run


def _damage(file: Path, how: str, luck: random.Random) -> None:
    content = bytearray(file.read_bytes())
    if how == "gone":
        file.unlink()
        return
    if how == "flipped":
        content[luck.randrange(len(content))] ^= 1 << luck.randrange(8)
    file.write_bytes({"flipped": content, "cut": content[: len(content) // 2], "emptied": b""}[how])


def full_disk(config: TrainConfig, folder: Path, expected: dict[str, Any], *, seed: int) -> dict[str, Any]:
    """Let the disk be full at several moments, and read-only at one; make room, go on, and compare.

    Returns:
        `cases`, how many moments, and `faults`, what went wrong at each.

    Raises:
        PermissionError: this user may not mount a small disk.
    """
    faults = {}
    whole = sum(file.stat().st_size for file in (folder / "whole").rglob("*") if file.is_file())
    luck = random.Random(seed)
    shares = [luck.uniform(0.05, 0.9) for _ in range(6)]
    for number, share in enumerate(shares):
        with _small_disk(folder / f"disk-{number}", int(whole * share)) as disk:
            here = replace(config, output_dir=str(disk))
            code, said = attempt(here)
            if code != SENTENCE or "can't be written" not in said:
                faults[f"full at {share:.0%}"] = said[-2000:]
            _mount(disk, "remount,size=64m")
            code, said = attempt(here)
            if code != FINISHED:
                faults[f"going on after {share:.0%}"] = said[-2000:]
            elif wrong := compare(disk / config.run_name(), expected):
                faults[f"going on after {share:.0%}"] = f"differs: {', '.join(wrong)}"
    with _small_disk(folder / "read-only", 2**26) as disk:
        here = replace(config, output_dir=str(disk))
        attempt(here, Fault(at_operation=40))
        _mount(disk, "remount,ro")
        code, said = attempt(here)
        if code != SENTENCE or "can't be written" not in said:
            faults["read-only"] = said[-2000:]
        _mount(disk, "remount,rw")
        code, said = attempt(here)
        if code != FINISHED or compare(disk / config.run_name(), expected):
            faults["going on after read-only"] = said[-2000:]
    return {"cases": len(shares) + 1, "faults": faults}


@contextlib.contextmanager
def _small_disk(place: Path, size: int) -> Iterator[Path]:
    place.mkdir()
    _mount(place, f"size={max(size, 4096)}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def _mount(place: Path, options: str) -> None:
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", str(place)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise PermissionError(f"no small disk can be mounted here: {done.stderr.strip()}")


def jumping_clock(config: TrainConfig, folder: Path, expected: dict[str, Any], *, seed: int) -> dict[str, Any]:
    """Let the clock jump while a run trains, is killed and goes on.

    Returns:
        `cases`, 1, and `faults`, what differs.
    """
    here = replace(config, output_dir=str(folder / "clock"))
    attempt(here, Fault(clock_seed=seed, after_seconds=2.0))
    code, said = attempt(here, Fault(clock_seed=seed + 1))
    faults = [said[-2000:]] if code != FINISHED else compare(folder / "clock" / config.run_name(), expected)
    return {"cases": 1, "faults": faults}


def main() -> int:
    """Run everything; report what was done and found as JSON. The exit code is 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long to kill runs")
    parser.add_argument("--kills", type=int, default=10**9, help="stop after so many kills")
    parser.add_argument("--seed", type=int, default=0, help="the same seed kills at the same file operations")
    parser.add_argument("--output", help="JSON file to write")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="agon-chaos-") as name:
        folder, seed = Path(name), arguments.seed
        expected = uninterrupted(SMALL, folder)
        until = time.monotonic() + 60 * arguments.minutes
        found: dict[str, dict[str, Any]] = {}
        found["kills"] = kills(SMALL, folder, expected, count=arguments.kills, seed=seed, until=until)
        found["damaged files"] = damages(SMALL, folder, expected, seed=seed)
        found["jumping clock"] = jumping_clock(SMALL, folder, expected, seed=seed)
        try:
            found["full and read-only disk"] = full_disk(SMALL, folder, expected, seed=seed)
        except PermissionError as error:
            found["full and read-only disk"] = {"cases": 0, "not done": str(error), "faults": {}}
    publish({"machine": machine("torch", "transformers", "peft"), "seed": seed} | found, arguments.output)
    return int(any(each["faults"] for each in found.values()))


if __name__ == "__main__":
    sys.exit(main())
