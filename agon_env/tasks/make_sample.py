"""Write the embedded sample of hard problems: `python -m agon_env.tasks.make_sample [path]`.

The sample is made for this package; it takes nothing from DeepMath-103K but the schema. The file is the same
on every run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from agon_env.tasks.sample import algebra, calculus, combinatorics, linear_algebra, number_theory, probability
from agon_env.tasks.sample.template import TEMPLATES, Template, agrees, latex
from agon_env.tasks.task import normalise_question

PER_TEMPLATE = 8
"""Problems that are drawn of each kind; fewer where the kind has fewer."""
ATTEMPTS = 40
TOPICS = (calculus, algebra, number_theory, combinatorics, linear_algebra, probability)
"""The modules that define templates; importing them registers these."""
SAMPLE = Path(__file__).parent / "data" / "deepmath_sample.jsonl"


def problems(kind: Template, count: int = PER_TEMPLATE) -> Iterator[dict[str, Any]]:
    """Yield up to `count` different problems of one kind, as rows of the DeepMath schema.

    Raises:
        AssertionError: the two ways to an answer disagree; the template is wrong.
    """
    seen: set[str] = set()
    for attempt in range(ATTEMPTS):
        draft = kind.draw(Random(f"{kind.name} {attempt}"))
        if normalise_question(draft.question) in seen:
            continue
        if not agrees(draft):
            raise AssertionError(f"{kind.name}, attempt {attempt}: {draft.answer} against {draft.check} in {draft.question}")
        seen.add(normalise_question(draft.question))
        yield {
            "question": draft.question,
            "final_answer": latex(draft.answer),
            "difficulty": draft.difficulty,
            "topic": kind.topic,
        }
        if len(seen) == count:
            return


def main(arguments: Sequence[str] = ()) -> None:
    """Write the sample to the path in `arguments`, by default to where the package reads it."""
    path = Path(arguments[0]) if arguments else SAMPLE
    rows = [row for kind in TEMPLATES.values() for row in problems(kind)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8", newline="\n")
    print(f"{len(rows)} problems of {len(TEMPLATES)} kinds written to {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
