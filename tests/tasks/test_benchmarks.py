"""The well-known data sets: what their rows look like, and what becomes of them."""

import json
import pickle
import re
import warnings
from pathlib import Path

import pytest

import agon_env
from agon_env.errors import TaskError
from agon_env.tasks import Task, load_task, require_disjoint, shared_questions, split_of
from agon_env.tasks.benchmarks import AIME, AMC, BENCHMARKS, GSM8K, MATH, MATH500, Minerva, OlympiadBench
from agon_env.tasks.dataset import Dataset, from_dataset
from agon_env.tasks.mixture import Mixture
from agon_env.tasks.rows import BadRow, gold_of, tolerance_of
from agon_env.tasks.task import normalise_question
from agon_env.verifiers import MathVerifier, Verdict
from agon_env.verifiers.exact import read_number

pytestmark = pytest.mark.filterwarnings("ignore:.*embedded sample")


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


ROWS = {
    GSM8K: (
        {"question": "How many?", "answer": "He has 3*360=<<3*360=1080>>1080.\n#### 1,080"},
        ("How many?", "1,080", None, None),
    ),
    MATH: (
        {
            "problem": "Find $x$.",
            "level": "Level 5",
            "type": "Algebra",
            "solution": r"First \boxed{1}. So $x = \boxed{\frac{1}{2}}$.",
        },
        ("Find $x$.", r"\frac{1}{2}", 5.0, "Algebra"),
    ),
    MATH500: (
        {"problem": "Find $x$.", "answer": "7", "level": 3, "subject": "Geometry", "solution": r"\boxed{7}"},
        ("Find $x$.", "7", 3.0, "Geometry"),
    ),
    AIME: ({"id": 60, "problem": "Find $m+n$.", "answer": "025", "year": "2024"}, ("Find $m+n$.", "025", None, None)),
    AMC: ({"id": 0, "problem": "Find $m+n$.", "answer": 142.0}, ("Find $m+n$.", "142", None, None)),
    OlympiadBench: (
        {"question": "Find all.", "final_answer": ["$2$", "$-2$"], "difficulty": "Competition", "subfield": "Algebra",
         "context": None, "unit": None, "error": None, "is_multiple_answer": True},
        ("Find all.", "2, -2", None, "Algebra"),
    ),
    Minerva: ({"question": "What mass?", "answer": r"9.6\times10^{10}"}, ("What mass?", r"9.6\times10^{10}", None, None)),
}  # fmt: skip


@pytest.mark.parametrize("benchmark", ROWS, ids=lambda benchmark: benchmark.name)
def test_the_rows_of_each_are_read(benchmark, tmp_path):
    row, expected = ROWS[benchmark]
    task = benchmark(write(tmp_path / "rows.jsonl", [row]), split=None)
    assert isinstance(task, Task)
    problem = task[0]
    assert (problem.question, problem.answer, problem.difficulty, problem.topic) == expected
    assert task.verifier.score(task.solution(problem), problem.answer).score == 1.0
    assert [*pickle.loads(pickle.dumps(task))] == [*task]


def test_units_tolerances_and_contexts(tmp_path):
    row = {
        "context": "A beam is given.",
        "question": "How long is it?",
        "final_answer": ["$9.81$"],
        "unit": r"$\mathrm{~cm}$",
        "error": "1e-2",
    }
    task = OlympiadBench(write(tmp_path / "rows.jsonl", [row]), split=None)
    problem = task[0]
    assert problem.question == "A beam is given.\n\nHow long is it?"
    judged = {
        answer: task.verifier.score(rf"\boxed{{{answer}}}", problem.answer).score
        for answer in ("9.81", r"9.81\text{ cm}", "9.82", "9.8", "9.79", r"9.81\text{ m}", r"\frac{981}{100}", "x")
    }
    assert judged == {
        "9.81": 1.0, r"9.81\text{ cm}": 1.0, "9.82": 1.0, "9.8": 1.0, "9.79": 0.0, r"9.81\text{ m}": 0.0,
        r"\frac{981}{100}": 1.0, "x": 0.0,
    }  # fmt: skip
    assert task.verifier.score(task.solution(problem), problem.answer).score == 1.0


def test_tolerances():
    assert (tolerance_of("1e-1"), tolerance_of(0.5), tolerance_of(None), tolerance_of(""), tolerance_of(0)) == (
        0.1, 0.5, None, None, None,
    )  # fmt: skip
    for wrong in ("1e-1,1e-2", "some", -1, [1], float("inf")):
        with pytest.raises(BadRow, match="tolerance"):
            tolerance_of(wrong)


@pytest.mark.parametrize(
    ("value", "gold"),
    [
        ("work\n#### 18", "18"),
        ("work\n#### -1,234.50 ", "-1,234.50"),
        ("#### a heading\nand then 5", "#### a heading\nand then 5"),
        (["$1$", 2, r"\boxed{3}"], "1, 2, 3"),
        (27.0, "27"),
        ("27.0", "27.0"),
    ],
)
def test_golds(value, gold):
    assert gold_of(value) == gold


def test_an_empty_list_is_no_gold():
    with pytest.raises(BadRow, match="empty"):
        gold_of([])


@pytest.mark.parametrize("benchmark", BENCHMARKS.values(), ids=BENCHMARKS)
def test_without_a_path_it_is_a_named_sample_or_an_error(benchmark):
    if benchmark.origin.sample is None:
        with pytest.raises(TaskError, match=rf"no embedded sample; pass hub_id='{benchmark.origin.hub_id}'"):
            benchmark()
        return
    with pytest.warns(UserWarning, match=rf"{benchmark.__name__} uses the embedded sample.*{benchmark.origin.hub_id}"):
        task = benchmark()
    assert "embedded sample" in task.source
    assert task.size >= 60
    pairs = [(task.solution(problem), problem.answer) for problem in task]
    assert {verdict.score for verdict in task.verifier.score_many(pairs)} == {1.0}


@pytest.mark.parametrize("benchmark", BENCHMARKS.values(), ids=BENCHMARKS)
def test_the_hub_is_asked_for_what_is_declared(benchmark, monkeypatch):
    datasets = pytest.importorskip("datasets")
    names = {"question": "question", "final_answer": "final_answer"} | dict(benchmark.origin.columns)
    asked = []

    def load(*where, split):
        asked.append((*where, split))
        return datasets.Dataset.from_list([{names["question"]: f"q{n}", names["final_answer"]: str(n)} for n in range(30)])

    monkeypatch.setattr(datasets, "load_dataset", load)
    origin = benchmark.origin
    assert benchmark(hub_id=origin.hub_id, split=None).size == 30
    assert benchmark(hub_id=origin.hub_id, split=None, hub_split="dev", subset="other").size == 30
    subset = () if origin.subset is None else (origin.subset,)
    assert asked == [(origin.hub_id, *subset, origin.hub_split), (origin.hub_id, "other", "dev")]


class Length:
    """Pays for texts as long as the gold says."""

    def score(self, completion, gold):
        return Verdict(float(len(completion) == int(gold)), str(len(completion)), "length")

    def score_many(self, pairs):
        return [self.score(*pair) for pair in pairs]


def test_any_data_set(tmp_path, monkeypatch):
    rows = [{"prompt": f"Write {n} letters.", "n": n, "level": "Level ?"} for n in range(1, 40)]
    path = write(tmp_path / "letters.jsonl", rows)
    columns = {"question": "prompt", "final_answer": "n", "difficulty": "level"}
    task = from_dataset(path, columns=columns, split=None)
    assert (task.name, task.size, task[4].answer, task[4].difficulty) == ("letters", 39, "5", None)
    assert task.verifier == MathVerifier()
    own = from_dataset(path, columns=columns, split=None, verifier=Length(), name="lengths")
    env = agon_env.make("MATHSolo-v0", task=own)
    env.reset(seed=0, options={"index": 4})
    env.step("aaaaa")
    assert env.outcome.scores == {"alice": 1.0}
    assert isinstance(pickle.loads(pickle.dumps(own)).verifier, Length)
    with pytest.raises(TaskError, match="no verifier 'guess'; choose one of math"):
        from_dataset(path, columns=columns, verifier="guess")
    with pytest.raises(TaskError, match="there is no file"):
        from_dataset(tmp_path / "missing.jsonl")
    named = agon_env.make("MATHSolo-v0", task="dataset", path_or_id=str(path), columns=columns, split=None)
    assert named.task.size == 39
    assert from_dataset(path=path, columns=columns, split=None).size == 39
    for where in ({}, {"path_or_id": path, "path": path}, {"path": path, "hub_id": "someone/letters"}):
        with pytest.raises(TaskError, match="name one data set, by path_or_id="):
            from_dataset(columns=columns, **where)
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets, "load_dataset", lambda *where, split: datasets.Dataset.from_list(rows))
    for where in ({"path_or_id": "someone/letters"}, {"hub_id": "someone/letters"}):
        assert from_dataset(**where, columns=columns, split=None).source == "Hugging Face data set someone/letters"


def test_a_data_set_must_be_named():
    with pytest.raises(TaskError, match="name a data set"):
        Dataset()


# --- contamination ----------------------------------------------------------------------------------


def test_held_out_questions_are_held_out_across_data_sets_and_mixtures(tmp_path):
    questions = [f"What is {n} plus {n}?" for n in range(200)]
    plain = write(tmp_path / "plain.jsonl", [{"question": q, "answer": "1"} for q in questions])
    dressed = write(tmp_path / "dressed.jsonl", [{"problem": "  " + q.upper() + " ", "answer": "1"} for q in questions])
    trains = {"gsm8k": {"path": str(plain)}, "aime": {"path": str(dressed)}}
    mixture = {split: Mixture({"gsm8k": 1, "aime": 1}, split=split, options=trains) for split in ("train", "test")}
    seen = {split: {normalise_question(task[i].question) for i in range(2000)} for split, task in mixture.items()}
    assert not seen["train"] & seen["test"]
    assert len(seen["train"]) + len(seen["test"]) > 180
    require_disjoint(mixture["train"], AIME(dressed, split="test"))
    assert shared_questions(mixture["train"], AIME(dressed, split="train"))
    with pytest.raises(TaskError, match=r"\d+ questions are in .*plain.jsonl and in .*dressed.jsonl, for example"):
        require_disjoint(GSM8K(plain, split="train"), AIME(dressed, split=None))


def test_the_samples_do_not_share_questions_between_splits():
    for name in ("deepmath", "gsm8k", "math", "aime"):
        require_disjoint(load_task(name, split="train"), load_task(name, split="test"))


# --- mixtures ---------------------------------------------------------------------------------------


def test_a_mixture_draws_in_proportion_and_hands_answers_to_their_verifiers():
    mixture = Mixture({"arithmetic": 3, "gsm8k": 1}, split="test")
    problems = [mixture[i] for i in range(400)]
    assert problems == [mixture[i] for i in range(400)]
    assert problems != [Mixture({"arithmetic": 3, "gsm8k": 1}, split="test", seed=1)[i] for i in range(400)]
    names = [problem.id.split("/")[0] for problem in problems]
    assert 260 < names.count("arithmetic") < 340
    assert {split_of(problem.question) for problem in problems} == {"test"}
    pairs = [(mixture.solution(problem), problem.answer) for problem in problems]
    assert {verdict.score for verdict in mixture.verifier.score_many(pairs)} == {1.0}
    assert {verdict.score for verdict in mixture.verifier.score_many([("no idea", gold) for _, gold in pairs])} == {0.0}
    assert mixture.verifier.score(r"\boxed{1}", "unheard of: 1") == Verdict(None, None, "no gold")


def test_each_problem_of_a_mixture_brings_its_instruction():
    env = agon_env.make("MATHSolo-v0", task="mixture", weights={"arithmetic": 1, "gsm8k": 1})
    instructions = {env.reset(seed=seed)[0].text.rsplit("\n\n", 1)[1] for seed in range(20)}
    assert instructions == {load_task(name).instruction for name in ("arithmetic", "gsm8k")}
    assert pickle.loads(pickle.dumps(env)).observe() == env.observe()


def test_wrong_mixtures_are_refused():
    for weights in ({}, {"gsm8k": 0}, {"gsm8k": -1}, {"gsm8k": float("nan")}):
        with pytest.raises(TaskError, match="numbers above 0"):
            Mixture(weights)
    with pytest.raises(TaskError, match="no task 'gsm9k'"):
        Mixture({"gsm9k": 1})
    with pytest.raises(TaskError, match="'math' has options or a task"):
        Mixture({"gsm8k": 1}, options={"math": {}})
    with pytest.raises(TaskError, match="split='test', the mixture has 'train'"):
        Mixture({"mine": 1}, tasks={"mine": load_task("gsm8k", split="test")})


# --- real rows --------------------------------------------------------------------------------------

SHARED = Path(__file__).parents[3] / "shared" / "data"
REAL = {
    "deepmath_sample.jsonl": ("deepmath", {"columns": {"question": "prompt", "final_answer": "ground_truth"}}),
    "gsm8k_test.jsonl": ("gsm8k", {}),
    "math500.jsonl": ("math500", {}),
}


def spoiled(gold: str) -> list[str]:
    """Return wrong answers made from a gold."""
    number = read_number(gold)
    if number is not None:
        return [str(number + 1), str(-number) if number else "1", str(number * 10 + 1), f"{gold}, {gold}1"]
    if gold.lower() in ("yes", "no", "true", "false"):
        return [{"yes": "No", "no": "Yes", "true": "False", "false": "True"}[gold.lower()], "maybe", "1", "0"]
    if re.fullmatch(r"\(?[A-Z]\)?", gold):
        return [chr(ord(gold.strip("()")) % 90 % 65 + 66), gold.lower(), "1"]
    return [rf"{gold} + 1", rf"\text{{not }} {gold}", rf"2 \cdot ({gold}) + \sqrt{{13}}", "12345678", rf"{gold}, 99"]


@pytest.mark.skipif(not SHARED.exists(), reason="the shared rows are not here")
@pytest.mark.parametrize("file", REAL)
def test_golds_of_real_rows_meet_themselves_and_nothing_made_from_them(file):
    name, options = REAL[file]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        task = load_task(name, path=str(SHARED / file), split=None, **options)
    rows = sum(1 for line in (SHARED / file).read_text(encoding="utf-8").split("\n") if line)
    assert task.size + task.dropped.get("question repeated", 0) >= 0.995 * rows
    right = task.verifier.score_many([(task.solution(problem), problem.answer) for problem in task])
    assert [problem.answer for problem, verdict in zip(task, right, strict=True) if verdict.score != 1.0] == []
    wrong = [(rf"So \boxed{{{answer}}}.", problem.answer) for problem in task for answer in spoiled(problem.answer)]
    verdicts = MathVerifier(deadline=10).score_many(wrong)
    assert [pair for pair, verdict in zip(wrong, verdicts, strict=True) if verdict.score != 0.0] == []
