"""The tokens of a formula: numbers, symbols with their indices, commands and signs."""

from __future__ import annotations

import re


class Unreadable(ValueError):
    """The text is not a formula of the fragment."""


FUNCTIONS = {
    "sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "exp", "ln", "log", "arcsin", "arccos", "arctan",
    "arcsinh", "arccosh", "arctanh",
}  # fmt: skip
GREEK = {
    "alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta", "vartheta", "iota", "kappa", "lambda",
    "mu", "nu", "xi", "rho", "sigma", "tau", "upsilon", "phi", "varphi", "chi", "psi", "omega", "Gamma", "Delta", "Theta",
    "Lambda", "Xi", "Sigma", "Phi", "Psi", "Omega",
}  # fmt: skip
_LETTER = re.compile(r"d[rstuvxyz]|[A-Za-z]")
"""A letter, or a differential: as a product, x dy would be y dx."""
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?|\.\d+)|\\(?P<command>[A-Za-z]+)|(?P<word>[A-Za-z]+)|(?P<mark>\*\*|\\[{}]|[-+*/^_!(){}\[\]|,]))"
)
_SUBSCRIPT = re.compile(r"_\s*(?:\{\s*([A-Za-z0-9,+\- ]+|\\[A-Za-z]+)\s*\}|([A-Za-z0-9])|(\\[A-Za-z]+))")
_WORDS = {*FUNCTIONS, "sqrt", "pi"}


def tokens(text: str) -> list[tuple[str, str]]:
    """Return the kinds and values of the tokens: "number", "symbol" (with its index), "command" or "mark", then "end".

    Raises:
        Unreadable: there is a sign that no formula has, a word, or two numbers side by side.
    """
    read: list[tuple[str, str]] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if not found:
            raise Unreadable(f"{text[position : position + 12]!r} is not part of a formula")
        kind, value = str(found.lastgroup), str(found[str(found.lastgroup)])
        position = found.end()
        if (
            kind == "number"
            and [token[0] for token in read[-1:]] == ["number"]
            and read[-2:-1] not in ([("mark", "_")], [("mark", "^")])
        ):
            raise Unreadable("two numbers side by side")
        if kind == "word" and value not in _WORDS:
            # "2xy" is a product; a longer run of letters is a word, not a product of its letters
            if len(value) > 3:
                raise Unreadable(f"the word {value!r}")
            *letters, value = _LETTER.findall(value)
            read += [("symbol", letter) for letter in letters]
        kind = {"word": "command" if value in _WORDS else "symbol"}.get(kind, kind)
        if kind == "symbol" or (kind == "command" and value in GREEK):
            kind = "symbol"
            if found := _SUBSCRIPT.match(text, position):
                value += "_" + (found[1] or found[2] or found[3])
                position = found.end()
        read.append((kind, value))
    return [*read, ("end", "")]
