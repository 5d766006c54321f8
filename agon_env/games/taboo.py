"""`AdversarialTaboo`: the attacker lures a word out of the defender, who must find out which (after Cheng et al. 2024)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, ClassVar

import numpy as np

from agon_env.contest import Contest
from agon_env.games.speech import conversation
from agon_env.quoting import strip_thoughts

WORDS = tuple((resources.files("agon_env.games") / "data" / "taboo.txt").read_text(encoding="utf-8").split())
_GUESS = re.compile(r"i guess (?:that )?(?:it is |the word is )?\W*(\w+)")


class AdversarialTaboo(Contest):
    """The attacker knows a secret word and wins if the defender says it unawares; the defender wins if it guesses the word.

    They speak in turn, `rounds` times each. The attacker loses at once if it says the word itself. The defender may guess
    once, by "I guess WORD": right wins, wrong loses. If nobody has won in the end it is a draw. Scores are 1, ½ and 0.
    """

    roles: ClassVar[tuple[str, ...]] = ("attacker", "defender")
    rounds = 5
    option_names = frozenset({"word"})

    def __init__(self, *, words: Sequence[str] = (), **options: Any) -> None:
        """Make a contest; where `words` are given, the secret is one of them, and both players know that."""
        super().__init__(**options)
        self.words = tuple(words)

    def setup(self, rng: np.random.Generator, options: Mapping[str, Any]) -> None:
        """Draw the word, or take it from the options."""
        self.word = str(options.get("word") or rng.choice(self.words or WORDS)).lower()
        self.said: list[tuple[str, str]] = []
        self.winner: str | None = None
        self.how = "nobody said or guessed the word"

    def next_role(self) -> str | None:
        """Return the two in turn, until somebody has won or the rounds are over."""
        return None if self.winner else super().next_role()

    def prompt(self, role: str) -> str:
        """Return the rules as the role knows them, and what was said."""
        rules = (
            f"The secret word is {self.word}. You win if your rival says it unawares; you lose if you say it or it is guessed."
            if role == "attacker"
            else 'You lose if you say the secret word. You may guess it once by "I guess" and the word: that wins or loses.'
        )
        known = f"It is one of {', '.join(self.words)}. " if self.words else ""
        return "\n\n".join([rules, *conversation(self.said, role), f"{known}What do you say?"])

    def legal_texts(self, role: str) -> list[str] | None:
        """Return the words and the guesses, where both know the words; any other text is legal too."""
        return [*self.words, *(f"I guess {word}" for word in self.words if role == "defender")] or None

    def apply(self, role: str, text: str) -> str | None:
        """Take what is said, without hidden thoughts; it may end the contest."""
        aloud = strip_thoughts(text).lower()
        says_it = re.search(rf"(?<!\w){re.escape(self.word)}(?:s|es)?(?!\w)", aloud) is not None
        guess = _GUESS.search(aloud) if role == "defender" else None
        self.said.append((role, text))
        if guess:
            right = guess[1] == self.word
            self.winner, self.how = ("defender", "guessed the word") if right else ("attacker", "the guess was wrong")
        elif says_it:
            self.winner, self.how = ("defender" if role == "attacker" else "attacker"), f"the {role} said the word"
        return guess[1] if guess else None

    def score(self) -> dict[str, float | None]:
        """Return 1 for the winner and 0 for the other; ½ each for a draw."""
        return {role: 0.5 if self.winner is None else float(role == self.winner) for role in self.roles}

    def verdicts(self) -> dict[str, Any]:
        """Return the word, and how it ended."""
        return {"word": self.word, "how": self.how}
