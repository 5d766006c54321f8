"""Every Python snippet of the README and of docs/ runs, page by page, in the order in which it stands there."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import gymnasium
import pytest

import agents.registry
import agon_env
from algos.algorithm_registry import ALGORITHMS, list_algorithms

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture(autouse=True)
def registries_as_before() -> Iterator[None]:
    """What a page registers is forgotten after it."""
    agon_env.list_envs(), agents.registry.list_agents(), list_algorithms()  # plug-ins are read once, so before
    registries: list[dict] = [agon_env.registry, gymnasium.registry, agents.registry._entries, ALGORITHMS]
    before = [dict(registry) for registry in registries]
    yield
    for registry, old in zip(registries, before, strict=True):
        registry.clear()
        registry.update(old)


def snippets(page: Path) -> list[tuple[int, str]]:
    """Return the line number and the code of each ```python block."""
    text = page.read_text(encoding="utf-8")
    return [
        (text[: match.start()].count("\n") + 2, match[1]) for match in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_snippet_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType(f"docs_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # so that the classes of the page can be pickled
    for line, code in snippets(page):
        # Blank lines in front make a traceback name the line of the page.
        exec(compile("\n" * (line - 1) + code, str(page), "exec"), vars(module))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    links = re.findall(r"\]\((?!https?:)([^)#]+)", prose)
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing
