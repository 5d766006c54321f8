"""Small games and a tiny task, so that the rules are tested apart from what the package carries."""

from __future__ import annotations

from collections.abc import Sequence

from agon_env.contest import Contest
from agon_env.errors import InvalidMove
from agon_env.tasks import Problem
from agon_env.verifiers import Verdict


class LastWordVerifier:
    """The last word of the text is the answer."""

    def __init__(self) -> None:
        self.calls = 0

    def score(self, completion: str, gold: str) -> Verdict:
        self.calls += 1
        extracted = self.extract(completion, gold)
        if extracted == "unscorable":
            return Verdict(None, extracted, "timeout")
        return Verdict(float(extracted == gold), extracted, "equal" if extracted == gold else "different")

    def extract(self, completion: str, gold: str) -> str | None:
        return completion.split()[-1] if completion.split() else None

    def score_many(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        return [self.score(completion, gold) for completion, gold in pairs]


class Doubling:
    """What is twice n?"""

    name = "doubling"
    source = "made for the tests"
    instruction = "End with the number."
    size = None

    def __init__(self) -> None:
        self.verifier = LastWordVerifier()

    def __getitem__(self, index: int) -> Problem:
        return Problem(str(index), f"What is twice {index}?", str(2 * index))

    def solution(self, problem: Problem) -> str:
        return f"It is {problem.answer}"

    def __deepcopy__(self, memo: object) -> Doubling:
        raise AssertionError("a task must never be copied: it may be a large data set")


class Nim(Contest):
    """Take one to three stones in turn; who takes the last one wins."""

    roles = ("first", "second")
    retries = 1
    option_names = frozenset({"stones"})

    def __init__(self, *, reward="zero_sum", **options) -> None:
        super().__init__(reward=reward, **options)

    def setup(self, rng, options):
        self.stones = options.get("stones") or int(rng.integers(5, 20))
        self.mover = "first"

    def prompt(self, role):
        return [{"role": "system", "content": "Nim"}, {"role": "user", "content": f"{self.stones} stones are left."}]

    def next_role(self):
        return self.mover if self.stones else None

    def legal_texts(self, role):
        return [str(n) for n in range(1, min(3, self.stones) + 1)]

    def apply(self, role, text):
        if text.strip() not in self.legal_texts(role):
            raise InvalidMove(f"say one of {', '.join(self.legal_texts(role))}")
        self.stones -= int(text)
        self.loser = self.mover = "second" if role == "first" else "first"
        return text.strip()

    def score(self):
        return {role: float(role != self.loser) for role in self.roles}

    def details(self):
        return {"stones": self.stones}
