"""Rules of what a contest depends on: its seed and its moves, and nothing else."""

from __future__ import annotations

import copy
import hashlib
import itertools
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from agon_env.checker.players import PLAYERS, SEEDS, able_player, garbage_player, go_on, mixed_player, play
from agon_env.checker.requirements import Make, require, require_raises
from agon_env.contest import Contest
from agon_env.errors import Error

NOT_SEEDS: tuple[Any, ...] = (-1, True, "1", 1.5)


def check_observe_is_pure(make: Make) -> None:
    """Looking changes nothing, however often and at whomever."""
    left_alone, looked_at = make(), make()

    def nosy(env: Contest) -> str:
        first = [env.observe(), *map(env.observe, env.players)]
        env.render(), env.details(), [env.legal_texts(role) for role in env.roles]
        again = [env.observe(), *map(env.observe, env.players)]
        require(first == again, "observe() gives something else the second time; prompt() must not change anything")
        return mixed_player(env)

    for seed in SEEDS:
        same = play(left_alone, mixed_player, seed=seed) == play(looked_at, nosy, seed=seed)
        require(same, "looking (observe, render, details, legal_texts) changes how the contest goes on; make them pure")


def check_reset_forgets(make: Make) -> None:
    """Nothing of a contest is left in the next."""

    def whole(env: Contest) -> list[Any]:
        return [env.reset(seed=0), *map(env.observe, env.players), *go_on(env, mixed_player)]

    wanted = whole(make())
    for player, seed in itertools.product(PLAYERS, SEEDS):
        ended, abandoned = make(), make()
        play(ended, player, seed=seed)
        abandoned.reset(seed=seed)
        abandoned.step(player(abandoned))
        for env in (ended, abandoned):
            require(whole(env) == wanted, "a contest differs after another was played; set everything anew in setup()")


def check_seeds(make: Make) -> None:
    """A seed names a contest; without one the contests follow from the last seed; other values are refused."""
    for player, seed in itertools.product(PLAYERS, SEEDS):
        same = play(make(), player, seed=seed) == play(make(), player, seed=seed)
        require(same, "the same seed gives different contests; draw randomness from setup's rng alone, and iterate over no set")
    one, two = make(), make()
    for env in (one, two):
        env.reset(seed=7)
    same = play(one, able_player) == play(two, able_player) and play(one, able_player) == play(two, able_player)
    require(same, "resets without a seed after reset(seed=7) differ; do not override the seeding of reset()")
    require(play(one, able_player, seed=np.int64(3)) == play(two, able_player, seed=3), "a numpy integer must do as a seed")  # type: ignore[arg-type]
    for wrong in NOT_SEEDS:
        require_raises(Error, partial(one.reset, seed=wrong), f"the seed {wrong!r} must be refused")


def check_global_randomness(make: Make) -> None:
    """The global random generators are neither used nor moved."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - the legacy generator is what must stay untouched
    try:
        records = []
        for seed in (1, 2):
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            before = random.getstate(), pickle.dumps(np.random.get_state())  # noqa: NPY002
            records.append(play(make(), mixed_player, seed=0))
            moved = (random.getstate(), pickle.dumps(np.random.get_state())) != before  # noqa: NPY002
            require(not moved, "playing moves the global random generators; draw from setup's rng")
        require(records[0] == records[1], "the contest depends on the global random generators; draw from setup's rng")
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


def check_copies(make: Make) -> None:
    """Forks, deep copies and pickles of a contest, taken at any point, go on as it does and apart from it."""
    for player in (able_player, mixed_player):
        env = make()
        env.reset(seed=1)
        while not env.done:
            twins = {"fork()": env.fork(), "copy.deepcopy": copy.deepcopy(env), "pickle": _pickled(env)}
            events = list(env.transcript.events)
            records = {how: go_on(twin, player) for how, twin in twins.items()}
            require(
                env.transcript.events == events, "playing a copy changes the original; it shares something: see Contest.shared"
            )
            wanted = go_on(copy.deepcopy(env), player)
            for how, record in records.items():
                message = f"a copy made by {how} goes on differently; keep the state in plain attributes"
                require(record == wanted and twins[how].outcome is not None, message)
            env.step(player(env))
        require(_pickled(env).outcome == env.outcome, "the outcome does not survive pickling")


def check_no_shared_state(make: Make) -> None:
    """What is returned is the caller's: changing it changes nothing in the contest."""
    for seed in SEEDS:
        wanted = play(make(), mixed_player, seed=seed)
        env = make()
        steps: list[Any] = [env.reset(seed=seed, options={})]
        got = [copy.deepcopy(steps[0])]
        while not env.done:
            seen = [env.observe(player) for player in env.players]
            wanted_seen = copy.deepcopy(seen)
            _spoil((steps[-1], seen))
            same = [env.observe(player) for player in env.players] == wanted_seen
            require(same, "changing an observation changes what is observed next; observe() must return copies")
            steps.append(env.step(mixed_player(env)))
            got.append(copy.deepcopy(steps[-1]))
        require(got == wanted, "changing what step() returned changes the contest; details() must return a new dict")
    other = make()
    other.reset(seed=0)

    def busy(env: Contest) -> str:
        if other.done:
            other.reset()
        other.step(garbage_player(other))
        return mixed_player(env)

    wanted = play(make(), mixed_player, seed=1)
    require(play(make(), busy, seed=1) == wanted, "two contests share state; keep none on the class or in the module")


def check_processes(make: Make) -> None:
    """The same seed gives the same contest in other processes, under other hash seeds."""
    spec = make().spec
    require(spec is not None, "only a contest with a spec can be made in another process; give its id")
    wanted = digest(make)
    for hash_seed in ("1", "2"):
        command = (
            "from agon_env.checker.repeatability import digest; from agon_env.registration import ContestSpec; "
            f"print(digest(ContestSpec.from_json({spec.to_json()!r}).make))"
        )
        done = subprocess.run(
            [sys.executable, "-c", command],
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        require(done.returncode == 0, f"the contest can't be made in another process: {done.stderr[-2000:]}")
        require(
            done.stdout.split()[-1] == wanted, "the contest differs in another process; iterate over no set, and use no hash()"
        )


def digest(make: Make) -> str:
    """Return a hash of some contests: all that was shown, said and paid in them."""
    lines: list[str] = []
    for player, seed in itertools.product(PLAYERS, SEEDS):
        env = make()
        record = play(env, player, seed=seed)
        lines += [step[0].text for step in record if step[0] is not None]
        lines += env.transcript.to_lines()
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def _pickled(env: Contest) -> Contest:
    try:
        twin: Contest = pickle.loads(pickle.dumps(env))
    except Exception as error:
        raise AssertionError(
            f"the contest can't be pickled ({error}); keep functions and open files out of its attributes"
        ) from error
    return twin


def _spoil(value: Any) -> None:
    """Change everything that can be changed in `value`, at any depth."""
    for item in _parts(value):
        _spoil(item)
    if type(value) is dict:
        value.clear()
    elif type(value) is list:
        value.append("spoilt")


def _parts(value: Any) -> Iterator[Any]:
    if type(value) is dict:
        yield from list(value.values())
    elif isinstance(value, list | tuple):
        yield from list(value)
    elif hasattr(value, "messages"):
        yield value.messages
