"""Rows of a data set, whatever its columns are called, and the problems that they hold."""

from __future__ import annotations

import codecs
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agon_env.errors import DependencyNotInstalled, TaskError
from agon_env.tasks.task import Problem, normalise_question
from agon_env.verifiers.extraction import extract_answer
from agon_env.verifiers.tolerance import with_tolerance
from agon_env.verifiers.units import read_unit

MAX_QUESTION, MAX_ANSWER = 200_000, 10_000
"""Characters from which on a question or an answer is taken for a mistake; a contest keeps 200,000 of a text as well."""
COLUMNS = ("question", "final_answer", "difficulty", "topic", "context", "unit", "tolerance")
"""The fields of the schema; the first two are required."""

_GSM8K = re.compile(r"(?:^|\n)####\s*(?P<answer>[^\n]+)\s*$")

Row = Mapping[str, Any]


class BadRow(ValueError):
    """A row can't be used; the message is one of a few words, so that reasons can be counted."""


def read_file(path: Path) -> Iterator[Row | BadRow]:
    """Yield the rows of a JSONL or Parquet file; a line that is not a JSON object comes as the reason why not.

    Raises:
        TaskError: there is no such file, its kind is not known, or it can't be read.
        DependencyNotInstalled: a Parquet file without pyarrow.
    """
    if not path.is_file():
        raise TaskError(
            f"there is no file {path}; a Hugging Face data set is named by hub_id=, for example hub_id={str(path)!r}"
        )
    if path.suffix in (".jsonl", ".json", ".ndjson"):
        return _read_jsonl(path)
    if path.suffix in (".parquet", ".pq"):
        return _read_parquet(path)
    raise TaskError(f"{path.name} is neither JSONL (.jsonl) nor Parquet (.parquet); convert it to one of them")


def read_hub(
    hub_id: str, hub_split: str, columns: Iterable[str] | None, *, subset: str | None = None
) -> Iterator[Row | BadRow]:
    """Return the rows of a Hugging Face data set, from its cache or the network.

    Args:
        hub_id: the data set.
        hub_split: its split.
        columns: the columns to read, None for all; those that it lacks are left out.
        subset: its configuration, for those that have several.

    Raises:
        DependencyNotInstalled: without the package `datasets`.
        TaskError: the data set could not be loaded. There is no fallback.
    """
    try:
        import datasets
    except ImportError as error:
        raise DependencyNotInstalled(
            f"the data set {hub_id} needs the package datasets; run: pip install 'agon-env[hub]'"
        ) from error
    try:
        data = datasets.load_dataset(hub_id, *([subset] if subset else []), split=hub_split)
    except Exception as error:
        raise TaskError(
            f"could not load split {hub_split!r} of the data set {hub_id}: {type(error).__name__}: {error}. Check the id, the "
            "network and HF_HUB_OFFLINE; or download it as Parquet or JSONL and give its path"
        ) from error
    return iter(data if columns is None else data.select_columns([name for name in columns if name in data.column_names]))


def problems_of(rows: Iterable[Row | BadRow], columns: Mapping[str, str]) -> tuple[tuple[Problem, ...], Counter[str]]:
    """Return the problems in `rows`, one for every distinct question, and how many rows were dropped for which reason.

    Args:
        rows: mappings from the data set's column names to values, or why one could not be read.
        columns: name of the schema → name in the data set.
    """
    problems: dict[str, Problem] = {}
    dropped: Counter[str] = Counter()
    for row in rows:
        try:
            found = sound(row)
            problem = problem_of({name: found.get(column) for name, column in columns.items()})
        except BadRow as reason:
            dropped[str(reason)] += 1
            continue
        if problem.id in problems:
            dropped["question repeated"] += 1
        problems.setdefault(problem.id, problem)
    return tuple(problems.values()), dropped


def sound(row: Row | BadRow) -> Row:
    """Return a row that could be read.

    Raises:
        BadRow: it could not.
    """
    if isinstance(row, BadRow):
        raise row
    return row


def problem_of(row: Row) -> Problem:
    """Return the problem in one row of the schema; its id is a hash of the question, so that it is stable everywhere.

    Raises:
        BadRow: a field is missing, empty or of the wrong type.
    """
    question = row.get("question")
    if not isinstance(question, str):
        raise BadRow("no question" if question is None else "question is not text")
    if not normalise_question(question):
        raise BadRow("question is empty")
    topic, context = row.get("topic"), row.get("context")
    if isinstance(context, str) and context.strip():
        question = f"{context.strip()}\n\n{question.strip()}"
    if len(question) > MAX_QUESTION:
        raise BadRow("question is too long")
    gold = gold_of(row.get("final_answer"))
    if len(gold) > MAX_ANSWER:
        raise BadRow("final_answer is too long")
    if (unit := row.get("unit")) and isinstance(unit, str):
        gold = with_unit(gold, unit)
    if (tolerance := tolerance_of(row.get("tolerance"))) is not None:
        gold = with_tolerance(gold, tolerance)
    return Problem(
        id=hashlib.sha256(normalise_question(question).encode("utf-8", "surrogatepass")).hexdigest()[:16],
        question=question.strip(),
        answer=gold,
        difficulty=difficulty_of(row.get("difficulty")),
        topic=topic if isinstance(topic, str) and topic else None,
    )


def gold_of(value: Any) -> str:
    r"""Return a gold answer as bare LaTeX.

    It may come as a number, as `$…$`, as a worked text that ends in `\boxed{…}` or (GSM8K) in a line `#### 1,080`, or
    as a list of such, all of which are asked for.

    Raises:
        BadRow: there is no answer in it.
    """
    if value is None:
        raise BadRow("no final_answer")
    if isinstance(value, int | float):
        if isinstance(value, float) and not math.isfinite(value):
            raise BadRow("final_answer is not finite")
        return str(int(value) if not isinstance(value, bool) and value == int(value) else value)
    if isinstance(value, list | tuple):
        if not value:
            raise BadRow("final_answer is empty")
        return ", ".join(map(gold_of, value))
    if not isinstance(value, str):
        raise BadRow("final_answer is neither text nor a number")
    if marked := _GSM8K.search(value):
        text = marked["answer"]
    else:
        text = extract_answer(value) or "" if r"\boxed" in value else value
    text = re.sub(r"^(?:\$+|\\\(|\\\[)|(?:\$+|\\\)|\\\])$", "", text.strip()).strip()
    if not text:
        raise BadRow("final_answer is empty")
    return text


def difficulty_of(value: Any) -> float | None:
    """Return a difficulty from a number or a text such as "4.5" or "Level 5"; None for a missing one and for "Level ?".

    Raises:
        BadRow: it is something else.
    """
    if isinstance(value, str):
        value = re.sub(r"^\s*level\s*", "", value, flags=re.IGNORECASE).strip(" ?")
    if value is None or value == "":
        return None
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise BadRow("difficulty is not a number")
    return number


def tolerance_of(value: Any) -> float | None:
    """Return how far from the gold an answer may be, from a number or a text such as "1e-2"; None for a missing one.

    Raises:
        BadRow: it is something else, or one of several tolerances for several answers.
    """
    if value is None or value == "":
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise BadRow("tolerance is not a number")
    return number or None


def with_unit(gold: str, unit: str) -> str:
    r"""Return a gold with its unit, if the verifier knows it: `8` and "$\mathrm{cm}$" → `8\text{ cm}`."""
    plain = re.sub(r"\\(?:mathrm|text|operatorname)|[{}$~\\]", "", unit).strip()
    return rf"{gold}\text{{ {plain}}}" if read_unit(plain, "") and "," not in gold and r"\text" not in gold else gold


def guessable(answer: str) -> bool:
    """Return whether an answer is Yes, No, True, False or a single letter."""
    return answer.strip(" .").casefold() in ("yes", "no", "true", "false") or bool(re.fullmatch(r"\(?[A-Za-z]\)?", answer))


def _read_jsonl(path: Path) -> Iterator[Row | BadRow]:
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file):  # at line feeds: what else Python calls line breaks, such as U+2028, is text
                if line.strip():
                    yield _row_of(line.removeprefix(codecs.BOM_UTF8) if number == 0 else line)
    except OSError as error:
        raise TaskError(f"{path} can't be read: {error}") from error


def _row_of(line: bytes) -> Row | BadRow:
    try:
        row = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        return BadRow("line is not UTF-8")
    except (ValueError, RecursionError):  # also an integer of thousands of digits
        return BadRow("line is not JSON")
    return row if isinstance(row, dict) else BadRow("line is not a JSON object")


def _read_parquet(path: Path) -> Iterator[Row]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise DependencyNotInstalled(f"the Parquet file {path} needs pyarrow; run: pip install 'agon-env[hub]'") from error
    try:
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise TaskError(f"{path} can't be read as Parquet ({error}); is it complete?") from error
