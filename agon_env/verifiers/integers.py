r"""Sets of whole numbers: congruences, and formulas with a parameter such as `2k\pi, k \in \mathbb{Z}`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agon_env.verifiers.brackets import split
from agon_env.verifiers.ranges import OR

_CONGRUENCE = re.compile(r"(?P<name>.*?)\s*\\equiv\s*(?P<residues>.*?)\s*\\pmod\s*\{(?P<modulus>\d{1,9})\}")
_COMMA = re.compile(rf",|{OR.pattern}")
_RESIDUE = re.compile(r"-?\d{1,18}")
_LINK = r"(?:,?\s*\\text\s*\{\s*,?\s*(?:for|where|with)(?:\s+(?:all|any|some))?\s*\}|,|\s(?=\())"
_PARAMETER = re.compile(
    rf"(?P<formula>.*?)\s*{_LINK}\s*\(?(?:(?P<letter>[a-z])\s*\\in\s*\\mathbb\s*\{{Z\}}"
    r"|(?P<word>[a-z])\s*\\text\s*\{\s*is an integer\s*\})\)?",
    re.DOTALL,
)


@dataclass(frozen=True)
class Congruence:
    """The whole numbers with certain remainders."""

    name: str
    residues: frozenset[int]
    modulus: int


def read_congruence(text: str) -> Congruence | None:
    r"""Return what `x \equiv 3, 5 \pmod{7}` says, None for another text, and where a residue is no number."""
    found = _CONGRUENCE.fullmatch(text)
    parts = split(found["residues"], _COMMA) if found else []
    if not found or not parts or not all(map(_RESIDUE.fullmatch, parts)) or not int(found["modulus"]):
        return None
    modulus = int(found["modulus"])
    return Congruence(found["name"], frozenset(int(part) % modulus for part in parts), modulus)


def without_parameter(gold: str, answer: str) -> tuple[str, str]:
    r"""Return both without the words that let a letter be any whole number; where both have them, with the same letter.

    `k\pi` says as much as `k\pi, k \in \mathbb{Z}`, and `n\pi, n \in \mathbb{Z}` is the same set as the latter.
    """
    (gold, mine), (answer, theirs) = _split_parameter(gold), _split_parameter(answer)
    if mine and theirs and mine != theirs and not re.search(_letter(mine), answer):
        answer = re.sub(_letter(theirs), mine, answer)
    return gold, answer


def _split_parameter(text: str) -> tuple[str, str]:
    found = _PARAMETER.fullmatch(text)
    letter = (found["letter"] or found["word"]) if found else ""
    return (found["formula"], letter) if found and re.search(_letter(letter), found["formula"]) else (text, "")


def _letter(letter: str) -> str:
    return rf"(?<![A-Za-z\\]){letter}(?![A-Za-z])"
