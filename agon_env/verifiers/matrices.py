"""Matrices, read as rows of cells."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agon_env.verifiers.brackets import group

_MATRIX = re.compile(r"\\begin\s*\{([pbvBV]?matrix|array|smallmatrix)\}\s*(?:\{[lcr| ]*\})?(.*)\\end\s*\{\1\}", re.DOTALL)
_BRACKETED = re.compile(r"([(\[|])\s*(\\begin.*\\end\s*\{(?:array|matrix|smallmatrix)\})\s*[)\]|]", re.DOTALL)
_TRANSPOSED = re.compile(r"(.*)\^\s*\{?\s*(?:T|t|\\top|\\intercal)\s*\}?", re.DOTALL)


@dataclass(frozen=True)
class Matrix:
    """A matrix, or what is taken of one."""

    kind: str
    """"v" for a determinant, "V" for a norm, "" for the matrix itself."""
    rows: tuple[tuple[str, ...], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the rows."""
        return tuple(map(len, self.rows))

    @property
    def cells(self) -> list[str]:
        """The entries, row by row."""
        return [cell for row in self.rows for cell in row]


def read_matrix(text: str) -> Matrix | None:
    """Return the matrix that a text spells, None for anything else; the transpose of a tuple is a column."""
    text = text.strip()
    turned = _TRANSPOSED.fullmatch(text)
    if not turned:
        return _upright(text)
    matrix = _row(turned[1]) or _upright(turned[1].strip())
    if not matrix or matrix.kind or len({*matrix.shape}) != 1:
        return None
    return Matrix("", tuple(zip(*matrix.rows, strict=True)))


def _upright(text: str) -> Matrix | None:
    bare = _BRACKETED.fullmatch(text)
    found = _MATRIX.fullmatch(bare[2] if bare else text)
    if not found:
        return None
    kind = found[1][0] if found[1][0] in "vV" else "v" if bare and bare[1] == "|" else ""
    rows = [row for row in re.split(r"\\\\", found[2]) if row.strip()]
    return Matrix(kind, tuple(tuple(cell.strip() for cell in row.split("&")) for row in rows))


def _row(text: str) -> Matrix | None:
    found = group(text)
    return Matrix("", (tuple(found[1]),)) if found and found[0] in ("()", "[]") else None
