"""The table of the README says what docs/results/train-competitive.json holds."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
FIGURES = ("draft_pass1", "answer_pass1", "fix_rate")


def test_the_table_is_that_of_the_runs() -> None:
    seeds = json.loads((ROOT / "docs" / "results" / "train-competitive.json").read_text(encoding="utf-8"))["seeds"]
    head = "| seed | drafts right | answers right | wrong drafts that were fixed |\n|---|---|---|---|\n"
    shown = (ROOT / "README.md").read_text(encoding="utf-8").split(head)[1].split("\n\n")[0].split("\n")
    wanted = []
    for seed, run in seeds.items():
        changes = [f"{100 * run['before'][name]:.0f} → {100 * run['after'][name]:.0f} %" for name in FIGURES]
        wanted.append(f"| {' | '.join([seed, *changes])} |")
    assert shown == wanted
