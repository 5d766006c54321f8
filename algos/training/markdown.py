"""Texts of others in Markdown: cards and tables whose words nobody here has chosen."""

from __future__ import annotations

import re

from agon_env.printable import printable

_PLAIN = re.compile(r"[\w .,:/%@=+–−-]*")
"""Nothing of which is markup; a dash or a number at the beginning of a line could be, but names stand within one."""


def one_line(text: str) -> str:
    """Return a text as one line in which nothing acts."""
    return printable(text).replace("\n", " ").replace("\t", " ")


def as_code(text: str) -> str:
    """Return a text as code: no markup in it is any, and it can't end the code, nor the cell of a table."""
    line = one_line(text).replace("|", "\\|")
    ticks = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{ticks} {line} {ticks}" if "`" in line else f"{ticks}{line or ' '}{ticks}"


def as_name(text: str) -> str:
    """Return a text as it is if nothing in it could be markup, and as code otherwise."""
    return text if _PLAIN.fullmatch(text) else as_code(text)
