"""The checkers of other libraries pass for every registered contest that they can apply to; the docs hold the table."""

from __future__ import annotations

import re

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from page import PAGE

import agon_env

pytestmark = pytest.mark.filterwarnings("ignore:.*(deepmath|DeepMath|embedded)", "ignore:.*not having a spec")

LAZY = ["ReasoningGym/chain_sum-v0", "TextArena/GuessTheNumber-v0", "TextArena/KuhnPoker-v0", "TextArena/Snake-v0"]
"""Some of the contests that are registered when they are first asked for."""
COSMETIC = "|".join(
    [
        "Observation is not a NumPy array",
        "Observation space for each agent probably should be",
        "Action space for each agent probably should be",
        "We recommend agents to be named",
        "does not know the reset option 'options'",
        "embedded",
        "deepmath|DeepMath",
    ],
)


def rival(observation):
    return f"{observation.role} says 7"


def make(id):
    if id.startswith("TextArena"):
        pytest.importorskip("textarena", reason="needs TextArena: pip install 'agon-env[textarena]'")
    if id.startswith("ReasoningGym/"):
        pytest.importorskip("reasoning_gym", reason="needs reasoning-gym: pip install 'agon-env[reasoning-gym]'")
    return agon_env.make(id)


def check_every_seat_with_gymnasium(id):
    for role in make(id).roles:
        env = gymnasium.make(f"agon_env/{id.replace('/', '.')}", seat=role, rivals=rival)
        check_env(env.unwrapped)
        env.close()


def check_with_pettingzoo(id):
    testing = pytest.importorskip("pettingzoo.test", reason="needs PettingZoo: pip install pettingzoo")
    testing.api_test(agon_env.to_pettingzoo(make(id)), num_cycles=20)
    testing.seed_test(lambda: agon_env.to_pettingzoo(agon_env.make(id)), num_cycles=20)
    testing.render_test(lambda render_mode=None: agon_env.to_pettingzoo(agon_env.make(id), render_mode=render_mode))


def test_every_seat_passes_gymnasiums_checker(contest_id):
    check_every_seat_with_gymnasium(contest_id)


@pytest.mark.filterwarnings("error::UserWarning", f"ignore:.*({COSMETIC})")
def test_every_contest_passes_pettingzoos_tests(contest_id):
    check_with_pettingzoo(contest_id)


@pytest.mark.parametrize("id", LAZY)
def test_contests_that_are_registered_later_pass_gymnasiums_checker(id):
    check_every_seat_with_gymnasium(id)


@pytest.mark.filterwarnings("error::UserWarning", f"ignore:.*({COSMETIC})")
@pytest.mark.parametrize("id", LAZY)
def test_contests_that_are_registered_later_pass_pettingzoos_tests(id):
    check_with_pettingzoo(id)


def test_the_table_in_the_docs_names_every_contest():
    rows = re.findall(r"^\| `([\w/.-]+-v\d+)` \|(.*)\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(id for id, _ in rows) == sorted(agon_env.registry.keys() - {id for id in agon_env.registry if "/" in id})
    for id, cells in rows:
        assert [cell.strip() for cell in cells.split("|")] == ["passes"] * 6, id
