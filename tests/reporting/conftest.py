"""Chromium for the tests that click through the pages; without it they are skipped, and say what to install."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
HOW = "pages are not clicked through: .ci/browser installs what is missing"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A headless Chromium."""
    api = pytest.importorskip("playwright.sync_api", reason=f"no playwright; {HOW}")
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"no Chromium; {HOW}")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Opens a file; fails at the end if a page said an error, opened a dialog, or asked for anything but its file."""
    contexts, heard = [], []

    def open_file(file: Path, *, width: int = 1280, height: int = 900, fragment: str = "", **options: Any) -> Any:
        context = chromium.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: heard.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("dialog", lambda dialog: (heard.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on(
            "request", lambda request: None if request.url.startswith("file:") else heard.append(f"asked for {request.url}")
        )
        page.goto(file.as_uri() + fragment)
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert heard == []


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The accessibility checker axe-core, fetched by npm."""
    if shutil.which("npm") is None:
        pytest.skip(f"no npm; {HOW}")
    folder = tmp_path_factory.mktemp("axe")
    done = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), "axe-core@4"], capture_output=True, timeout=120
    )
    if done.returncode:
        pytest.skip("npm can't fetch axe-core")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
