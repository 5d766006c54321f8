"""docs/arena.md says what docs/results/arena.json holds."""

import json
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "arena.md").read_text(encoding="utf-8")
STANDINGS = json.loads((DOCS / "results" / "arena.json").read_text(encoding="utf-8"))


def test_the_table_is_that_of_the_standings() -> None:
    head, end = "| player | rating | 95 % | won/drawn/lost | reward |\n|---|---|---|---|---|\n", "\n\n"
    shown = PAGE.split(head)[1].split(end)[0].split("\n")
    assert shown == [
        f"| {one['label']} | {one['rating']['value']:.0f} | {one['rating']['low']:.0f}–{one['rating']['high']:.0f} "
        f"| {one['wins']}/{one['draws']}/{one['losses']} | {one['reward']:.3f} |"
        for one in STANDINGS["players"]
    ]


def test_the_counts_are_those_of_the_standings() -> None:
    prose = " ".join(PAGE.split())
    pairs, contests = len(STANDINGS["players"]) * (len(STANDINGS["players"]) - 1) // 2, STANDINGS["contests"]
    assert f"{contests // pairs // 2} held-out problems, {contests:,} contests" in prose
    assert f"{100 * STANDINGS['drawn'] / contests:.0f} % of them are draws" in prose
