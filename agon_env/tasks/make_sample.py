"""Write the embedded samples: `python -m agon_env.tasks.make_sample [folder]`.

The samples are made for this package; they take nothing from the data sets that they stand in for but the manner.
The files are the same on every run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from agon_env.tasks.sample import (
    algebra,
    calculus,
    combinatorics,
    invitational,
    linear_algebra,
    number_theory,
    probability,
    school,
    word_problems,
)
from agon_env.tasks.sample.template import TEMPLATES, Template, agrees, latex
from agon_env.tasks.task import normalise_question

PER_TEMPLATE = 8
"""Problems that are drawn of each kind; fewer where the kind has fewer."""
ATTEMPTS = 40
TOPICS = (calculus, algebra, number_theory, combinatorics, linear_algebra, probability, word_problems, school, invitational)
"""The modules that define templates; importing them registers these."""
FOLDER = Path(__file__).parent / "data"


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
    """Write the samples to the folder in `arguments`, by default to where the package reads them."""
    folder = Path(arguments[0]) if arguments else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for sample in dict.fromkeys(kind.sample for kind in TEMPLATES.values()):
        kinds = [kind for kind in TEMPLATES.values() if kind.sample == sample]
        rows = [row for kind in kinds for row in problems(kind)]
        path = folder / f"{sample}_sample.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8", newline="\n")
        print(f"{len(rows)} problems of {len(kinds)} kinds written to {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
