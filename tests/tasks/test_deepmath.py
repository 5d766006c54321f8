"""DeepMath: where its rows come from, what is dropped, and that nothing is replaced in silence."""

import copy
import json
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import agon_env
from agon_env.errors import DependencyNotInstalled, TaskError
from agon_env.tasks import Task, load_task, split_of
from agon_env.tasks.benchmarks import DeepMath
from agon_env.tasks.rows import BadRow, difficulty_of, gold_of, guessable
from agon_env.tasks.task import normalise_question

HUB_ID = DeepMath.origin.hub_id

ROWS = [
    {
        "question": f"What is {n} plus {n}, in problem {n}?",
        "final_answer": str(2 * n),
        "difficulty": 5 + n % 9 / 2,
        "topic": "Sums",
    }
    for n in range(60)
]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def data(tmp_path):
    return write(tmp_path / "rows.jsonl", ROWS)


def embedded(**options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DeepMath(**options)


def test_without_a_path_it_is_the_embedded_sample_and_says_so():
    with pytest.warns(UserWarning, match=r"embedded sample.*hub_id='zwhe99/DeepMath-103K'"):
        task = DeepMath()
    assert isinstance(task, Task)
    assert task.embedded_sample
    assert "embedded sample" in task.source
    assert task.size >= 200
    assert task[0].difficulty >= 5


def test_every_maker_of_the_duel_is_told():
    for _ in range(2):
        with pytest.warns(UserWarning, match="embedded sample"):
            env = agon_env.make("DeepMathDuel-v0")
    _, info = env.reset(seed=3)
    assert "embedded sample" in info["source"]
    env.step(env.solution("drafter"))
    env.step("I do not know.")
    assert env.outcome.scores == {"alice": 1.0, "bob": 0.0}


def test_a_file_needs_no_warning_and_is_named(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        task = DeepMath(data, split=None)
    assert not task.embedded_sample
    assert str(data) in task.source
    assert [problem.question for problem in task] == [row["question"] for row in ROWS]
    assert (task[3].answer, task[3].difficulty, task[3].topic) == ("6", 6.5, "Sums")


def test_random_access_wraps_around_and_ids_are_stable(data):
    task = DeepMath(data, split=None)
    assert task[0] == task[60] == task[6000]
    with pytest.raises(IndexError, match="use one from 0"):
        task[-1]
    reordered = DeepMath(write(data.parent / "reversed.jsonl", ROWS[::-1]), split=None)
    assert {problem.id: problem for problem in task} == {problem.id: problem for problem in reordered}
    assert len({problem.id for problem in task}) == 60


@pytest.mark.parametrize(
    "make", [embedded, lambda **options: DeepMath(options.pop("path"), **options)], ids=["embedded", "file"]
)
def test_train_and_test_share_no_question(make, data):
    options = {} if make is embedded else {"path": data}
    parts = {split: make(split=split, **options) for split in ("train", "test")}
    questions = {split: {normalise_question(problem.question) for problem in task} for split, task in parts.items()}
    assert not questions["train"] & questions["test"]
    assert len(questions["train"]) + len(questions["test"]) == make(split=None, **options).size
    assert all(split_of(problem.question) == split for split, task in parts.items() for problem in task)


def test_a_question_keeps_its_split_when_only_its_dress_changes():
    for row in ROWS:
        question = row["question"]
        assert split_of(question) == split_of("  " + question.upper().replace(" ", "  \n") + " ?")


def test_repeated_questions_are_kept_once(tmp_path):
    again = [{**row, "question": row["question"].upper() + "  "} for row in ROWS[:7]]
    with pytest.warns(UserWarning, match=r"7 \(question repeated\)"):
        task = DeepMath(write(tmp_path / "twice.jsonl", ROWS + again), split=None)
    assert task.size == 60


def test_a_file_without_held_out_questions_says_so(tmp_path):
    few = [row for row in ROWS if split_of(row["question"]) == "train"][:3]
    path = write(tmp_path / "few.jsonl", few)
    assert DeepMath(path).size == 3
    with pytest.raises(
        TaskError, match=r"3 problems, but none with split='test': one question in ten .*--eval-problems 0"
    ) as few:
        DeepMath(path, split="test")
    assert "difficulty" not in str(few.value)


def test_difficulty_keeps_both_ends_and_takes_text(tmp_path):
    rows = [{**row, "difficulty": str(row["difficulty"])} for row in ROWS]
    task = DeepMath(write(tmp_path / "text.jsonl", rows), split=None, difficulty=(6, 7.5))
    assert {problem.difficulty for problem in task} == {6.0, 6.5, 7.0, 7.5}
    with pytest.raises(TaskError, match=r"60 problems, but none with split='train' and difficulty from 9.5 to 10; widen one"):
        DeepMath(tmp_path / "text.jsonl", difficulty=(9.5, 10))
    with pytest.raises(TaskError, match=r"60 problems, but none with difficulty from 9.5 to 10; widen it"):
        DeepMath(tmp_path / "text.jsonl", split=None, difficulty=(9.5, 10))
    for wrong in (5, (7, 5), ("easy", "hard")):
        with pytest.raises(TaskError, match="least, greatest"):
            DeepMath(tmp_path / "text.jsonl", difficulty=wrong)


BAD = [
    ({"final_answer": "1"}, "no question"),
    ({"question": 5, "final_answer": "1"}, "question is not text"),
    ({"question": " .", "final_answer": "1"}, "question is empty"),
    ({"question": "q1"}, "no final_answer"),
    ({"question": "q2", "final_answer": "$ $"}, "final_answer is empty"),
    ({"question": "q3", "final_answer": r"\boxed{"}, "final_answer is empty"),
    ({"question": "q4", "final_answer": {"a": 1}}, "final_answer is neither text nor a number"),
    ({"question": "q5", "final_answer": float("nan")}, "final_answer is not finite"),
    ({"question": "q6", "final_answer": "1", "difficulty": "hard"}, "difficulty is not a number"),
    ({"question": "q7", "final_answer": "1", "difficulty": [5]}, "difficulty is not a number"),
    ([1, 2], "line is not a JSON object"),
]


def test_bad_rows_are_counted_and_reported(tmp_path):
    path = write(tmp_path / "mixed.jsonl", ROWS[:5] + [row for row, _ in BAD])
    with open(path, "a", encoding="utf-8") as file:
        file.write('\n{"question": "torn')
    with pytest.warns(UserWarning, match=r"dropped 1 \(difficulty|dropped 2 \(difficulty"):
        task = DeepMath(path, split=None)
    assert task.size == 5
    expected = [reason for _, reason in BAD] + ["line is not JSON"]
    assert task.dropped == {reason: expected.count(reason) for reason in expected}


def test_nothing_left_is_an_error_that_names_the_columns(tmp_path):
    rows = [{"prompt": row["question"], "ground_truth": row["final_answer"]} for row in ROWS]
    path = write(tmp_path / "other.jsonl", rows)
    with pytest.raises(TaskError, match=r"no usable row; dropped 60 \(no question\).*question in column 'question'.*columns="):
        DeepMath(path)
    task = DeepMath(path, split=None, columns={"question": "prompt", "final_answer": "ground_truth"})
    assert (task[2].answer, task[2].difficulty, task[2].topic) == ("4", None, None)
    with pytest.raises(TaskError, match="it has no 'answer'"):
        DeepMath(path, columns={"answer": "ground_truth"})


def test_line_breaks_of_unicode_stay_in_the_text(tmp_path):
    path = tmp_path / "breaks.jsonl"
    path.write_text(json.dumps({"question": "a\u2028b\x85c", "final_answer": "1"}, ensure_ascii=False) + "\n", encoding="utf-8")
    assert DeepMath(path, split=None)[0].question == "a\u2028b\x85c"


@pytest.mark.parametrize(
    ("value", "gold"),
    [("$\\frac{1}{2}$", r"\frac{1}{2}"), (r"so \boxed{\frac{1}{2}}.", r"\frac{1}{2}"), (3, "3"), (3.0, "3"), (0.25, "0.25"),
     (r"\(7\)", "7"), (" x + 1 ", "x + 1"), (True, "True")],
)  # fmt: skip
def test_golds_become_bare_latex(value, gold):
    assert gold_of(value) == gold


def test_difficulties():
    assert (difficulty_of("4.5"), difficulty_of(7), difficulty_of(None), difficulty_of("")) == (4.5, 7.0, None, None)
    for value in ("hard", True, [1], "nan"):
        with pytest.raises(BadRow):
            difficulty_of(value)


def test_guessable_rows_can_be_dropped(tmp_path):
    answers = ["Yes", "no", "TRUE", "False.", "B", "(C)", "k", "12", r"\pi", "Yes, twice"]
    assert [answer for answer in answers if not guessable(answer)] == ["12", r"\pi", "Yes, twice"]
    rows = [{"question": f"q{i}", "final_answer": answer} for i, answer in enumerate(answers)]
    path = write(tmp_path / "g.jsonl", rows)
    assert DeepMath(path, split=None, drop_guessable=True).size == 3
    assert DeepMath(path, split=None).size == len(answers)


def test_solutions_score(data):
    task = DeepMath(data, split=None)
    pairs = [(task.solution(problem), problem.answer) for problem in task]
    assert all(verdict.score == 1.0 for verdict in task.verifier.score_many(pairs))
    assert task.solution(task[1]).endswith(r"\boxed{2}")
    assert r"\boxed{}" in task.instruction


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
    assert list(DeepMath(path, split=None)) == list(DeepMath(write(tmp_path / "rows.jsonl", ROWS), split=None))


def test_missing_files_and_kinds(tmp_path):
    with pytest.raises(TaskError, match=r"there is no file .*hub_id="):
        DeepMath(tmp_path / "none.jsonl")
    (tmp_path / "rows.csv").write_text("question,final_answer\n", encoding="utf-8")
    with pytest.raises(TaskError, match=r"neither JSONL .* nor Parquet"):
        DeepMath(tmp_path / "rows.csv")
    with pytest.raises(TaskError, match="not both"):
        DeepMath("a.jsonl", hub_id=HUB_ID)
    with pytest.raises(TaskError, match="split is"):
        DeepMath(split="validation")


def test_a_named_data_set_never_falls_back(monkeypatch):
    datasets = pytest.importorskip("datasets")

    def unreachable(*_, **__):
        raise ConnectionError("no route to the hub")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(TaskError, match=rf"could not load split 'train' of the data set {HUB_ID}: ConnectionError.*path"):
        DeepMath(hub_id=HUB_ID)


def test_a_hub_data_set_is_read_by_its_columns(monkeypatch):
    datasets = pytest.importorskip("datasets")
    rows = [{**row, "r1_solution_1": "long"} for row in ROWS]
    asked = []

    def load(hub_id, split):
        asked.append((hub_id, split))
        return datasets.Dataset.from_list(rows)

    monkeypatch.setattr(datasets, "load_dataset", load)
    task = DeepMath(hub_id=DeepMath.origin.hub_id, split=None)
    assert asked == [(HUB_ID, "train")]
    assert task.size == 60
    assert HUB_ID in task.source


@pytest.mark.parametrize(("module", "options"), [("datasets", {"hub_id": HUB_ID}), ("pyarrow", {"path": "rows.parquet"})])
def test_a_missing_package_is_named_with_its_command(module, options, tmp_path, monkeypatch):
    (tmp_path / "rows.parquet").touch()
    monkeypatch.chdir(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DependencyNotInstalled, match=r"pip install 'agon-env\[hub\]'"):
        DeepMath(**options)


def test_copies_are_cheap(data, monkeypatch):
    task = DeepMath(data, split=None, difficulty=(5, 7))
    assert copy.deepcopy(task) is task
    pickled = pickle.dumps(task)
    assert len(pickled) < 1000
    assert list(pickle.loads(pickled)) == list(task)
    monkeypatch.chdir(data.parent)
    relative = pickle.dumps(DeepMath("rows.jsonl", split=None))
    monkeypatch.chdir(Path(__file__).parent)
    assert pickle.loads(relative).size == 60


def test_problems_cannot_be_changed(data):
    task = DeepMath(data, split=None)
    with pytest.raises(AttributeError):
        task[0].answer = "other"
    with pytest.raises(TypeError):
        task.dropped["reason"] = 1


def test_load_task_shares_and_checks_its_options(data):
    options = {"path": str(data), "split": None, "columns": {"topic": "area"}, "difficulty": [5, 9]}
    assert load_task("deepmath", **options) is load_task("deepmath", **copy.deepcopy(options))
    assert load_task("deepmath", path=str(data), drop_guessable=True) is not load_task("deepmath", path=str(data))
    with pytest.raises(TypeError, match=r"the option 'dificulty'; it takes path, hub_id, .*difficulty"):
        load_task("deepmath", dificulty=(5, 6))
    with pytest.raises(TypeError, match=r"'arithmetic' does not take the option 'path'; it takes"):
        load_task("arithmetic", path="x")
    with pytest.raises(TaskError, match="choose one of arithmetic, subset_sum, chain_search, deepmath"):
        load_task("deepmaths")


def test_loading_imports_neither_sympy_nor_datasets():
    program = (
        "import sys, warnings; warnings.simplefilter('ignore'); import agon_env\n"
        "agon_env.make('DeepMathSolo-v0').reset(seed=0)\n"
        "print({'sympy', 'mpmath', 'datasets', 'pyarrow', 'torch', 'math_verify'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == "set()"


SHARED = Path(__file__).parents[3] / "shared" / "data" / "deepmath_sample.jsonl"


@pytest.mark.skipif(not SHARED.exists(), reason="the shared rows are not here")
def test_real_rows_in_another_layout():
    columns = {"question": "prompt", "final_answer": "ground_truth"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        task = DeepMath(SHARED, split=None, columns=columns)
        hard = DeepMath(SHARED, split=None, columns=columns, difficulty=(7, 10), drop_guessable=True)
    assert task.size + sum(task.dropped.values()) == sum(1 for line in SHARED.read_text(encoding="utf-8").split("\n") if line)
    assert sum(task.dropped.values()) <= 5
    assert 300 < hard.size < task.size
    verdicts = task.verifier.score_many([(task.solution(problem), problem.answer) for problem in task])
    assert all(verdict.score == 1.0 for verdict in verdicts)
