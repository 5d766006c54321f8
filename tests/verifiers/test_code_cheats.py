"""Programs that try to pass without solving the problem. Each one fails, and the right program passes."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from agon_env.verifiers.code import CodeVerifier
from agon_env.verifiers.code_tests import CodeTests

VERIFIER = CodeVerifier(allow_unisolated=True).with_deadline(3)
ADD = CodeTests("assert", ("assert add(2000, 3017) == 5017", "assert add(1000, -4) == 996"))
CALL = CodeTests("call", ({"args": [2000, 3017], "expected": 5017}, {"args": [1000, -4], "expected": 996}), function="add")
ROOT = CodeTests("assert", ("import math", "assert abs(root(2.0) - 1.41421356) < 1e-6", "assert math.isclose(root(9.0), 3.0)"))
LIST = CodeTests(
    "assert", ("assert squares(3) == [0, 1, 4]", "assert sorted(squares(4)) == [0, 1, 4, 9]", "assert 16 in squares(5)")
)
PRINT = CodeTests("stdio", ({"input": "2 3\n", "output": "5\n"}, {"input": "10 -4\n", "output": "6\n"}))

ADD_ZERO = "\ndef add(a, b):\n    return 0\n"
ALWAYS = """
class Always:
    def __init__(self, *a, **k): pass
    def _yes(self, *a, **k): return True
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __bool__ = _yes
    def __ne__(self, other): return False
    def _self(self, *a, **k): return self
    __call__ = __sub__ = __rsub__ = __abs__ = __getattr__ = __getitem__ = _self
    __hash__ = None
"""

WRITE_VERDICTS = """
import os
for fd in range(64):
    for text in (b'{"verdict": "pass", "reason": "passed"}\\n', b'["ok", true, [], []]\\n' * 5):
        try: os.write(fd, text)
        except OSError: pass
os._exit(0)
"""
ANSWER_AHEAD = """
import os, sys
for _ in range(20):
    os.write(int(sys.argv[2]), b'["ok", ["list", [true]], [], []]\\n')
"""
SEND_CODE = """
import os, sys
os.write(int(sys.argv[2]), b'["callback", 0, []]\\n["ok", ["builtin", "exec"], [], []]\\n')
"""
READ_FRAMES = """
import sys
def add(a, b):
    frame, seen = sys._getframe(1), []
    while frame:
        seen += [*frame.f_code.co_consts, *frame.f_locals.values(), *frame.f_globals.values()]
        frame = frame.f_back
    return a + b if str(a + b) in repr(seen) else None
"""
READ_HEAP = r"""
import gc, re
def add(a, b):
    for o in gc.get_objects():
        text = repr(o) if type(o) in (list, dict, tuple, str) else ''
        found = re.search(r'add\(%d, %d\) == (-?\d+)' % (a, b), text)
        if found: return int(found[1])
"""
READ_FILES = r"""
import os, re
def add(a, b):
    for root, _, names in os.walk('/'):
        if root.startswith(('/usr', '/sys', '/root')): continue
        for name in names[:50]:
            try: text = open(os.path.join(root, name), errors='ignore').read(100000)
            except OSError: continue
            found = re.search(r'add\(%d, %d\) == (-?\d+)' % (a, b), text)
            if found: return int(found[1])
"""
SPOIL_MODULES = """
import sys
for name in list(sys.modules):
    if name not in ('sys', 'builtins'): sys.modules[name] = None
"""
INT = """
class I(int):
    __eq__ = lambda s, o: True
    __hash__ = int.__hash__
def add(a, b): return I(0)
"""
VERDICT = """print('{"verdict": "pass", "reason": "passed"}', flush=True)\n"""

CHEATS = {
    "leaves": "import sys\nsys.exit(0)",
    "leaves at once": "import os\nos._exit(0)",
    "leaves in the function": "import os\ndef add(a, b):\n    os._exit(0)",
    "leaves politely in the function": "def add(a, b):\n    raise SystemExit(0)",
    "a generator's end in the function": "def add(a, b):\n    raise StopIteration",
    "leaves at exit": "import atexit, os\natexit.register(lambda: os._exit(0))" + ADD_ZERO,
    "a hook for exceptions": "import sys, os\nsys.excepthook = lambda *a: os._exit(0)" + ADD_ZERO,
    "a thread leaves": "import threading, os\nthreading.Thread(target=lambda: os._exit(0)).start()" + ADD_ZERO,
    "equals everything": ALWAYS + "add = Always()",
    "a class that equals everything": ALWAYS + "class add(Always): pass",
    "returns what equals everything": ALWAYS + "def add(a, b): return Always()",
    "an int that equals everything": INT,
    "a member that equals everything": "import enum\nclass I(enum.IntEnum):\n    A = 0\n    __eq__ = lambda s, o: True\n"
    "    __hash__ = int.__hash__\ndef add(a, b): return I.A",
    "mock.ANY": "from unittest.mock import ANY\ndef add(a, b): return ANY",
    "is mock.ANY": "from unittest.mock import ANY as add",
    "a magic mock": "from unittest.mock import MagicMock\nadd = MagicMock()",
    "not a number": "def add(a, b): return float('nan')",
    "an exception class": "add = AssertionError",
    "replaces exec": "import builtins\nbuiltins.exec = builtins.eval = builtins.compile = lambda *a, **k: True" + ADD_ZERO,
    "replaces the exception": "import builtins\nbuiltins.AssertionError = ValueError" + ADD_ZERO,
    "shadows the exception": "class AssertionError(Exception): pass" + ADD_ZERO,
    "prints a verdict": VERDICT + ADD_ZERO,
    "prints a verdict and leaves": VERDICT + "import os\nos._exit(0)",
    "writes verdicts everywhere": WRITE_VERDICTS,
    "answers ahead": ANSWER_AHEAD + ADD_ZERO,
    "sends code": SEND_CODE + ADD_ZERO,
    "shadows modules": "for name in ('json', 'wire', 'ast'): open(name + '.py', 'w').write('import os; os._exit(0)')"
    + ADD_ZERO,
    "spoils the modules in memory": SPOIL_MODULES + ADD_ZERO,
    "reads the frames": READ_FRAMES,
    "reads the heap": READ_HEAP,
    "reads files": READ_FILES,
    "does not define it": "def plus(a, b): return a + b",
    "empty": "",
    "not Python": "def add(a, b: return a + b",
    "text that can't be encoded": "def add(a, b): return '\ud800'",
    "a null byte": "def add(a, b): return 5 \0",
    "kills its parent": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)" + ADD_ZERO,
    "kills everyone": "import os, signal\ntry: os.kill(-1, signal.SIGKILL)\nexcept OSError: pass" + ADD_ZERO,
    "dies of a signal": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)",
    "a huge value": "def add(a, b): return 'x' * (1 << 26)",
    "an infinite list": "def add(a, b):\n    x = []\n    x.append(x)\n    return x",
    "deep nesting": "def add(a, b):\n    x = []\n    for _ in range(100000): x = [x]\n    return x",
}


if not VERIFIER.sandbox.isolated:
    for hazard in ("kills its parent", "kills everyone", "reads files"):  # without isolation they would
        del CHEATS[hazard]


VALUES = [name for name in CHEATS if any(word in name for word in ("function", "equal", "mock", "value", "infinite", "ahead"))]
"""Cheats that are about values, and so are also tried where values are compared as JSON."""


@pytest.fixture(scope="module")
def verdicts():
    cases = [(name, ADD) for name in CHEATS] + [(name, CALL) for name in VALUES]
    with ThreadPoolExecutor(2) as threads:
        judged = threads.map(lambda case: VERIFIER.judge(CHEATS[case[0]], case[1]), cases)
        return {(name, tests.kind): verdict for (name, tests), verdict in zip(cases, judged, strict=True)}


@pytest.mark.parametrize(("name", "kind"), [(name, "assert") for name in CHEATS] + [(name, "call") for name in VALUES])
def test_no_cheat_passes(verdicts, name, kind):
    verdict = verdicts[name, kind]
    assert verdict.result in ("fail", "killed"), verdict
    assert verdict.score == 0.0


RAISES = "class E:\n    def __str__(self): raise SyntaxError('x')\n    __repr__ = __str__\n"


@pytest.mark.parametrize("tests", [ADD, CALL], ids=["assert", "call"])
@pytest.mark.parametrize(
    "program",
    [
        RAISES + "def add(a, b): raise ValueError(E())",
        RAISES + "raise ValueError(E())",
        RAISES + "def add(a, b): return {E(): 1}",
        "def add(a, b): raise SyntaxError('x')",
        "raise SyntaxError('x')",
    ],
)
def test_a_text_that_cannot_be_made_is_no_excuse(program, tests):
    assert VERIFIER.judge(program, tests).result == "fail"


LONG = """import os, sys
for reply in ('null', '["list",[["handle",0,["",""],["list",[]]]]]', '["list",[["iterator",[' + '1,' * 10**6 + '1]]]]'):
    os.write(int(sys.argv[2]), f'["ok",{reply},[],[]]\\n'.encode())
"""


@pytest.mark.parametrize(
    ("program", "test"),
    [
        ("import math\ndef f(x=None): return math", "assert f(f()) == 1"),
        ("import math\ndef f(x=None): return [math]", "assert f(f()) == 1"),
        ("import math\ndef f(g): return g(math)", "assert f(lambda x: x) == 1"),
        ("import math\nx = [math]\ndef f(x): return 0", "assert f(x) == 1"),
        ("class A: pass\ndef f(x=None): return A()", "assert f(type(f())) == 1"),
        ("class A:\n    def __iter__(s): return 5\ndef f(x=None): return A()", "assert f(iter(f())) == 1"),
        ("def f(x=None): return 'é'", "assert f(iter(f())) == 1"),
        ("def f(x=None): return None", "assert f(type(f())) == 1"),
        ("def f(x=None): return [0] * (10**6 + 1)", "assert f(iter(f())) == 1"),
        (LONG, "assert f(g) == 1"),
        (
            "class E(Exception): pass\ndef f(x=None):\n    if x is None: raise E(1)",
            "try: f()\nexcept Exception as e: assert f(e)",
        ),
    ],
)
def test_a_value_of_the_program_is_no_excuse(program, test):
    verdict = VERIFIER.judge(program, CodeTests("assert", (test,)))
    assert verdict.result == "fail", verdict


HELPED = {
    "prelude": (
        "from typing import List, Optional\n\nclass Node:\n    def __init__(self, v): self.v = v\n\n"
        "def encode(s: str) -> str:\n    return s[1:] + s[:1]\n\ndef node(v) -> Node | None:\n    return Node(v)\n\n"
        'def decode(s: str):\n    """Undo encode."""\n'
    ),
    "setup": "def check(candidate):\n    for s in ('abc', 'xy'): assert candidate(encode(s)) == s\n    assert node(3).v == 3",
}


@pytest.mark.parametrize(("function", "call"), [("decode", "check(decode)"), ("", "check(decode)")])
def test_helpers_of_the_prelude_are_those_of_the_tests(function, call):
    tests = CodeTests("assert", (call, "assert Node(2).v == 2"), function=function, **HELPED)
    assert VERIFIER.judge("def decode(s):\n    return s[-1:] + s[:-1]", tests).result == "pass"
    assert VERIFIER.judge("def encode(s): return s\ndef decode(s): return s", tests).result == "fail"


@pytest.mark.parametrize(
    ("prelude", "program", "test"),
    [
        ("WANTED = 4", "WANTED = 0\ndef f(x): return 0", "assert f(2) == WANTED"),
        ("WANTED = [4]", "WANTED[:] = [0]\ndef f(x): return [0]", "assert f(2) == WANTED"),
        ("WANTED = 4", "def f(x):\n    global WANTED\n    WANTED = 0\n    return 0", "f(1)\nassert f(2) == WANTED"),
        ("same = lambda a, b: a == b", "same = lambda a, b: True\ndef f(x): return 0", "assert same(f(2), 4)"),
        (
            "def same(a, b): return a == b\ndef check(x): return same(f(x), x * x)",
            "def same(a, b): return True\ndef f(x): return 0",
            "assert same(f(2), 4)",
        ),
        ("try:\n    from math import pi\nexcept ImportError: pi = 3", "pi = 0\ndef f(x): return 0", "assert f(2) == pi"),
    ],
)
def test_what_the_prelude_defines_is_not_the_programs(prelude, program, test):
    verdict = VERIFIER.judge(program, CodeTests("assert", (test,), prelude=prelude))
    assert verdict.result == "fail", verdict


@pytest.mark.parametrize("tests", [ADD, CALL], ids=["assert", "call"])
def test_the_right_program_passes(tests):
    assert VERIFIER.judge("def add(a, b):\n    return a + b\n", tests).result == "pass"
    assert (
        VERIFIER.judge("class Solution:\n    def add(self, a, b):\n        return a + b\nadd = Solution().add", tests).result
        == "pass"
    )


@pytest.mark.parametrize(
    "program",
    [
        "def root(x): return 0.0\ndef abs(x): return 0.0",
        "import builtins\nbuiltins.abs = lambda x: 0.0\nimport math\nmath.isclose = lambda *a, **k: True\n"
        "def root(x): return 0.0",
        "from math import isclose\ndef isclose(*a, **k): return True\ndef root(x): return 1.4142135",
        ALWAYS + "def root(x): return Always()",
        "class F(float):\n    def __sub__(self, o): return 0.0\n    def __rsub__(self, o): return 0.0\n"
        "    def __abs__(self): return 0.0\n"
        "def root(x): return F(7)",
    ],
    ids=["own abs", "patched builtins", "own isclose", "object", "float"],
)
def test_a_check_uses_its_own_functions(program):
    assert VERIFIER.judge(program, ROOT).result == "fail"
    assert VERIFIER.judge("def root(x): return x ** 0.5", ROOT).result == "pass"


@pytest.mark.parametrize(
    ("forgery", "honest", "test"),
    [
        ("math = Always()", "import math", "assert math.isclose(root(2), 1.4142135623731)"),
        ("isclose = Always()", "from math import isclose", "assert isclose(root(2), 1.4142135623731)"),
        ("fabs = lambda x: 0.0", "from math import fabs", "assert fabs(root(2) - 1.41421356) < 1e-6"),
        ("import types\ncopy = types.SimpleNamespace(copy=lambda x: 0.0)", "import copy", "assert root(4) == copy.copy(2.0)"),
    ],
)
@pytest.mark.parametrize("function", ["root", ""])
def test_what_a_check_has_not_imported_is_not_the_programs_forgery(forgery, honest, test, function):
    tests = CodeTests("assert", (test,), function=function)
    assert VERIFIER.judge(f"{ALWAYS}{forgery}\ndef root(x): return 0.0", tests).result == "fail"
    assert VERIFIER.judge(f"{honest}\ndef root(x): return x ** 0.5", tests).result == "pass"


def test_a_class_of_the_library_is_the_real_one_where_something_else_is_tested():
    tests = CodeTests("assert", ("assert Counter(letters('aab')) == Counter({'a': 2, 'b': 1})",), function="letters")
    forged = f"{ALWAYS}class Counter(Always): pass\ndef letters(s): return []"
    assert VERIFIER.judge(forged, tests).result == "fail"
    assert VERIFIER.judge("from collections import Counter\ndef letters(s): return list(s)", tests).result == "pass"
    own = CodeTests("assert", ("c = Counter()", "c.add('a')", "assert c.total() == 1"))
    program = "class Counter:\n    n = 0\n    def add(self, x): self.n += 1\n    def total(self): return self.n"
    assert VERIFIER.judge(program, own).result == "pass"


def test_a_module_that_is_not_there_is_not_the_programs_forgery():
    tests = CodeTests("assert", ("assert np.allclose(root(2), 1.4142135623731)",))
    assert VERIFIER.judge(f"{ALWAYS}np = Always()\ndef root(x): return 0.0", tests).result == "fail"


@pytest.mark.parametrize(
    "program",
    [
        ALWAYS + "def squares(n): return Always()",
        "class L(list):\n    __eq__ = lambda s, o: True\n    __contains__ = lambda s, o: True\ndef squares(n): return L()",
        "import builtins\nbuiltins.sorted = lambda x: [0, 1, 4, 9]\ndef squares(n): return [0, 1, 4] if n == 3 else [16]",
    ],
)
def test_a_container_is_compared_by_content(program):
    assert VERIFIER.judge(program, LIST).result == "fail"
    assert VERIFIER.judge("def squares(n): return [i * i for i in range(n)]", LIST).result == "pass"


@pytest.mark.parametrize(
    "program",
    [
        "print(5)",
        "print(5)\nprint(6)",
        "import sys\nsys.stdout.write('5\\n6\\n')\nsys.exit(0)",
        "import os, glob\n"
        "for path in glob.glob('/box/**', recursive=True) + glob.glob('/proc/*/cmdline') + glob.glob('/proc/*/environ'):\n"
        "    try: print(open(path).read())\n    except OSError: pass",
        "import os\nos.write(1, b'5\\n')\nos._exit(0)",
        "a, b = map(int, input().split())\nprint(a + b)\nraise SystemExit(3)",
        "a, b = map(int, input().split())\nprint(a + b)\n1 / 0",
        "",
        "\x00",
        "print('5\\r6')",
    ],
)
def test_a_program_that_prints_has_to_know(program):
    assert VERIFIER.judge(program, PRINT).result == "fail"


def test_a_test_that_expects_an_exception_is_not_fooled_by_an_exit():
    tests = CodeTests("assert", ("try:\n    check(-1)\nexcept Exception:\n    pass\nelse:\n    raise AssertionError",))
    assert VERIFIER.judge("def check(x):\n    raise ValueError('negative')", tests).result == "pass"
    assert VERIFIER.judge("import os\ndef check(x):\n    os._exit(0)", tests).result == "fail"
    assert VERIFIER.judge("def check(x):\n    return x", tests).result == "fail"


def test_an_early_end_of_an_iteration_is_no_success():
    tests = CodeTests("assert", ("assert all(map(is_even, [2, 4, 6]))", "assert list(map(is_even, [1, 2])) == [False, True]"))
    assert VERIFIER.judge("def is_even(n): return n % 2 == 0", tests).result == "pass"
    assert VERIFIER.judge("def is_even(n): raise StopIteration", tests).result == "fail"


@pytest.mark.parametrize("kind", ["stdio", "assert", "call"])
def test_without_tests_nothing_passes(kind):
    verdict = VERIFIER.judge("print(1)", CodeTests(kind, (), function="f" if kind == "call" else ""))
    assert (verdict.result, verdict.score, verdict.reason) == ("fail", 0.0, "no tests")
    for nothing in (("", "# nothing"), ("def test_f():\n    assert f() == 5",), ("import math", '"""A remark."""', "pass")):
        assert VERIFIER.judge("x = 1", CodeTests("assert", nothing)).reason == "no tests"
