"""The time that `MathVerifier` takes for many answers against that of `math_verify`, in one run; prints JSON.

    python benchmarks/verify.py [--golds FILE.jsonl] [--answers 2000] [--repeats 3] [--out verify.json]

Needs `pip install 'agon-env[bench]'`. Golds are MATH-500 (a JSONL file with the field `answer`, or the data set from
the Hugging Face hub), by default those of the embedded sample. The answers are made from the golds by a seeded
generator: the gold in other dresses, neighbours of it, other golds, and texts without an answer; equal ones are judged once.
`agon` and `math_verify` judge one answer after another; `agon_as_a_list` gets all at once, as in training, and has a worker
for each core. The sides take turns.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from measure import machine, publish, spread

from agon_env.tasks.dataset import SAMPLES
from agon_env.verifiers import MathVerifier
from agon_env.verifiers.exact import read_number

Pair = tuple[str, str]

FRAMES = (
    "Adding up, we get ${0}$, and so the final answer is $\\boxed{{{0}}}$.",
    "A first guess was \\boxed{{17}}, which does not fit. Hence \\boxed{{{0}}}.",
    "<think>Could it be \\boxed{{3}}? No.</think>\n\nThe answer is \\boxed{{{0}}}",
    "**Final Answer:** ${0}$",
)


def read_golds(path: str | None) -> list[str]:
    source = Path(path) if path else SAMPLES / "math_sample.jsonl"
    rows = [json.loads(line) for line in source.read_text(encoding="utf-8").split("\n") if line]
    return [str(row["answer"] if "answer" in row else row["final_answer"]) for row in rows]


def dressed(gold: str, rng: Random) -> str:
    """Return the gold in another dress."""
    number = read_number(gold)
    if number is not None and number.denominator == 1:
        n = int(number)
        return rng.choice([f"{n:,}", f"{n}.0", f"x = {n}", rf"{n}\text{{ cm}}", f"{gold}."])
    if number is not None:
        top, bottom = number.numerator, number.denominator
        return rng.choice([rf"\dfrac{{{top}}}{{{bottom}}}", f"{top}/{bottom}"])
    return rng.choice([gold.replace(r"\frac", r"\dfrac"), rf"\left. {gold} \right.", f" {gold} ", rf"\displaystyle {gold}"])


def neighbour(gold: str, rng: Random) -> str:
    """Return a wrong answer near the gold."""
    number = read_number(gold)
    if number is not None:
        return str(number + rng.choice([1, -1, 10]))
    return rng.choice([rf"{gold} + 1", rf"2 \cdot ({gold})", rf"{gold}, 1", rf"\text{{not }} {gold}"])


def mixed_answers(golds: Sequence[str], count: int, seed: int = 0) -> list[Pair]:
    rng = Random(seed)
    pairs = []
    for _ in range(count):
        gold = rng.choice(golds)
        draw = rng.random()
        if draw < 0.1:
            pairs.append((rng.choice(["I could not work it out.", "", "So the \\boxed{", "It is \\boxed{}."]), gold))
            continue
        answer = dressed(gold, rng) if draw < 0.5 else neighbour(gold, rng) if draw < 0.85 else rng.choice(golds)
        pairs.append((rng.choice(FRAMES).format(answer), gold))
    return pairs


def library(pair: Pair) -> bool:
    from math_verify import parse, verify

    completion, gold = pair
    return bool(verify(parse(rf"\boxed{{{gold}}}"), parse(completion)))


def compare(pairs: Sequence[Pair], repeats: int) -> dict[str, Any]:
    """Judge different pairs in turn: by ours one by one and as a list, and by the library."""
    verifier, pairs = MathVerifier(), list(dict.fromkeys(pairs))
    sides: dict[str, Callable[[], list[bool]]] = {
        "agon": lambda: [verifier.score(*pair).score == 1.0 for pair in pairs],
        "agon_as_a_list": lambda: [verdict.score == 1.0 for verdict in verifier.score_many(pairs)],
        "math_verify": lambda: [library(pair) for pair in pairs],
    }
    verdicts: dict[str, list[bool]] = {}
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(repeats):
        for side, judge in sides.items():
            start = time.perf_counter()
            verdicts[side] = judge()
            seconds[side].append(time.perf_counter() - start)
    middle = {side: median(taken) for side, taken in seconds.items()}
    ours, theirs = verdicts["agon"], verdicts["math_verify"]
    apart = [
        {"gold": gold, "completion": completion, "agon": a, "math_verify": b}
        for (completion, gold), a, b in zip(pairs, ours, theirs, strict=True)
        if a != b
    ]
    return {
        "checks": len(pairs),
        "seconds": {side: spread(taken) for side, taken in seconds.items()},
        "times_as_fast_as_math_verify": {
            side: round(middle["math_verify"] / middle[side], 1) for side in sides if side != "math_verify"
        },
        "credited": {"agon": sum(ours), "math_verify": sum(theirs)},
        "credited_by_one": {
            "agon": sum(case["agon"] for case in apart),
            "math_verify": sum(case["math_verify"] for case in apart),
        },
        "apart": apart,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--golds", help="JSONL file with the field answer; default: the embedded sample")
    parser.add_argument("--answers", type=int, default=2000, help="mixed answers to make")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", help="where to write the JSON as well")
    arguments = parser.parse_args()
    golds = read_golds(arguments.golds)
    # both start warm: the worker and the library import sympy before the clock runs
    MathVerifier().score(r"\boxed{\sqrt{8}}", r"2\sqrt{2}")
    library((r"\boxed{\sqrt{8}}", r"2\sqrt{2}"))
    report = {
        "machine": machine("agon-env", "math-verify", "sympy"),
        "golds": compare([(rf"\boxed{{{gold}}}", gold) for gold in golds], arguments.repeats),
        "mixed": compare(mixed_answers(golds, arguments.answers), arguments.repeats),
    }
    publish(report, arguments.out)


if __name__ == "__main__":
    main()
