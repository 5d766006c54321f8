"""examples/tour.ipynb runs from top to bottom, and is kept without outputs. (`.ci/docs` runs it in Jupyter.)"""

import ast
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "tour.ipynb"
CELLS = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def test_the_cells_run_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType("tour")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for number, cell in enumerate(CELLS, start=1):
        code = ast.parse("".join(cell["source"]))  # in modules as in notebooks the last expression may stand alone
        exec(compile(code, f"tour.ipynb, cell {number}", "exec"), vars(module))
    assert "<html" in (tmp_path / "tour.html").read_text(encoding="utf-8")
    assert (tmp_path / "runs" / "tour" / "summary.json").exists()


def test_outputs_are_not_kept() -> None:
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in CELLS)
