"""Programming problems: the embedded set, the shapes of the well-known sets with the traps of their rows, the contests."""

import base64
import copy
import itertools
import json
import os
import pickle
import random
import zlib
from collections import Counter
from pathlib import Path

import pytest

import agon_env
from agon_env.errors import TaskError
from agon_env.tasks import load_task
from agon_env.tasks.code import PROGRAMS, CodeTask
from agon_env.tasks.code_rows import SHAPES, read_problem
from agon_env.tasks.make_programs import PER_KIND, answers, main, problems
from agon_env.tasks.programs.kind import KINDS
from agon_env.tasks.rows import BadRow
from agon_env.verifiers.code import CodeVerifier
from agon_env.verifiers.code_tests import CodeTests

ROWS = [json.loads(line) for line in PROGRAMS.read_text(encoding="utf-8").split("\n") if line]
VERIFIER = CodeVerifier(allow_unisolated=True)


def test_the_embedded_set_is_large_and_varied():
    assert len(ROWS) >= 150
    assert set(Counter(row["kind"] for row in ROWS)) == {"stdio", "assert", "call"}
    assert min(Counter(row["kind"] for row in ROWS).values()) >= 40
    assert all(len(row["tests"]) >= 6 and 1 <= row["difficulty"] <= 5 for row in ROWS)
    train, test = CodeTask(), CodeTask(split="test")
    assert train.size + test.size == len(ROWS)
    assert test.size >= 5
    assert not {problem.question for problem in train} & {problem.question for problem in test}
    assert train.dropped == {}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_made_again_as_in_the_file(name):
    # the two ways to every expected value are compared on the way
    made = list(problems(KINDS[name]))
    assert 2 <= len(made) <= PER_KIND
    assert all(json.loads(json.dumps(row)) in ROWS for row in made)


def test_the_file_is_complete(tmp_path, capsys):
    main([str(tmp_path / "new" / "programs.jsonl")])
    assert (tmp_path / "new" / "programs.jsonl").read_bytes() == PROGRAMS.read_bytes()
    assert f"{len(ROWS)} problems of {len(KINDS)} kinds" in capsys.readouterr().out


def test_two_answers_that_differ_are_noticed():
    draft = KINDS["josephus"].draw(random.Random(0))
    assert answers("josephus", draft)
    object.__setattr__(draft, "check", lambda n: 0)
    with pytest.raises(AssertionError, match="against"):
        answers("josephus", draft)


def judged(task, picked):
    return VERIFIER.score_many([(task.solution(problem), problem.answer) for problem in picked])


def test_reference_solutions_pass_and_those_of_other_problems_fail():
    task = CodeTask(split=None, verifier=VERIFIER)
    picked = [task[i] for i in range(0, task.size, 11)]
    assert [verdict.reason for verdict in judged(task, picked)] == ["pass"] * len(picked)
    swapped = [(task.solution(other), problem.answer) for problem, other in itertools.pairwise(picked)]
    assert {verdict.score for verdict in VERIFIER.score_many(swapped)} == {0.0}


@pytest.mark.slow
def test_every_reference_solution_passes():
    task = CodeTask(split=None, verifier=VERIFIER)
    assert [verdict.reason for verdict in judged(task, task)] == ["pass"] * task.size


HUMANEVAL = {
    "task_id": "HumanEval/x",
    "prompt": "import math\n\ndef half(n):\n    return n // 2\n\n\ndef quarter(n: int) -> int:\n    '''A quarter of n.'''\n",
    "entry_point": "quarter",
    "canonical_solution": "    return half(half(n))\n",
    "test": "METADATA = {}\n\ndef check(candidate):\n    assert candidate(8) == 2\n    assert candidate(9) == half(half(9))\n",
}
MBPP = {
    "text": "Write a function to add.",
    "code": "def add(a, b):\r\n  return a + b",
    "task_id": 7,
    "test_setup_code": "",
    "test_list": ["assert add(1, 2) == 3", "assert add(1, 1) == 2"],
    "challenge_test_list": [],
}
PUBLIC = [{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]
LIVECODEBENCH = {
    "question_content": "Add.",
    "question_id": "1873_A",
    "platform": "codeforces",
    "starter_code": "",
    "difficulty": "easy",
    "public_test_cases": json.dumps(PUBLIC),
    "private_test_cases": base64.b64encode(zlib.compress(pickle.dumps(json.dumps(PUBLIC * 2)))).decode(),
    "metadata": "{}",
}
FUNCTIONAL = LIVECODEBENCH | {
    "starter_code": "class Solution:\n    def add(self, a: int, b: List[int]) -> int:\n        ",
    "public_test_cases": json.dumps([{"input": "1\n[2, 3]", "output": "6", "testtype": "functional"}]),
    "private_test_cases": "",
    "metadata": '{"func_name": "add"}',
}
APPS = {
    "problem_id": 3,
    "question": "Add.",
    "solutions": json.dumps(["a, b = map(int, input().split())\nprint(a + b)\n"]),
    "input_output": json.dumps({"inputs": ["1 2\n", ["3", "4"]], "outputs": ["3\n", ["7"]]}),
    "difficulty": "interview",
    "starter_code": "",
}
CODECONTESTS = {
    "name": "1_A. Add",
    "description": "Add.",
    "public_tests": {"input": ["1 2\n"], "output": ["3\n"]},
    "private_tests": {"input": [], "output": []},
    "generated_tests": {"input": ["3 4\n"], "output": ["7\n"]},
    "solutions": {"language": [2, 3], "solution": ["int main(){}", "a, b = map(int, input().split())\nprint(a + b)"]},
    "cf_rating": 800,
    "input_file": "",
    "output_file": "",
}


def test_rows_of_humaneval():
    problem, solution = read_problem(HUMANEVAL, "humaneval")
    assert problem.id == "HumanEval/x"
    assert "def quarter" in problem.question
    assert "candidate" not in problem.question
    tests = CodeTests.from_json(problem.answer)
    assert VERIFIER.judge(solution, tests).result == "pass"
    assert VERIFIER.judge("def quarter(n):\n    return n >> 2", tests).result == "pass"
    assert VERIFIER.judge("def quarter(n):\n    return n", tests).result == "fail"
    # the test has the prompt's own half, not the program's, which would make 5 right
    assert VERIFIER.judge("def half(n): return 5\ndef quarter(n): return 2 if n == 8 else 5", tests).result == "fail"


def test_rows_of_mbpp_in_both_layouts():
    problem, solution = read_problem(MBPP, "mbpp")
    assert problem.id == "7"
    assert "assert add(1, 2) == 3" in problem.question
    assert "add(1, 1)" not in problem.question
    assert VERIFIER.judge(solution, CodeTests.from_json(problem.answer)).result == "pass"
    sanitized = {
        "prompt": "Add.",
        "code": "",
        "task_id": 8,
        "test_imports": ["import math"],
        "test_list": ["assert f() == math.pi"],
    }
    problem, _ = read_problem(sanitized, "mbpp")
    assert VERIFIER.judge("import math\ndef f(): return math.pi", CodeTests.from_json(problem.answer)).result == "pass"


def test_rows_of_livecodebench():
    problem, solution = read_problem(LIVECODEBENCH, "livecodebench")
    tests = CodeTests.from_json(problem.answer)
    assert (tests.kind, len(tests.tests), solution, problem.difficulty) == ("stdio", 3, None, 1.0)
    problem, _ = read_problem(FUNCTIONAL, "livecodebench")
    tests = CodeTests.from_json(problem.answer)
    assert tests.tests == ({"args": [1, [2, 3]], "expected": 6},)
    assert "def add" in problem.question
    assert VERIFIER.judge("class Solution:\n    def add(self, a, b):\n        return a + sum(b)", tests).result == "pass"
    as_started = (
        "class Solution:\n    def add(self, a: int, b: List[int]) -> int:\n        return pow(a, 1) + reduce(operator.add, b)"
    )
    assert VERIFIER.judge(as_started, tests).result == "pass"
    assert (
        VERIFIER.judge(as_started.replace("pow(a, 1)", "a + 1").replace("reduce(operator.add, b)", "sum(b)"), tests).result
        == "fail"
    )


class Bomb:
    def __reduce__(self):
        return os.system, ("echo harm > harm.txt",)


def test_packed_tests_never_run_code_and_never_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def packed(data):
        return LIVECODEBENCH | {"private_test_cases": base64.b64encode(zlib.compress(data)).decode()}

    with pytest.raises(BadRow, match="pickle with code"):
        read_problem(packed(pickle.dumps(Bomb())), "livecodebench")
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr("agon_env.tasks.code_rows.MAX_TEST_BYTES", 1000)
    with pytest.raises(BadRow, match="too large"):
        read_problem(packed(b"[" + b" " * 10**6), "livecodebench")
    for text in ("not base 64!", base64.b64encode(b"not packed").decode()):
        with pytest.raises(BadRow, match="another shape"):
            read_problem(LIVECODEBENCH | {"private_test_cases": text}, "livecodebench")


def test_rows_of_apps():
    problem, solution = read_problem(APPS, "apps")
    tests = CodeTests.from_json(problem.answer)
    assert tests.tests[1] == {"input": "3\n4", "output": "7"}
    assert problem.difficulty == 2.0
    assert VERIFIER.judge(solution, CodeTests("stdio", tests.tests[:1])).result == "pass"
    called = {"fn_name": "add", "inputs": [[1, 2], [3, 4]], "outputs": [[3], [7]]}
    problem, _ = read_problem(APPS | {"input_output": json.dumps(called)}, "apps")
    assert VERIFIER.judge("def add(a, b): return a + b", CodeTests.from_json(problem.answer)).result == "pass"
    lists = {"fn_name": "f", "inputs": [[1], [2]], "outputs": [[1], [2, 2]]}
    problem, _ = read_problem(APPS | {"input_output": json.dumps(lists)}, "apps")
    assert VERIFIER.judge("def f(n): return [n] * n", CodeTests.from_json(problem.answer)).result == "pass"
    for empty in ("", None, "{}", '{"inputs": [], "outputs": []}', '{"inputs": ["1"], "outputs": []}'):
        with pytest.raises(BadRow, match="no tests"):
            read_problem(APPS | {"input_output": empty}, "apps")
    with pytest.raises(BadRow, match="another shape"):
        read_problem(APPS | {"input_output": "{torn"}, "apps")


def test_rows_of_codecontests():
    problem, solution = read_problem(CODECONTESTS, "codecontests")
    assert problem.difficulty == 800
    tests = CodeTests.from_json(problem.answer)
    assert len(tests.tests) == 2
    assert VERIFIER.judge(solution, tests).result == "pass"
    for change, reason in (
        ({"input_file": "in.txt"}, "files"),
        ({"description": "See <image>."}, "image"),
        ({"public_tests": None, "generated_tests": None}, "no tests"),
        ({"description": ""}, "no description"),
    ):
        with pytest.raises(BadRow, match=reason):
            read_problem(CODECONTESTS | change, "codecontests")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "row", [{}, {"question": 1, "kind": "stdio", "tests": 5}, {"prompt": "x", "text": "x", "test_list": [1]}]
)
def test_a_foreign_row_is_left_out(shape, row):
    with pytest.raises(BadRow):
        read_problem(row, shape)


def test_a_file_of_ones_own(tmp_path):
    rows = [
        {"question": "Add.", "kind": "stdio", "tests": [{"input": "1 2", "output": "3"}] * 5, "difficulty": "hard"},
        {"question": "add ", "kind": "stdio", "tests": [{"input": "1 2", "output": "4"}]},
        {"question": "No tests.", "kind": "stdio", "tests": []},
        {"question": "Other tests.", "kind": "stdio", "tests": ["assert"]},
    ]
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join([*map(json.dumps, rows), "torn"]), encoding="utf-8")
    task = CodeTask(path, split=None, max_tests=2, difficulty=(3, 3))
    assert task.size == 1
    assert task.dropped == {"question repeated": 1, "no tests": 1, "tests have another shape": 1, "line is not JSON": 1}
    assert len(CodeTests.from_json(task[5].answer).tests) == 2
    assert str(path) in task.source
    assert pickle.loads(pickle.dumps(task))[0] == task[0]
    assert copy.deepcopy(task) is task
    with pytest.raises(TaskError, match="no solution"):
        task.solution(task[0])
    with pytest.raises(TaskError, match="none is in split"):
        CodeTask(path, split=None, difficulty=(7, 8))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shape": "mbpp"}, "not embedded"),
        ({"shape": "x"}, "shape is one of"),
        ({"path": "a.jsonl", "hub_id": "b"}, "not both"),
        ({"split": "dev"}, "split is"),
        ({"max_tests": 0}, "max_tests"),
    ],
)
def test_wrong_options_are_named(options, words):
    with pytest.raises(TaskError, match=words):
        CodeTask(**options)


def test_benchmarks_are_tasks_by_name(tmp_path):
    (tmp_path / "he.jsonl").write_text(json.dumps(HUMANEVAL), encoding="utf-8")
    assert load_task("humaneval", path=str(tmp_path / "he.jsonl")).size == 1
    env = agon_env.make("CodeDuel-v0", task="humaneval", path=str(tmp_path / "he.jsonl"))
    _, info = env.reset(seed=0)
    assert "he.jsonl" in info["source"]
    env.step("```python\ndef quarter(n):\n    return 5\n```")
    env.step(env.solution("challenger"))
    assert list(env.outcome.scores.values()) == [0.0, 1.0]


def test_the_duel_names_its_source_and_pays_for_programs():
    env = agon_env.make("CodeDuel-v0", split="test")
    obs, info = env.reset(seed=3)
    assert "embedded" in info["source"]
    assert "```python" in obs.text
    obs, *_ = env.step("```python\nimport os\nos._exit(0)\n```")
    assert "os._exit" in obs.text
    env.step(env.solution("challenger"))
    assert env.outcome.winner == "bob"
    assert env.outcome.details["drafter"]["reason"] == "fail"


SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="the shared rows are not here")
@pytest.mark.parametrize("name", ["humaneval", "mbpp"])
def test_canonical_solutions_pass_and_those_of_other_rows_fail(name):
    task = load_task(name, path=str(SHARED / f"{name}.jsonl"))
    problems = list(task)
    verdicts = VERIFIER.score_many([(task.solution(problem), problem.answer) for problem in problems])
    assert [p.id for p, verdict in zip(problems, verdicts, strict=True) if verdict.score != 1.0] == []
    wrong = [(task.solution(other), problem.answer) for problem, other in itertools.pairwise(problems)][::8]
    assert {verdict.score for verdict in VERIFIER.score_many(wrong)} == {0.0}
