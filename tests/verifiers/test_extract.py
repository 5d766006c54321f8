"""What a verifier extracts is what its verdict names, so that a rival who is shown answers alone reads what is judged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agon_env
from agon_env.games.draft_challenge import CHALLENGE, DRAFT_INTRODUCTION
from agon_env.quoting import quote
from agon_env.tasks.arithmetic import ArithmeticVerifier
from agon_env.tasks.mixture import MixtureVerifier
from agon_env.tasks.reasoning_gym import MAX_CHARS, ReasoningGymVerifier
from agon_env.tasks.subset_sum import SubsetSumVerifier
from agon_env.verifiers import MathVerifier, Verifier
from agon_env.verifiers.code import CodeVerifier
from agon_env.verifiers.code_tests import CodeTests

MIXED = MixtureVerifier({"math": MathVerifier(), "digits": ArithmeticVerifier()})
JUDGES: dict[str, tuple[Verifier, str]] = {
    "math": (MathVerifier(), "7"),
    "arithmetic": (ArithmeticVerifier(), "7"),
    "subset sum": (SubsetSumVerifier(), "24 = 3 of 7 12 5 9"),
    "mixture, mathematics": (MIXED, "math: 7"),
    "mixture, digits": (MIXED, "digits: 7"),
    "mixture, no task": (MIXED, "nobody: 7"),
}

PIECES = (
    "It is ",
    r"\boxed{7}",
    r"\boxed{7+12+5}",
    r"\boxed{",
    "}",
    "answer: 8\n",
    "<think>",
    "</think>",
    "\\",
    "9",
    "\n",
    "x" * 1200,
)
texts = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


@pytest.mark.parametrize("name", JUDGES)
@given(text=texts)
def test_what_is_extracted_is_what_is_judged(name: str, text: str) -> None:
    verifier, gold = JUDGES[name]
    assert verifier.extract(text, gold) == verifier.score(text, gold).extracted


def test_answers_between_marks() -> None:
    verifier = ReasoningGymVerifier()
    for text in ("<answer>4", "<answer>4</answer>", "<think><answer>5</answer></think><answer> 6 </answer>", "none"):
        assert verifier.extract(text, "no gold") == verifier.score(text, "no gold").extracted
    assert verifier.extract(f"<answer>{'7' * (MAX_CHARS + 1)}</answer>", "no gold") == "7" * MAX_CHARS


def test_the_program_is_the_answer() -> None:
    verifier = CodeVerifier(allow_unisolated=True)
    gold = CodeTests("call", ({"args": [1], "expected": 2},), function="f").to_json()
    for text in ("no program", "```python\ndef f(x):\n    return x + 1\n```", "```\nx = 1\n```\n```python\nprint(2)\n```"):
        assert verifier.extract(text, gold) == verifier.score(text, gold).extracted


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("id", [id for id in sorted(agon_env.registry) if id.endswith("Duel-v0")])
def test_every_duel_can_reveal_answers_alone(id: str) -> None:
    env = agon_env.make(id, reveal="answer")
    first, _ = env.reset(seed=0)
    draft = f"A long thought that nobody is to read.\n\n{env.solution('drafter')}"
    second, *_ = env.step(draft)
    answer = env.task.verifier.extract(draft, env.problem.answer)
    assert answer
    assert second.text == f"{first.text}\n\n{DRAFT_INTRODUCTION}\n\n{quote(answer)}\n\n{CHALLENGE}"
