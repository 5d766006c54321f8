"""Where the program is in what a model wrote."""

from __future__ import annotations

import re

from agon_env.quoting import strip_thoughts

_FENCE = re.compile(r"^[ ]{0,3}(?P<mark>`{3,}|~{3,})[ \t]*(?P<label>[^\s`]*)[^\n`]*$", re.MULTILINE)
_CODE_LINE = re.compile(
    r"^(?:def |class |@|import \w|from [\w.]+ import |print\(|(?:for|while|if) .*:\s*$|[A-Za-z_][\w, ]*=[^=])", re.MULTILINE
)
PYTHON = frozenset({"", "python", "python3", "py", "py3"})


def extract_program(text: str) -> str | None:
    """Return the last complete Python block of a Markdown text, after its hidden reasoning; None if there is none.

    A block without a label is taken only if none is labelled as Python: it often holds what the program prints. A text
    without any fence is taken as a program itself if some line of it looks like code. A last block that is never closed
    is no program: an abandoned earlier one is not credited.
    """
    visible = strip_thoughts(text)
    labelled: str | None = None
    bare: str | None = None
    opened: re.Match[str] | None = None
    fenced = False
    for fence in _FENCE.finditer(visible):
        if opened is None:
            opened, fenced = fence, True
        elif fence["mark"].startswith(opened["mark"]) and not fence["label"]:
            block = visible[opened.end() + 1 : fence.start()]
            if not opened["label"]:
                bare = block
            elif opened["label"].casefold() in PYTHON:
                labelled = block
            opened = None
    if opened is not None and opened["label"].casefold() in PYTHON:
        bare = None
        labelled = None if opened["label"] else labelled
    program = (bare if labelled is None else labelled) if fenced else visible if _CODE_LINE.search(visible) else None
    return program if program and program.strip() else None


def strip_fence(program: str) -> str:
    """Return a program without the Markdown fence that may stand around the whole of it."""
    stripped = program.strip()
    fences = list(_FENCE.finditer(stripped))
    if len(fences) == 2 and fences[0].start() == 0 and fences[1].end() == len(stripped) and not fences[1]["label"]:
        return stripped[fences[0].end() + 1 : fences[1].start()]
    return program
