"""Five hundred malformed rows: each is left out with its reason, or used as it is; nothing is run, nothing hangs."""

from __future__ import annotations

import gzip
import time
import warnings
from pathlib import Path

import pytest
from malformed_rows import GOOD, ROWS, line

import agon_env
from agents.policy import LLMPolicy
from agents.shared_base import SharedBase
from agon_env.errors import Error, TaskError
from agon_env.tasks.dataset import Dataset, from_dataset


def load(folder: Path, *lines: bytes, name: str = "rows.jsonl") -> Dataset:
    file = folder / name
    file.write_bytes(b"\n".join(lines))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return from_dataset(file, split=None)


@pytest.fixture(scope="module")
def reader() -> LLMPolicy:
    return SharedBase.load("embedded").policy(on_long_prompt="cut")


def test_there_are_five_hundred() -> None:
    assert len({row for row, _ in ROWS.values()}) == len(ROWS) == 500


def test_each_row_ends_in_the_documented_way(tmp_path: Path) -> None:
    wrong = {}
    for name, (row, why) in ROWS.items():
        task = load(tmp_path, line(), row, line(question="And what is 2 + 2?", final_answer=4))
        expected = {} if why is None else {why: 1}
        if task.dropped != expected or task.size != (3 if why is None else 2):
            wrong[name] = (dict(task.dropped), task.size)
    assert wrong == {}


def test_rows_that_are_used_can_be_read_and_judged(tmp_path: Path, reader: LLMPolicy) -> None:
    task = load(tmp_path, *(row for row, why in ROWS.values() if why is None))
    env = agon_env.make("DeepMathDuel-v0", task=task)
    assert task.size is not None
    start = time.monotonic()
    for index in range(task.size):
        observation, _ = env.reset(seed=index, options={"index": index})
        assert 0 < len(reader.encode(observation)) <= reader.base.context_length
        env.step(task.solution(task[index]))
        assert len(reader.encode(env.observe())) <= reader.base.context_length
        env.step("\\boxed{a}")
        assert env.outcome is not None
        assert env.outcome.reason == "completed"
        assert set(env.outcome.scores.values()) <= {None, 0.0, 1.0}
    assert time.monotonic() - start < 60
    assert not Path("/tmp/agon-was-here").exists()


def test_repeated_questions_count_once(tmp_path: Path) -> None:
    alike = ["What is 17 + 25?", "what is 17 + 25", "  WHAT  IS 17 + 25 ?! ", "What is １７ + 25?", "What\tis\n17 + 25?"]
    task = load(tmp_path, *(line(question=question, final_answer=number) for number, question in enumerate(alike)))
    assert (task.size, task.dropped, task[0].answer) == (1, {"question repeated": len(alike) - 1}, "0")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.jsonl", b"", "holds no usable row; dropped none"),
        ("blank.jsonl", b"\n \n\n", "holds no usable row; dropped none"),
        ("other.jsonl", b'{"prompt": "a"}\n', "question in column 'question'.*see columns="),
        ("packed.jsonl", gzip.compress(line()), "line is not UTF-8"),
        ("text.parquet", line(), "can't be read as Parquet"),
        ("empty.parquet", b"", "can't be read as Parquet"),
        ("rows.csv", b"question,final_answer\n", "neither JSONL .* nor Parquet"),
    ],
)
def test_files_without_a_usable_row_are_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        load(tmp_path, content, name=name)


def test_half_written_parquet_is_refused(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow: pip install 'agon-env[hub]'")
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.Table.from_pylist([GOOD] * 100), file)
    whole = file.read_bytes()
    for length in (1, 4, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:length])
        with pytest.raises(TaskError, match="can't be read as Parquet"):
            from_dataset(file, split=None)
    file.write_bytes(whole[:40] + bytes(60) + whole[100:])
    with pytest.raises(Error):
        from_dataset(file, split=None)


def test_a_byte_order_mark_at_the_start_is_none_of_the_data(tmp_path: Path) -> None:
    assert load(tmp_path, b"\xef\xbb\xbf" + line()).size == 1


def test_a_file_that_can_not_be_opened_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.jsonl").write_bytes(line())
    monkeypatch.setattr("builtins.open", lambda *_, **__: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    with pytest.raises(TaskError, match=r"rows\.jsonl can't be read"):
        from_dataset(tmp_path / "rows.jsonl", split=None)
