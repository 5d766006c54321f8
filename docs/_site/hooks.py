"""What the site needs beside its pages: the papers of the repository's root, and formulas as MathML."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import latex2mathml.converter
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
PAPERS = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Files, *, config: Any) -> Files:
    """Add the papers to the pages; they stay in the root, where a reader of the repository looks for them."""
    for name in PAPERS:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Turn links between the root and docs/ into links between pages."""
    folder = "docs/" if page.file.src_uri in PAPERS else "../"
    return markdown.replace(f"]({folder}", "](")


def on_page_content(content: str, **_: Any) -> str:
    """Write formulas as MathML, which browsers show without a script."""
    return _FORMULA.sub(_mathml, content)


def _mathml(match: re.Match[str]) -> str:
    display = "block" if match[2] == "[" else "inline"
    return latex2mathml.converter.convert(html.unescape(match[3]).strip(), display=display)
