"""`agon verify math`: one line per row, in order, and a summary last."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from slow_worker import HANG

from agon_env.verifiers.math import MathVerifier, judge_row
from agon_env.verifiers.rescoring import ForeignRow, verify_lines


def test_the_command(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [
        {"id": "a", "gold": "1/2", "completion": r"\boxed{0.5}"},
        {"gold": "3", "completion": "It is \u2028 \\boxed{4}"},
        {"question": "of another kind"},
        {"id": 7, "gold": "x_{hang}", "completion": rf"\boxed{{{HANG}}}"},
        {"gold": "", "completion": r"\boxed{1}"},
        {"gold": r"2\sqrt{2}", "completion": r"\boxed{\sqrt{8}}"},
    ]
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + '\n\n{"torn', encoding="utf-8")
    program = (
        f"import sys; sys.path.append({str(Path(__file__).parent)!r})\n"
        "from agon_env.verifiers import pool; Worker = pool.Worker\n"
        "pool.Worker = lambda module: Worker('slow_worker'); from algos.cli import main; main()"
    )
    command = [sys.executable, "-c", program, "verify", "math", str(path), "--workers", "2", "--deadline", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    *results, last = [json.loads(line) for line in done.stdout.split("\n") if line]
    assert [result["id"] for result in results] == ["a", 2, 3, 7, 5, 6, 8]
    assert [result["score"] for result in results] == [1.0, 0.0, None, None, 0.0, 1.0, None]
    assert [result["verdict"] for result in results] == ["pass", "fail", "error", "timeout", "fail", "pass", "error"]
    assert all(result["seconds"] >= 0 for result in results)
    assert results[4]["reason"] == "no gold"
    assert [bool(result.get("skipped")) for result in results] == [False, False, True, False, False, False, True]
    assert last["summary"] | {"seconds": 0} == {
        "rows": 7, "pass": 2, "fail": 2, "timeout": 1, "killed": 0, "error": 2, "skipped": 2, "mean_score": 0.5, "seconds": 0,
    }  # fmt: skip
    assert done.stderr == ""


def test_a_row_of_another_kind_says_what_it_lacks():
    with pytest.raises(ForeignRow, match="completion is missing; a row holds gold and completion"):
        judge_row(MathVerifier(), {"gold": "1"})
    for wrong in (True, None, float("nan"), [1]):
        with pytest.raises(ForeignRow, match="gold is not text"):
            judge_row(MathVerifier(), {"gold": wrong, "completion": "1"})


@pytest.mark.parametrize(("gold", "right"), [(1080, "1,080"), (0.5, r"\frac{1}{2}"), (-3.0, "-3"), (1e-07, "0.0000001")])
def test_a_gold_may_be_a_number(gold, right):
    assert judge_row(MathVerifier(), {"gold": gold, "completion": rf"\boxed{{{right}}}"}).verdict == "pass"
    assert judge_row(MathVerifier(), {"gold": gold, "completion": r"\boxed{7}"}).verdict == "fail"


def test_rows_come_in_order_whoever_is_first():
    golds = [rf"{n}\sqrt{{3}}" if n % 3 else str(n) for n in range(1, 40)]
    lines = [json.dumps({"gold": gold, "completion": rf"\boxed{{{gold}}}"}) for gold in golds]
    results = list(verify_lines(lines, lambda row: judge_row(MathVerifier(), row), workers=4))
    assert [result["id"] for result in results] == list(range(1, 40))
    assert {result["verdict"] for result in results} == {"pass"}
