"""Ray workers: the same contests however many there are, whoever dies; only adapters travel, once for each version."""

import dataclasses
import json
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

import agents
import agon_env
from agents.agent import Agent
from agents.engines.torch import TorchEngine
from agents.errors import DependencyNotInstalled
from agents.sampling import SamplingParams
from agents.shared_base import SharedBase
from algos.commands.train import parse
from algos.config import TINY
from algos.errors import ConfigError, SamplerMismatch, WorkersFailed
from algos.parallel.cluster import connect
from algos.parallel.pool import RayPool, _acknowledged
from algos.parallel.ray_config import LOCAL, RayConfig
from algos.parallel.work import Played, Unit, Worker, adapter_tensors, describe, digest_of
from algos.rollouts import Rollout, Start, rollout
from algos.trainer import train

ray_is_there = pytest.mark.skipif(find_spec("ray") is None, reason='Ray is not installed: pip install "agon-env[ray]"')

PARAMS = SamplingParams(max_tokens=12)


class World:
    """Two policies and a contest."""

    def __init__(self) -> None:
        self.contest = agon_env.make("ArithmeticDuel-v0")
        self.base = SharedBase.load("embedded", device="cpu")
        self.policies = {name: self.base.policy(name, rank=2, params=PARAMS) for name in ("alice", "bob")}
        for seed, name in enumerate(self.policies):
            self.stir(name, seed=seed)

    def stir(self, name: str, *, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in self.base.parameters(name):
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))

    def play(self, rollout: Callable[..., Rollout], *, problems: int = 4, **players: Agent) -> Rollout:
        roles = {"alice": "drafter", "bob": "challenger"}
        starts = [Start(seed=seed, options={"roles": roles}) for seed in range(problems)]
        return rollout(
            self.contest.fork, {**self.policies, **players}, starts, params=PARAMS, seed=3, branches=(2, 2), sample=None
        )


def told(played: Rollout) -> list[Any]:
    return [played.turns, played.beneath, [list(contest.transcript.to_lines()) for contest in played.contests]]


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.fixture(scope="module")
def ray_session() -> Iterator[Any]:
    import ray

    connect(ray, LOCAL)
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def pools(ray_session: Any) -> Iterator[dict[int, RayPool]]:
    made = {count: RayPool(RayConfig(LOCAL, workers=count, cpus=0.5), device="cpu") for count in (1, 2)}
    yield made
    for pool in made.values():
        pool.close()


@pytest.fixture(scope="module")
def expected(world: World, pools: dict[int, RayPool]) -> list[Any]:
    return told(world.play(pools[1].rollout))


@ray_is_there
@pytest.mark.slow
def test_one_and_two_workers_play_the_same_to_the_last_bit(
    world: World, pools: dict[int, RayPool], expected: list[Any]
) -> None:
    played = world.play(pools[2].rollout)
    assert told(played) == expected
    assert all(contest.task is world.contest.task for contest in played.contests)


@ray_is_there
@pytest.mark.slow
def test_it_is_what_is_played_here(world: World, expected: list[Any]) -> None:
    here = world.play(rollout)
    assert [turn.text for turn in here.turns] == [turn.text for turn in expected[0]]
    assert [turn.reward for turn in here.turns] == [turn.reward for turn in expected[0]]


@ray_is_there
@pytest.mark.slow
def test_adapters_travel_once_for_each_version(world: World, pools: dict[int, RayPool], expected: list[Any]) -> None:
    pool, size = pools[1], 4 * world.base.adapters.count("bob")
    assert pool.sent.adapters == 2 * size
    world.play(pool.rollout)
    assert pool.sent.adapters == 2 * size
    kept = [parameter.clone() for parameter in world.base.parameters("bob")]
    world.stir("bob", seed=7)
    changed = told(world.play(pool.rollout))
    assert pool.sent.adapters == 3 * size
    assert changed != expected
    with torch.no_grad():
        for parameter, value in zip(world.base.parameters("bob"), kept, strict=True):
            parameter.copy_(value)
    assert told(world.play(pool.rollout)) == expected


@ray_is_there
@pytest.mark.slow
def test_players_that_are_no_policies_have_luck_of_their_own(world: World, pools: dict[int, RayPool]) -> None:
    first, second = (
        told(world.play(pools[count].rollout, bob=agents.make("random", seed=1), alice=world.policies["alice"]))
        for count in (1, 2)
    )
    assert first == second


@ray_is_there
@pytest.mark.slow
def test_a_worker_that_is_killed_changes_nothing(world: World, pools: dict[int, RayPool], expected: list[Any]) -> None:
    pool = pools[2]
    victim = pool.pids()[0]
    before = pool.sent.replaced
    killer = threading.Timer(0.05, os.kill, (victim, signal.SIGKILL))
    killer.start()
    assert told(world.play(pool.rollout)) == expected
    killer.join()
    assert told(world.play(pool.rollout)) == expected
    assert pool.sent.replaced == before + 1
    assert victim not in pool.pids()


class Sleeper(Agent):
    """Hangs in the process that it is not at home in, while a file exists."""

    def __init__(self, marker: str) -> None:
        self.marker = marker

    def act(self, observations: Any) -> list[Any]:
        if os.path.exists(self.marker):
            os.remove(self.marker)
            time.sleep(60)
        return [agon_env.Action("12") for _ in observations]


class Bomb(Agent):
    """Kills every worker, or raises."""

    def __init__(self, *, raises: bool) -> None:
        self.raises = raises

    def act(self, observations: Any) -> list[Any]:
        if self.raises:
            raise LookupError("a fault of the agent")
        os.kill(os.getpid(), signal.SIGKILL)
        return []


@ray_is_there
@pytest.mark.slow
def test_a_worker_that_hangs_is_replaced(world: World, ray_session: Any, tmp_path: Path) -> None:
    pool = RayPool(RayConfig(LOCAL, workers=1, cpus=0.5, timeout=15.0), device="cpu")
    marker = tmp_path / "marker"
    calm = told(world.play(pool.rollout, problems=1, alice=Sleeper(str(marker))))
    marker.touch()
    assert told(world.play(pool.rollout, problems=1, alice=Sleeper(str(marker)))) == calm
    assert pool.sent.replaced == 1
    pool.close()


@ray_is_there
@pytest.mark.slow
def test_work_that_kills_its_workers_ends(world: World, pools: dict[int, RayPool]) -> None:
    with pytest.raises(WorkersFailed, match=r"problems \[0\] were given to 3 workers"):
        world.play(pools[1].rollout, problems=1, alice=Bomb(raises=False))


@ray_is_there
@pytest.mark.slow
def test_what_a_contest_raises_is_raised_here(world: World, pools: dict[int, RayPool]) -> None:
    with pytest.raises(LookupError, match="a fault of the agent"):
        world.play(pools[1].rollout, problems=1, alice=Bomb(raises=True))


@ray_is_there
@pytest.mark.slow
def test_more_than_there_is_is_an_error(ray_session: Any) -> None:
    with pytest.raises(ConfigError, match="4 workers with 1000 CPUs each need 4000, but the cluster has"):
        RayPool(RayConfig(LOCAL, workers=4, cpus=1000))
    with pytest.raises(ConfigError, match=r"set ray.workers or ray.gpus lower"):
        RayPool(RayConfig(LOCAL, workers=1, gpus=99))


@ray_is_there
@pytest.mark.slow
def test_what_others_hold_is_not_waited_for(ray_session: Any) -> None:
    holder = ray_session.remote(num_cpus=ray_session.available_resources()["CPU"])(Bomb).remote(raises=True)
    ray_session.wait([holder.act.remote([])], timeout=30)
    with pytest.raises(WorkersFailed, match="0 of 1 workers have started within 2 s; the cluster has 0 CPUs"):
        RayPool(RayConfig(LOCAL, workers=1, cpus=0.5, patience=2.0))
    ray_session.kill(holder)


def test_a_version_that_was_not_played_is_found_out(world: World) -> None:
    seat = describe(world.policies["alice"])
    unit = Unit("", {"alice": seat}, [Start(seed=0, options={})], {})
    with pytest.raises(SamplerMismatch, match="was to play with the adapters"):
        _acknowledged(Played(b"", {"alice": "an old one"}), unit)


def test_a_player_that_can_not_be_sent_is_refused() -> None:
    with pytest.raises(ConfigError, match="can't be sent to workers"):
        describe(agents.as_agent(lambda observation: "7"))


def test_a_worker_fetches_what_it_has_not_got() -> None:
    fetched: list[str] = []
    world = World()
    seats = {name: describe(policy) for name, policy in world.policies.items()}
    template = pickle.dumps(world.contest)
    contents = {digest_of(template): template}
    for policy in world.policies.values():
        tensors = adapter_tensors(policy)
        contents[digest_of(tensors)] = tensors

    def fetch(digest: str) -> Any:
        fetched.append(digest)
        return contents[digest]

    worker = Worker(TorchEngine(), device="cpu", threads=1, fetch=fetch)
    roles = {"alice": "drafter", "bob": "challenger"}
    unit = Unit(digest_of(template), seats, [Start(0, {"roles": roles}, 0)], {"params": PARAMS, "seed": 3})
    assert worker.play(unit) == worker.play(unit)
    assert sorted(fetched) == sorted(contents)


def test_without_ray_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DependencyNotInstalled, match=r"pip install \"agon-env\[ray\]\""):
        RayPool(RayConfig(LOCAL))


@pytest.mark.parametrize(
    ("asked", "address"),
    [
        (["--ray"], LOCAL),
        (["--ray", "--steps", "3"], LOCAL),
        (["--ray", "auto"], "auto"),
        (["--ray", "10.0.0.1:6379"], "10.0.0.1:6379"),
    ],
)
def test_the_address_may_be_left_out(asked: list[str], address: str) -> None:
    assert parse(asked).run.ray.address == address
    assert parse([]).run.ray.address == ""


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"unit": 0}, {"cpus": 0.0}, {"gpus": -1.0}, {"timeout": 0.0}])
def test_settings_that_can_not_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"ray.{next(iter(wrong))} must be"):
        RayConfig(LOCAL, **wrong)


@ray_is_there
@pytest.mark.slow
def test_a_run_with_one_and_with_two_workers_is_the_same_to_the_last_bit(tmp_path: Path, ray_session: Any) -> None:
    """Also where opponents come from a pool, whose snapshots travel like any adapter."""
    small = dataclasses.replace(
        TINY,
        **{"steps": 3, "problems": 3, "group_size": 2, "max_tokens": 12, "eval_problems": 4, "lora_rank": 2, "log": ()},
        **{"opponent": "pool:uniform", "opponent_share": 0.5, "snapshot_every": 1, "output_dir": str(tmp_path)},
    )
    runs = [
        train(dataclasses.replace(small, name=str(count), ray=RayConfig(LOCAL, workers=count, cpus=0.5))) for count in (1, 2)
    ]
    for name in ("alice", "bob"):
        one, two = ((run / name / "adapter_model.safetensors").read_bytes() for run in runs)
        assert one == two
    one, two = (
        [
            {key: value for key, value in json.loads(line).items() if not key.startswith(("time/", "memory/"))}
            for line in (run / "metrics.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
        ]
        for run in runs
    )
    assert one == two
