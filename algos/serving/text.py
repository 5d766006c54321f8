"""Text out of single tokens, and texts that end at a stop sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenizers.decoders import DecodeStream


class TokenText:
    """Decodes token by token: characters that take several tokens come whole."""

    def __init__(self, tokenizer: Any, *, after: Sequence[int] = ()) -> None:
        """Begin a text.

        Args:
            tokenizer: a Hugging Face tokenizer. One without a fast backend gives no text here: its text comes at the end.
            after: tokens that the text goes on from; some tokenizers write a space between words only.
        """
        self._backend = getattr(tokenizer, "backend_tokenizer", None)
        self._stream = DecodeStream(ids=list(after), skip_special_tokens=False)

    def add(self, token: int) -> str:
        """Return what the token adds to the text, as far as it is sure."""
        if self._backend is None:
            return ""
        try:
            return self._stream.step(self._backend, token) or ""
        except Exception:  # it knows no narrower one, for tokens that it can't tell apart; the rest comes at the end
            self._backend = None
            return ""


class StopSequences:
    """Lets a text pass up to the first of some sequences; what may become one is held back."""

    def __init__(self, sequences: Sequence[str]) -> None:
        """Stop at any of `sequences`."""
        self._sequences = [sequence for sequence in sequences if sequence]
        self._held = ""
        self.hit = False
        """Whether a sequence was found; nothing passes after it."""

    def feed(self, text: str) -> str:
        """Return what passes now that `text` has come."""
        if self.hit:
            return ""
        self._held += text
        found = [place for sequence in self._sequences if (place := self._held.find(sequence)) >= 0]
        if found:
            self.hit = True
            passed, self._held = self._held[: min(found)], ""
            return passed
        keep = max((self._overlap(sequence) for sequence in self._sequences), default=0)
        passed, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return passed

    def flush(self) -> str:
        """Return what is held back, at the end of the text."""
        passed, self._held = self._held, ""
        return passed

    def _overlap(self, sequence: str) -> int:
        """Return how many characters at the end of the held text begin the sequence."""
        longest = min(len(sequence) - 1, len(self._held))
        return next((n for n in range(longest, 0, -1) if self._held.endswith(sequence[:n])), 0)
