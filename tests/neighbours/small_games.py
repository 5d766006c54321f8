"""A game of several turns for the tests, apart from those that the package carries."""

from __future__ import annotations

from agon_env.contest import Contest
from agon_env.errors import InvalidMove


class Nim(Contest):
    """Take one to three stones in turn; who takes the last one wins."""

    roles = ("first", "second")
    rounds = 20
    retries = 1

    def __init__(self, *, stones=9, reward="zero_sum", **options) -> None:
        super().__init__(reward=reward, **options)
        self.start = stones

    def setup(self, rng, options):
        self.stones, self.loser = self.start + int(rng.integers(3)), None

    def prompt(self, role):
        return [{"role": "system", "content": "Nim"}, {"role": "user", "content": f"{self.stones} stones are left."}]

    def next_role(self):
        return super().next_role() if self.stones else None

    def legal_texts(self, role):
        return [str(n) for n in range(1, min(3, self.stones) + 1)]

    def apply(self, role, text):
        if text.strip() not in self.legal_texts(role):
            raise InvalidMove(f"say one of {', '.join(self.legal_texts(role))}")
        self.stones -= int(text)
        self.loser = "second" if role == "first" else "first"
        return text.strip()

    def score(self):
        return {role: float(role != self.loser) for role in self.roles}


class Strict(Nim):
    """Nim in which a text that was cut off is no move."""

    on_truncated = "forfeit"
    retries = 0
