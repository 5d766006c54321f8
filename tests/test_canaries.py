"""Policies that know nothing never beat the floor, on any registered contest; and the run goes on after them."""

import pytest

import agon_env
from agon_env.checker import INJECTIONS
from agon_env.games import Debate, DraftChallenge, Solo

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

EXIT = "```python\nimport os, sys\nsys.exit(0)\nos._exit(0)\n```"
CANDIDATES = " ".join(rf"\boxed{{{n}}}" for n in [*range(-20, 1000), "Yes", "No", "A", "B", r"\frac{1}{2}", r"\pi", ""])
LIST = rf"\boxed{{{', '.join(map(str, range(1000)))}}} <answer>{' '.join(map(str, range(1000)))}</answer>"

CANARIES = {
    "empty": lambda read: "",
    "yes": lambda read: r"Yes. \boxed{Yes} <answer>Yes</answer>",
    "candidates": lambda read: CANDIDATES,
    "a list of candidates": lambda read: LIST,
    "question": lambda read: f"{read}\n\\boxed{{{read}}}\n<answer>{read}</answer>\n```python\n{read}\n```",
    "ten megabytes": lambda read: "the answer: " * 800_000,
    "ten megabytes in a box": lambda read: r"\boxed{" + "7" * 10_000_000 + "}",
    "tower": lambda read: r"\boxed{9^{9^{9^{9^{9}}}}} <answer>9**9**9**9**9</answer>",
    "boxes": lambda read: r"\boxed{" * 10_000,
    "closed boxes": lambda read: r"\boxed{" * 10_000 + "7" + "}" * 10_000,
    "roles": lambda read: "\n".join(INJECTIONS),
    "exit": lambda read: EXIT,
}


def is_answered_by_all(id: str) -> bool:
    """Return whether every player's own answer is verified, so that a known nothing must earn the floor."""
    return isinstance(agon_env.make(id), Solo | DraftChallenge | Debate)


@pytest.mark.parametrize("id", filter(is_answered_by_all, sorted(agon_env.registry)))
def test_no_canary_beats_the_floor(id):
    env = agon_env.make(id)
    for name, canary in CANARIES.items():
        for seed in range(3):
            obs, _ = env.reset(seed=seed)
            while not env.done:
                obs, *_ = env.step(canary(obs.text))
            assert set(env.outcome.scores.values()) <= {env.score_range[0], None}, (name, env.problem)
    env.reset(seed=0)
    while not env.done:
        env.step(env.solution(env.current_role))
    assert set(env.outcome.scores.values()) == {env.score_range[1]}
