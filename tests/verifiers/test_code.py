"""Judging programs: idioms of honest programs and tests, the shapes of tests, verdicts, and re-scoring a file."""

import json
import math
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agon_env.verifiers import code as code_module
from agon_env.verifiers import sandbox as sandboxes
from agon_env.verifiers.code import CodeVerifier, judge_row
from agon_env.verifiers.code_extraction import extract_program, strip_fence
from agon_env.verifiers.code_output import same_output
from agon_env.verifiers.code_tests import BadTests, CodeTests
from agon_env.verifiers.rescoring import ForeignRow, Judgement, summary, verify_lines
from agon_env.verifiers.sandbox import Limits
from algos import cli
from algos.commands.verify import verify_code

VERIFIER = CodeVerifier(allow_unisolated=True)


def judge(program, *tests, **options):
    return VERIFIER.judge(program, CodeTests("assert", tests, **options))


SHOP = """
import enum, collections, dataclasses

class OutOfStock(Exception):
    pass

class Refused(ValueError):
    def __init__(self, code, where):
        super().__init__(f"code {code}")
        self.code, self.where = code, where
    def __str__(self): return f"refused: {self.code}"

class Colour(enum.Enum):
    RED = 1

class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2

class Suit(str, enum.Enum):
    HEARTS = 'h'

class Key:
    def __init__(self, k): self.k = k
    def __eq__(self, other): return self.k == other.k
    def __hash__(self): return hash(self.k)

def refuse(code): raise Refused(code, ['here'])
def views(d): return d.keys(), d.values(), d.items()

@dataclasses.dataclass(order=True)
class Point:
    x: int
    y: int = 0
    def __add__(self, other): return Point(self.x + other.x, self.y + other.y)
    def __len__(self): return 2
    def __getitem__(self, i): return (self.x, self.y)[i]

Pair = collections.namedtuple('Pair', 'left right')

class Stack:
    size = 0
    def __init__(self, *items): self.items = list(items)
    def push(self, item): self.items.append(item); return self
    def pop(self):
        if not self.items: raise OutOfStock('empty', len(self.items))
        return self.items.pop()
    def __iter__(self): return iter(self.items)
    def __enter__(self): return self
    def __exit__(self, *a): self.items.clear()
    @property
    def top(self): return self.items[-1]

def fill(xs, d, s):
    xs.sort(); d['k'] = [1]; s.discard(3); xs[0][0] = 'new'
def count():
    n = 0
    while True:
        yield n
        n += 1
def apply(f, *xs): return [f(x) for x in xs]
def ident(x=None): return x
def sum(a, b): return a + b
async def later(x): return [x]
async def total(*xs): return [await x for x in xs]
def recurse(n): return n if n == 0 else recurse(n - 1)
"""


@pytest.mark.parametrize(
    "test",
    [
        "s = Stack(1, 2)\nassert s.push(3) is s\nassert s.items == [1, 2, 3] and s.top == 3 and list(s) == [1, 2, 3]",
        "with Stack(1) as s:\n    assert s.pop() == 1\nassert s.items == []",
        "try:\n    Stack().pop()\nexcept OutOfStock as e:\n    assert e.args == ('empty', 0)\nelse:\n    assert False",
        "import unittest\nwith unittest.TestCase().assertRaises(OutOfStock): Stack().pop()",
        "assert isinstance(Stack(), Stack) and not isinstance(Point(1), Stack) and not isinstance(3, Stack)",
        "s = Stack()\ns.size = 4\ndel s.size\nassert s.size == 0",
        "assert Point(1) + Point(2, 3) == Point(3, 3) and Point(1) < Point(2) and Point(1) != Point(2)",
        "assert Point(4, 5)[1] == 5 and len(Point(1)) == 2 and str(Point(1)) == 'Point(x=1, y=0)' and f'{Point(1)}'",
        "assert Pair(1, 2) == (1, 2) and Pair(1, [2]).right == [2]",
        "assert Colour.RED.value == 1 and Colour(1) is Colour.RED",
        "xs, d, s = [['b'], ['a']], {}, {3, 4}\nfill(xs, d, s)\nassert xs == [['new'], ['b']] and d == {'k': [1]} and s == {4}",
        "from itertools import islice\nassert list(islice(count(), 3)) == [0, 1, 2]",
        "g = count()\nassert (next(g), next(g)) == (0, 1)",
        "assert apply(lambda x: x * 2, 1, 2) == [2, 4] and apply(str, 1) == ['1'] and apply(sorted, [2, 1]) == [[1, 2]]",
        "assert apply(lambda f: f(3), lambda x: x + 1) == [4]",
        "assert ident(x for x in range(3)).__next__() == 0 and sorted(ident({1: 2}.keys())) == [1]",
        "assert math.pi == 3.141592653589793 if 'math' in dir() else True",
        "def helper(x):\n    return ident(x)\nassert [helper(i) for i in range(3)] == [0, 1, 2]",
        "assert ident() is None and ident(True) is True",
        "assert list(ident(iter(Stack(1, 2)))) == [1, 2] and list(ident(iter('é'))) == ['é']",
        "import asyncio\nassert asyncio.run(later(2)) == [2]",
        "import asyncio\nasync def both(): return await asyncio.gather(later(1), later(2))\n"
        "assert asyncio.run(both()) == [[1], [2]]",
        "import asyncio\nassert asyncio.run(total(later(1), later(2))) == [[1], [2]]",
        "assert Level.LOW == 1 and 2 == Level.HIGH and Level.LOW < 2 and Level.HIGH > Level.LOW and Level.LOW != 2",
        "assert Level.LOW.name == 'LOW' and Level(1) is Level.LOW and ident(Level.LOW) is Level.LOW",
        "assert isinstance(Level.LOW, Level) and sorted([Level.HIGH, Level.LOW]) == [1, 2]",
        "assert Suit.HEARTS == 'h' and Suit.HEARTS in ('h', 's') and {'h': 1}[Suit.HEARTS] == 1 and Suit.HEARTS.value == 'h'",
        "assert Colour.RED != 1",
        "assert len({Key(1), Key(1), Key(2)}) == 2 and {Key((1, 2)): 5}[Key((1, 2))] == 5 and hash(Key(3)) == hash(3)",
        "keys, values, items = views({'a': 1, 'b': 2})\n"
        "assert keys == {'a', 'b'} and list(keys) == ['a', 'b'] and 'a' in keys\n"
        "assert list(values) == [1, 2] and items == {('a', 1), ('b', 2)} and dict(items) == {'a': 1, 'b': 2}",
        "assert ident({1: 2}.keys()) == {1} and ident({1: 2}.items()) == {(1, 2)}",
        "try:\n    refuse(3)\nexcept Refused as e:\n"
        "    assert (e.code, e.where, str(e), e.args) == (3, ['here'], 'refused: 3', ('code 3',))\n"
        "else:\n    assert False",
        "e = ident(ValueError('x', 2))\nassert e.args == ('x', 2)",
        "assert ident(collections).deque([1])[0] == 1",
        "try:\n    recurse(10**6)\n    assert False\nexcept RecursionError:\n    pass",
    ],
)
def test_honest_tests_of_many_kinds_pass(test):
    verdict = judge(SHOP, test)
    assert verdict.result == "pass", verdict


def test_values_come_back_as_they_were():
    values = (
        "0, -1, 10**400, 1.5, -0.0, float('inf'), 2j, True, None, '', '\\ud800', 'ünï\\u2028', b'\\x00', bytearray(b'x'), "
        "(1, (2,)), [[]], {1: 'a', (1, 2): [3]}, set(), frozenset({1}), range(3, 9, 2), slice(1, None), ..., Decimal('1.10'), "
        "Fraction(1, 3), deque([1], 3), Counter('aab'), OrderedDict(a=1), date(2020, 1, 2), datetime(2020, 1, 2, 3), "
        "timedelta(1, 2), int, len"
    )
    imports = (
        "from decimal import Decimal\nfrom fractions import Fraction\nfrom collections import *\n"
        "from datetime import date, datetime, timedelta"
    )
    test = f"for value in ({values}):\n    back = ident(value)\n    assert type(back) is type(value) and back == value, value"
    assert judge("def ident(x): return x", test, "x = ident(float('nan'))\nassert x != x", setup=imports).result == "pass"


def test_a_builtin_that_the_program_defines_is_the_target_only_if_the_tests_call_nothing_else():
    program = "def sum(a, b):\n    return a + b\ndef add(a, b):\n    return 0 if a == 1 else a + b"
    assert judge(program, "assert sum(10, 15) == 25").result == "pass"
    assert judge(program, "assert sum([add(2, 3)]) == 5").result == "pass"
    assert judge(program, "assert sum(10, 15) == 25", "assert add(2, 2) == 4").result == "fail"
    assert judge(program, "assert sum(10, 15) == 25", "assert add(2, 2) == 4", function="sum").result == "pass"


@pytest.mark.parametrize(
    ("program", "test", "words"),
    [
        ("def f(): return 4", "assert f() == 5", "AssertionError"),
        ("def f(): return (1, 2)", "assert f() == [1, 2]", "AssertionError"),
        ("def f(): return {}['k']", "assert f() == 5", "KeyError"),
        ("def g(): return 5", "assert f() == 5", "NameError"),
        ("def f(: return 5", "assert f() == 5", "SyntaxError"),
        ("x = y", "assert True", "NameError"),
        ("def f(): return 5\nraise ValueError('late')", "assert f() == 5", "late"),
        ("def f(): return 5", "assert f() == 5, 'x'\nassert f(1) == 5", "TypeError"),
    ],
)
def test_a_failure_says_what_failed(program, test, words):
    verdict = judge(program, test)
    assert verdict.result == "fail"
    assert words in verdict.reason


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("assert f( == 5", "not Python"),
        ("import io\nassert f(io.StringIO('x')) == 5", "StringIO"),
        ("assert f(object()) == 5", "object"),
    ],
)
def test_a_test_that_cannot_be_judged_is_no_verdict_on_the_program(test, words):
    verdict = judge("def f(x): return 5", test)
    assert (verdict.result, verdict.score) == ("error", None)
    assert words in verdict.reason


UNITTEST = "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(f(), 5)\n"


@pytest.mark.parametrize(
    "test",
    [
        UNITTEST + "unittest.main()",
        UNITTEST + "if __name__ == '__main__':\n    unittest.main()",
        "if __name__ == '__main__':\n    assert f() == 5",
        "import sys\nassert f() == 5\nsys.exit(0)",
        "import sys\nsys.exit(f() != 5)",
    ],
)
def test_tests_may_be_written_as_a_script(test):
    assert judge("def f(): return 5", test).result == "pass"
    assert judge("def f(): return 4", test).result == "fail"


def test_state_is_kept_between_the_tests_and_forgotten_after_them():
    program = "calls = []\ndef f(x):\n    calls.append(x)\n    return len(calls)"
    assert judge(program, "assert f(0) == 1", "assert f(0) == 2", "assert calls == [0, 0]").result == "pass"
    assert judge(program, "assert f(0) == 1").result == "pass"


def test_a_byte_order_mark_and_the_name_of_the_file():
    program = "\ufeffimport os\nhere = os.path.dirname(os.path.abspath(__file__))\ndef f(): return len(here) > 1"
    assert judge(program, "\ufeffassert f()").result == "pass"
    assert VERIFIER.judge("\ufeffprint(1)", CodeTests("stdio", ({"input": "", "output": "1"},))).result == "pass"


def test_prelude_setup_and_main_guards():
    program = (
        "from __future__ import annotations\ndef f(x: Later) -> int: return helper(x)\nif __name__ == '__main__':\n    input()"
    )
    options = {"prelude": "def helper(x):\n    return x + 1\ndef f(x): ...", "setup": "def check(g):\n    assert g(1) == 2"}
    assert judge(program, "check(f)", **options).result == "pass"
    assert judge(program, "assert f(1) == 2").result == "fail"


def call(program, args, expected):
    return VERIFIER.judge(program, CodeTests("call", ({"args": args, "expected": expected},), function="f")).result


def test_calls_compare_as_json_does():
    assert call("def f(x): return (x, (1, 2))", [3], [3, [1, 2]]) == "pass"
    assert call("class Solution:\n    def f(self, x): return x", ["a"], "a") == "pass"
    assert call("def f(x): return {1: x}", [2], {"1": 2}) == "pass"
    assert call("def f(x): return str(x)", [2], 2) == "fail"
    assert call("def f(x): return [1]", [2], [1, 2]) == "fail"
    assert call("def f(x): return None", [2], None) == "pass"
    assert call("f = sorted", [[2, 1]], [1, 2]) == "pass"
    assert call("f = ValueError", [1], 1) == "fail"
    assert call("f = 5", [], 5) == "fail"
    assert call("class Solution: pass", [], 5) == "fail"


def test_time_is_that_of_the_processor_not_of_the_clock():
    busy = "import time\nwhile time.process_time() < 0.4: pass\nprint(int(input()) * 2)"
    tests = CodeTests("stdio", ({"input": "3", "output": "6"},))
    verifier = VERIFIER.with_deadline(1)
    with ThreadPoolExecutor(5) as threads:
        assert [v.result for v in threads.map(lambda _: verifier.judge(busy, tests), range(5))] == ["pass"] * 5
    assert verifier.judge("while True: pass", tests).result == "timeout"
    assert VERIFIER.with_deadline(1).judge("def f():\n    while True: pass", CodeTests("assert", ("f()",))).result == "timeout"


def test_a_part_of_a_second_is_allowed_too():
    busy = "import time\nwhile time.process_time() < 1.3: pass\nprint(1)"
    tests = CodeTests("stdio", ({"input": "", "output": "1"},))
    assert VERIFIER.with_deadline(1.2).judge(busy, tests).result == "pass"
    assert sandboxes._rlimits(Limits(cpu_seconds=2.5), bound_processes=True, bound_memory=False)["RLIMIT_CPU"] == 3


def test_verdicts_name_what_stopped_the_program():
    assert judge("x = [0] * 10**12", "assert x").result in ("killed", "fail")
    assert judge("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "assert x").result == "killed"
    tests = CodeTests("stdio", ({"input": "", "output": "1"},))
    assert VERIFIER.judge("x = [b'x' * (1 << 26) for _ in range(60)]", tests).result == "killed"
    assert VERIFIER.judge("import sys\nsys.exit(4)", tests).reason == "test 1: exit code 4"


def test_a_verdict_is_remembered_for_its_own_tests_and_bounds_alone():
    square = "```python\nimport time\nn = int(input())\nwhile time.process_time() < 1.2: pass\nprint(n * n)\n```"
    squares, cubes = (CodeTests("stdio", ({"input": "3", "output": out},)).to_json() for out in ("9", "27"))
    hasty = VERIFIER.with_deadline(1)
    for _ in range(2):
        assert VERIFIER.score(square, squares).reason == "pass"
        assert VERIFIER.score(square, cubes).reason == "fail"
        assert hasty.score(square, squares).reason == "timeout"


def test_completions_are_scored_from_any_thread_and_remembered():
    gold = CodeTests("stdio", ({"input": "2", "output": "4"},)).to_json()
    right, wrong = "Thus:\n```python\nprint(int(input()) ** 2)\n```\n", "```python\nprint(5)\n```"
    pairs = [
        (right, gold),
        (wrong, gold),
        ("I give up.", gold),
        ("", gold),
        (right, "{}"),
        (right, gold),
        ("```\nx\n" + "#" * 10**6 + "\n```", gold),
    ]
    scores: list = []
    thread = threading.Thread(target=lambda: scores.extend(VERIFIER.score_many(pairs)))
    thread.start()
    thread.join()
    assert [(v.score, v.reason) for v in scores] == [
        (1.0, "pass"),
        (0.0, "fail"),
        (0.0, "no program"),
        (0.0, "no program"),
        (None, "bad tests"),
        (1.0, "pass"),
        (0.0, "too long"),
    ]
    before = dict(code_module._settled)
    assert VERIFIER.score(right, gold).score == 1.0
    assert code_module._settled == before


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        ("5\n", "5", True),
        ("1 2 \n3\n\n", "1 2\n3", True),
        ("5\r\n6\r\n", "5\n6\n", True),
        ("", "\n", True),
        (" 5", "5", False),
        ("1  2", "1 2", False),
        ("\n5", "5", False),
        ("a\n\nb", "a\nb", False),
        ("NO\nYES", "YES\nNO", False),
        ("1\n1", "1", False),
        ("yes", "YES", False),
        ("3.0", "3", True),
        ("3", "3.0", True),
        ("03", "3", False),
        ("+3", "3", False),
        ("0.5", "0.50", True),
        ("0.3333333333333333", "0.333333333333", True),
        ("0.33333333", "0.333333333333", True),
        ("0.33", "0.333333333333", False),
        ("3.14159", "3.14", False),
        ("0", "1.5e-07", False),
        ("3e-07", "1.5e-07", False),
        ("1.5e-7", "1.5e-07", True),
        ("0.00000015", "1.5e-07", True),
        ("0.0000003", "0.00000015", False),
        ("1.2345678e10", "1.23456789e10", False),
        ("0.0000001", "0.000000", True),
        ("0.3333334", "0.3333333", True),
        ("1234567.88", "1234567.89", False),
        ("9007199254740992", "9007199254740993", False),
        ("9007199254740992.0", "9007199254740993", False),
        ("1e3", "1000", True),
        ("nan", "7", False),
        ("nan", "0.5", False),
        ("inf", "1e400", False),
        ("1_000", "1000", False),
        ("٣", "3", False),
        ("9" * 10**6, "9" * 10**6, True),
        ("9" * 10**6, "8" * 10**6, False),
        ("1e999", "1e-999", False),
        ("x\u2028y", "x\ny", False),
    ],
)
def test_output_is_compared_line_by_line(printed, expected, same):
    assert same_output(printed, expected) is same


def test_where_the_program_is_in_a_text():
    fence = "```"
    assert extract_program(f"a\n{fence}python\nfirst\n{fence}\nb\n{fence}py\nlast\n{fence}\nc") == "last\n"
    assert extract_program(f"{fence}python\ncode\n{fence}\nprints\n{fence}text\n5\n{fence}") == "code\n"
    assert extract_program(f"{fence}python\nfirst\n{fence}\n{fence}python\ncut off") is None
    assert extract_program(f"<think>{fence}python\nthought\n{fence}</think>\n{fence}\nsaid\n{fence}") == "said\n"
    assert extract_program(f"{fence}python\nthought\n{fence} and so on") is None
    assert (
        extract_program(f"{fence}{fence[0]}python\nx = '{fence}'\n{fence}\ny\n{fence}{fence[0]}")
        == f"x = '{fence}'\n{fence}\ny\n"
    )
    assert extract_program("def f():\n    return 1") == "def f():\n    return 1"
    assert extract_program("The answer is 5.") is None
    assert extract_program("") is None
    assert extract_program(f"{fence}python\ncode\n{fence}\nprints\n{fence}\n5\n{fence}") == "code\n"
    assert extract_program(f"{fence}python\ncode\n{fence}\nprints\n{fence}\n5") == "code\n"
    assert extract_program(f"{fence}\na\n{fence}\n{fence}\nb\n{fence}") == "b\n"
    assert extract_program(f"{fence}\na\n{fence}\n{fence}\ncut off") is None
    assert extract_program(f"{fence}bash\nls\n{fence}") is None
    assert extract_program("a ``` b " * 10**5) is None
    for label in ("Python", " python", "python3", "py title=a", "{python}", "{.python .numberLines}", "python:main.py"):
        assert extract_program(f"{fence}{label}\nx\n{fence}\n{fence}\n5\n{fence}") == "x\n", label
    for label in ("pycon", "python-repl", "pytb", "cython", "c++"):
        assert extract_program(f"{fence}{label}\nx\n{fence}") is None, label
    assert extract_program(f"1. so:\n\n    {fence}python\n    if x:\n\n        y\n    {fence}\n") == "if x:\n\n    y\n"
    assert extract_program(f"so\n\t{fence}python\n\tx\n\t{fence}") == "x\n"
    inner = f'def f():\n    """\n    {fence}\n    f()\n    {fence}\n    """\n'
    assert extract_program(f"{fence}python\n{inner}{fence}") == inner
    assert extract_program(inner + "x = 1") == inner + "x = 1"
    assert extract_program("\ufeffprint(1)") == "\ufeffprint(1)"
    assert extract_program("async def f():\n    pass") == "async def f():\n    pass"
    assert strip_fence(f"{fence}python\nprint(1)\n{fence}\n") == "print(1)\n"
    assert strip_fence(f"x = '''\n{fence}\n'''") == f"x = '''\n{fence}\n'''"


def test_tests_travel_as_json():
    tests = CodeTests("call", ({"args": [1], "expected": "\ud800\u2028"},), function="f", prelude="import math")
    assert CodeTests.from_json(tests.to_json()) == tests
    for wrong in ('{"kind": "x", "tests": []}', '{"tests": []}', "[]", "", '{"kind": "call", "tests": []}', "[" * 10**5):
        with pytest.raises(BadTests):
            CodeTests.from_json(wrong)
    for kind, test in (
        ("stdio", "x"),
        ("stdio", {"input": 1, "output": "1"}),
        ("assert", {}),
        ("call", {"args": 1, "expected": 1}),
    ):
        with pytest.raises(BadTests, match="another shape"):
            CodeTests(kind, (test,), function="f")


def test_lines_are_judged_in_order_and_a_bad_one_harms_no_other():
    def judge(row):
        if "x" not in row:
            raise ForeignRow('it needs "x"')
        if row["x"] == "bug":
            raise ZeroDivisionError
        return Judgement(float(row["x"]), "pass" if row["x"] else "fail", "")

    lines = ['{"id": "a", "x": 1}', "", '{"torn', "[1]", '{"y": 1}', "[" * 10**5, '{"x": "bug"}', '{"x": 0}', "1" * 5000]
    results = list(verify_lines(lines, judge, workers=3))
    assert [result["id"] for result in results] == ["a", 3, 4, 5, 6, 7, 8, 9]
    assert [result["score"] for result in results] == [1.0, None, None, None, None, None, 0.0, None]
    assert [bool(result.get("skipped")) for result in results] == [False, True, True, True, True, False, False, True]
    counts = summary(results, seconds=1.0)["summary"]
    assert (counts["rows"], counts["pass"], counts["fail"], counts["error"], counts["skipped"]) == (8, 1, 1, 6, 5)
    assert counts["mean_score"] == 0.5
    assert summary([], seconds=0.0)["summary"]["mean_score"] is None


def test_the_command_prints_a_line_for_each_row_and_a_summary(tmp_path, capsys, monkeypatch):
    rows = [
        {"id": "right", "kind": "stdio", "tests": [{"input": "1", "output": "2"}], "program": "print(int(input()) + 1)"},
        {
            "id": "fenced",
            "kind": "assert",
            "tests": ["assert f() == '\u2028'"],
            "program": "```python\ndef f(): return '\\u2028'\n```",
        },
        {
            "id": "wrong",
            "kind": "call",
            "function": "f",
            "tests": [{"args": [], "expected": 1}],
            "program": "def f(): return 2",
        },
        {"id": "slow", "kind": "stdio", "tests": [{"input": "", "output": ""}], "program": "while True: pass"},
        {"id": "foreign", "gold": "5", "completion": "5"},
    ]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    (tmp_path / "rows.jsonl").write_text("\n".join([*lines, '{"torn']) + "\n", encoding="utf-8")
    monkeypatch.setattr(
        "sys.argv", ["agon", "verify", "code", str(tmp_path / "rows.jsonl"), "--workers", "2", "--deadline", "1"]
    )
    if not CodeVerifier(allow_unisolated=True).sandbox.isolated:
        monkeypatch.setattr("sys.argv", [*sys.argv, "--allow-unisolated"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 0
    out = capsys.readouterr()
    *results, last = map(json.loads, out.out.strip().split("\n"))
    assert [(r["id"], r["score"], r["verdict"]) for r in results] == [
        ("right", 1.0, "pass"),
        ("fenced", 1.0, "pass"),
        ("wrong", 0.0, "fail"),
        ("slow", 0.0, "timeout"),
        ("foreign", None, "error"),
        (6, None, "error"),
    ]
    assert last["summary"]["skipped"] == 2
    assert all(math.isfinite(result["seconds"]) for result in results)
    assert "sandbox:" in out.err
    with pytest.raises(FileNotFoundError, match="there is no file"):
        verify_code(tmp_path / "none.jsonl", allow_unisolated=True)


SHARED = Path(__file__).parents[3] / "shared"
CASES = SHARED / "cases" / "code_cases.jsonl"


@pytest.mark.slow
@pytest.mark.skipif(not CASES.exists(), reason="the shared cases are not here")
def test_the_shared_cases_come_out_as_expected_twice():
    rows = [json.loads(line) for line in CASES.read_text(encoding="utf-8").split("\n") if line]
    lines = [json.dumps(row) for row in rows]
    for _ in range(2):
        results = verify_lines(lines, lambda row: judge_row(VERIFIER, row), workers=8)
        wrong = [
            (row["id"], result)
            for row, result in zip(rows, results, strict=True)
            if result["verdict"] not in (row["expected"], *row.get("accept", ())) and not row.get("doubtful")
        ]
        assert not wrong
