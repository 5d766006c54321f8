"""What holds for every endless family of problems; what is their own has a module for each."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agon_env.errors import TaskError
from agon_env.tasks import Task, load_task, split_of
from agon_env.tasks.arithmetic import Arithmetic
from agon_env.tasks.chain_search import ChainSearch
from agon_env.tasks.subset_sum import SubsetSum

ROOT = Path(__file__).parents[2]
FAMILIES = {"arithmetic": (Arithmetic, (1, 26)), "chain_search": (ChainSearch, (1, 26)), "subset_sum": (SubsetSum, (4, 12))}
"""Name → class, and its least and greatest difficulty."""
each_family = pytest.mark.parametrize("name", FAMILIES)


def digests() -> dict[str, str]:
    """Name of each family → a hash over problems of all its difficulties."""
    return {
        name: hashlib.sha256(repr([family(seed=3, difficulty=bounds, split="test")[i] for i in range(20)]).encode()).hexdigest()
        for name, (family, bounds) in FAMILIES.items()
    }


@each_family
def test_it_is_a_task(name):
    assert isinstance(load_task(name), Task)
    assert load_task(name, difficulty=6) is load_task(name, difficulty=6)
    assert load_task(name, difficulty=6) is not load_task(name, difficulty=7)


@each_family
def test_same_seed_and_index_same_problem(name):
    family, _ = FAMILIES[name]
    assert family(seed=1)[7] == family(seed=1)[7]
    assert family(seed=1)[7] != family(seed=2)[7]
    assert len({family()[i].id for i in range(200)}) == 200


def test_same_problems_in_another_process():
    script = "import json; from tests.tasks.test_generated import digests; print(json.dumps(digests()))"
    environment = os.environ | {"PYTHONHASHSEED": "12345"}
    other = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, cwd=ROOT, check=True
    )
    assert json.loads(other.stdout) == digests()


@each_family
@pytest.mark.parametrize("split", ["train", "test"])
def test_splits_follow_the_hash_of_the_question(name, split):
    family, _ = FAMILIES[name]
    assert {split_of(family(split=split)[i].question) for i in range(100)} == {split}


@each_family
@pytest.mark.parametrize(
    "options",
    [
        *({"difficulty": wrong} for wrong in ("below", "above", 0, (8, 5), "abc", "5", 8.0, True, None, {5: 6})),
        *({"difficulty": wrong} for wrong in ((4.5, 6), (True, 6), (4, "6"), (8,), (4, 5, 6), (), "46")),
        *({"split": wrong} for wrong in ("dev", None, 1, ["train"])),
        *({"seed": wrong} for wrong in (-1, 2**64, 10**30, 1.5, True, "0", None)),
    ],
)
def test_bad_options_are_refused(name, options):
    family, (least, greatest) = FAMILIES[name]
    asked = {option: {"below": least - 1, "above": greatest + 1}.get(str(value), value) for option, value in options.items()}
    with pytest.raises(TaskError, match=next(iter(options))):
        family(**asked)
