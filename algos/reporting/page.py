"""Pages: one HTML file each, which asks nothing of a network and runs no script but its own.

Whatever a run holds is data: Jinja escapes it in the tables, and what the script draws and shows lies in a block of JSON
from which no tag can be closed. Should a text get through all the same, the content security policy names the hashes of the
page's own script and style, and allows nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from algos.reporting.formats import FILTERS, visible

STATIC = files("algos.reporting") / "static"
SCRIPTS = ("vendor/uPlot.iife.min.js", "vendor/diff.min.js", "text.js", "charts.js", "browser.js", "page.js")
STYLES = ("vendor/uPlot.min.css", "page.css")


def render(template: str, **values: Any) -> str:
    """Return the page that a template of this package makes of plain values."""
    script, style = _joined(SCRIPTS), _joined(STYLES)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return (
        _environment()
        .get_template(template)
        .render(script=Markup(script), style=Markup(style), policy=policy, version=version("agon-env"), **values)
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("algos.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment


@cache
def _joined(names: tuple[str, ...]) -> str:
    return "\n" + "\n".join(_licence(name) + (STATIC / name).read_text(encoding="utf-8") for name in names)


def _licence(name: str) -> str:
    """Return the licence of a library, which asks to go where its code goes, as a comment."""
    if not name.startswith("vendor/"):
        return ""
    licence = STATIC / f"vendor/{name.removeprefix('vendor/').partition('.')[0]}.LICENSE"
    return f"/*! {licence.read_text(encoding='utf-8')} */\n"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
