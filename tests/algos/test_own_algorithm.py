"""An algorithm of one's own: its options, and a sentence for each way in which it does not keep its word."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import bandit
import numpy as np
import pytest

from algos import cli
from algos.advantages import Advantages
from algos.algorithm import Algorithm
from algos.algorithm_registry import ALGORITHMS, register
from algos.commands import USAGE
from algos.competitive import CompetitiveGRPO
from algos.config import TINY, TrainConfig, load_config
from algos.errors import AlgorithmError, ConfigError
from algos.ppo import CompetitivePPO
from algos.trainer import train
from algos.training.run import Run


@dataclass(frozen=True)
class Scaled(CompetitiveGRPO):
    """Advantages times a number of its own."""

    beta: float = 0.3
    mode: str = "plain"
    count: int = 1

    def advantages(self, turns: Any) -> Advantages:
        found = super().advantages(turns)
        return replace(found, values=found.values * self.beta)


@pytest.fixture(autouse=True)
def games() -> Iterator[None]:
    before = dict(ALGORITHMS)
    with bandit.registered():
        yield
    ALGORITHMS.clear()
    ALGORITHMS.update(before)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bandit.save_model(tmp_path_factory.mktemp("bandit"))


def small(model: Path, algorithm: type[Algorithm], **changes: Any) -> TrainConfig:
    register("mine", algorithm, force=True)
    few: dict[str, Any] = {"steps": 2, "problems": 2, "group_size": 4}
    return bandit.config(model, "mine", env="tests/Bandit-v0", **(few | changes))


# --- options ------------------------------------------------------------------------------------------------


def test_options_reach_the_algorithm_and_stay_in_the_run(model: Path, tmp_path: Path) -> None:
    options = ("beta=2", "mode=steep")
    config = small(model, Scaled, algorithm_options=options, swap_roles=False, output_dir=str(tmp_path), group_size=32)
    usual, own = (Run.of(each) for each in (replace(config, algorithm_options=()), config))
    assert own.algorithm == Scaled(beta=2.0, mode="steep", swap_roles=False)
    assert usual.algorithm == Scaled(beta=0.3, mode="plain", swap_roles=False)
    for run in (usual, own):
        run.advance()
    assert own.samples["bob/advantages"] == pytest.approx([2.0 / 0.3 * value for value in usual.samples["bob/advantages"]])
    assert load_config(train(config)).make_algorithm() == own.algorithm


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("betta=2",), "mine has no option 'betta' of its own; it has beta, mode, count"),
        (("swap_roles=false",), "no option 'swap_roles' of its own; it is a setting of the run itself"),
        (("beta=much",), "algorithm_options: beta must be a number, not 'much'"),
        (("count=1.5",), "algorithm_options: count must be a whole number, not 1.5"),
        (("beta",), "an option of an algorithm is name=value, for example beta=0.3; 'beta' is not"),
    ],
)
def test_options_that_it_does_not_have_are_refused(model: Path, options: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        small(model, Scaled, algorithm_options=options)


def test_those_of_this_package_have_none_of_their_own() -> None:
    for name in ALGORITHMS:
        with pytest.raises(ConfigError, match=f"{name} has no option 'beta' of its own; it has none"):
            replace(TINY, algorithm=name, algorithm_options=("beta=1",))


def test_the_command_takes_them(capsys: pytest.CaptureFixture[str]) -> None:
    place = f"{__name__}:Scaled"
    assert cli.run(["train", "--algorithm", place, "--algorithm-options", "beta=1", "betta=2"]) == USAGE
    assert "has no option 'betta' of its own; it has beta, mode, count" in " ".join(capsys.readouterr().err.split())


# --- seats and matches --------------------------------------------------------------------------------------


def seated(*matches: Any) -> type[Algorithm]:
    """Return an algorithm that returns these matches."""

    class Seated(CompetitiveGRPO):
        """Fixed."""

        def matches(self, step: int, roles: Any, **how: Any) -> Any:
            return list(matches)

    return Seated


@pytest.mark.parametrize(
    ("matches", "message"),
    [
        ([{"first": "alice", "second": "bobb"}], "Seated seats 'bobb' as .*, but its policies are alice, bob"),
        ([{"first": "alice", "challenger": "bob"}], "in each of the roles first, second, and in no other: not .*'challenger'"),
        ([{"first": "alice"}], "in each of the roles first, second, and in no other: not {'first': 'alice'}"),
        ([], "for one match at least, not \\[\\]"),
        ([("alice", "bob")], "seat policies as role → policy, for one match at least, not"),
        ([{"first": "alice", "second": "bob"}, {"first": "bob", "second": "bob"}], "seats 'bob' in two matches of step 0"),
    ],
)
def test_seats_that_can_not_be_are_refused_before_anything_is_loaded(model: Path, matches: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Run.of(replace(small(model, seated(*matches)), model="/no/such/model"))


def test_seats_of_a_later_step_are_looked_at_too(model: Path) -> None:
    class Later(CompetitiveGRPO):
        """Goes wrong at the second step."""

        def seats(self, step: int, roles: Any) -> dict[str, str]:
            return super().seats(step, roles) if step == 0 else dict.fromkeys(roles, "carol")

    run = Run.of(small(model, Later))
    run.advance()
    with pytest.raises(AlgorithmError, match="Later seats 'carol'"):
        run.advance()


# --- advantages ---------------------------------------------------------------------------------------------


def judging(judge: Callable[[int], Any], base: type[Algorithm] = CompetitiveGRPO) -> type[Algorithm]:
    """Return an algorithm whose advantages are what `judge` makes of their number."""

    class Judging(base):  # type: ignore[misc, valid-type]
        """Fixed."""

        def advantages(self, turns: Any) -> Any:
            return judge(len(turns))

    return Judging


def ones(values: int, kept: int | None = None, value: float = 1.0, **more: Any) -> Advantages:
    return Advantages(np.full(values, value), np.ones(values if kept is None else kept, dtype=bool), 1, 0, **more)


@pytest.mark.parametrize(
    ("judge", "base", "message"),
    [
        (
            lambda n: [1.0] * n,
            CompetitiveGRPO,
            r"Judging\.advantages\(\) must return algos\.advantages\.Advantages, not a list",
        ),
        (lambda n: None, CompetitiveGRPO, "not a NoneType"),
        (lambda n: ones(3), CompetitiveGRPO, "one of `values` for each of 16 turns, in their order, not 3"),
        (lambda n: ones(n + 1), CompetitiveGRPO, "one of `values` for each of 16 turns, in their order, not 17"),
        (lambda n: ones(n, kept=3), CompetitiveGRPO, "one of `kept` for each of 16 turns, in their order, not 3"),
        (lambda n: ones(n, value=np.nan), CompetitiveGRPO, "must return finite `values`"),
        (
            lambda n: ones(n, tokens=[(1.0,)] * 3),
            CompetitiveGRPO,
            "one of `tokens` for each of 16 turns, in their order, not 3",
        ),
        (lambda n: ones(n, tokens=[(1.0,) * 5] * n), CompetitiveGRPO, "for each token of a turn that is kept: 1, not 5"),
        (lambda n: ones(n), CompetitivePPO, "must name `tokens` and `returns`, since every policy has a critic"),
    ],
)
def test_advantages_that_can_not_be_learned_from_are_refused(
    model: Path, judge: Callable[[int], Any], base: type[Algorithm], message: str
) -> None:
    run = Run.of(small(model, judging(judge, base)))
    before = [parameter.clone() for parameter in run.policies["alice"].parameters()]
    with pytest.raises(AlgorithmError, match=message):
        run.advance()
    assert all((old == new).all() for old, new in zip(before, run.policies["alice"].parameters(), strict=True))


def test_sound_ones_are_learned_from(model: Path) -> None:
    stats, _ = Run.of(small(model, judging(ones))).advance()
    assert stats["alice/rows"] == stats["bob/rows"] == 8
