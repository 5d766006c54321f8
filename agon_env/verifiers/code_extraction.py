"""Where the program is in what a model wrote."""

from __future__ import annotations

import re

from agon_env.quoting import strip_thoughts

_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<mark>`{3,}|~{3,})[ \t]*(?P<label>[^\s`]*)[^\n`]*$", re.MULTILINE)
_CODE_LINE = re.compile(
    r"^\ufeff?(?:(?:async )?def |class |@|import \w|from [\w.]+ import |print\(|(?:for|while|if) .*:\s*$|"
    r"[A-Za-z_][\w, ]*=[^=])",
    re.MULTILINE,
)
_PYTHON = re.compile(r"\{?\.?(?:i?python|py)[\d.]*(?:[^\w+#-].*)?", re.IGNORECASE)
"""Labels of Python: `python`, `Python3`, `py`, `{.python}`, `python:main.py`; not `pycon` or `python-repl`."""
INDENT = 3
"""White space before a fence, beyond that of the block, with which it still is one (as in CommonMark)."""


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
            # in a list a block stands deep; what has no label there may be an example in the text of a program
            if len(fence["indent"]) <= INDENT or is_python(fence["label"]):
                opened, fenced = fence, True
        elif closes(fence, opened):
            block = content(visible, opened, fence)
            if not opened["label"]:
                bare = block
            elif is_python(opened["label"]):
                labelled = block
            opened = None
    if opened is not None and (not opened["label"] or is_python(opened["label"])):
        bare = None
        labelled = None if opened["label"] else labelled
    program = (bare if labelled is None else labelled) if fenced else visible if _CODE_LINE.search(visible) else None
    return program if program and program.strip() else None


def is_python(label: str) -> bool:
    """Return whether the label of a block says that it is Python."""
    return _PYTHON.fullmatch(label) is not None


def closes(fence: re.Match[str], opened: re.Match[str]) -> bool:
    """Return whether a fence ends the block that another one has opened."""
    shallow = len(fence["indent"]) <= len(opened["indent"]) + INDENT
    return shallow and fence["mark"].startswith(opened["mark"]) and not fence["label"]


def content(text: str, opened: re.Match[str], fence: re.Match[str]) -> str:
    """Return what is between two fences, without the white space that stands before the first one."""
    block = text[opened.end() + 1 : fence.start()]
    depth = len(opened["indent"])
    return re.sub(rf"^[ \t]{{1,{depth}}}", "", block, flags=re.MULTILINE) if depth else block


def strip_fence(program: str) -> str:
    """Return a program without the Markdown fence that may stand around the whole of it."""
    stripped = program.strip()
    fences = list(_FENCE.finditer(stripped))
    if len(fences) == 2 and fences[0].start() == 0 and fences[1].end() == len(stripped) and closes(fences[1], fences[0]):
        return content(stripped, *fences)
    return program
