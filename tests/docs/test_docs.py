"""Every Python snippet of the README and of docs/ runs, page by page, in the order in which it stands there.

One that the page calls a file ("a file `race.py`:") is the module of that name, which later ones may import.
"""

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


def snippets(page: Path) -> list[tuple[int, str, str]]:
    """Return the line number, the name of its module, and the code of each ```python block."""
    text = page.read_text(encoding="utf-8")
    blocks = re.finditer(r"(?:a file `(\w+)\.py`:\n\n)?^```python\n(.*?)^```", text, re.M | re.S)
    return [(text[: block.start(2)].count("\n") + 1, block[1] or f"docs_{page.stem}", block[2]) for block in blocks]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_snippet_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    modules: dict[str, ModuleType] = {}
    for line, name, code in snippets(page):
        module = modules.setdefault(name, ModuleType(name))
        monkeypatch.setitem(sys.modules, name, module)  # so that the classes of the page can be pickled
        # Blank lines in front make a traceback name the line of the page.
        exec(compile("\n" * (line - 1) + code, str(page), "exec"), vars(module))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    links = re.findall(r"\]\((?!https?:)([^)#]+)", prose)
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing
