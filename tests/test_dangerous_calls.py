"""Nothing in the packages evaluates, unpickles or runs what came from elsewhere, but where it is said why."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("agon_env", "agents", "algos")
DANGEROUS = {
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen"),
    *("pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.loads", "shelve.open", "dill.loads", "cloudpickle.loads"),
    *("torch.load", "numpy.load", "np.load", "joblib.load", "yaml.load", "yaml.unsafe_load"),
}
EXPECTED = {
    "agon_env/checker/repeatability.py: pickle.loads": "a contest that was pickled the line before",
    "agon_env/tasks/code_rows.py: pickle.Unpickler": "the subclass refuses every class and function",
    "agon_env/tasks/make_programs.py: exec": "text of the package's own",
    "agon_env/tasks/reasoning_gym_worker.py: eval": "digits and operators alone, without builtins",
    "agon_env/verifiers/inside/harness.py: compile": "tests and programs of a model, in the sandbox",
    "agon_env/verifiers/inside/harness.py: exec": "tests and programs of a model, in the sandbox",
    "agon_env/verifiers/inside/host.py: compile": "tests and programs of a model, in the sandbox",
    "agon_env/verifiers/inside/host.py: exec": "tests and programs of a model, in the sandbox",
    "agon_env/verifiers/inside/wire.py: __import__": "the module builtins, by its own name",
    "algos/parallel/division.py: pickle.Unpickler": "what ranks of one run send each other",
    "algos/parallel/ranks.py: pickle.loads": "an error that was pickled in the same expression",
    "algos/parallel/work.py: pickle.loads": "what the driver of a run sends to its workers",
}
"""Where one of them is, and why that does no harm."""


def name_of(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def found() -> set[str]:
    uses = set()
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            path = file.relative_to(ROOT).as_posix()
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                named = [node.func] if isinstance(node, ast.Call) else node.bases if isinstance(node, ast.ClassDef) else []
                uses |= {f"{path}: {name}" for name in map(name_of, named) if name in DANGEROUS}
                if isinstance(node, ast.Call):
                    for keyword in node.keywords:
                        if keyword.arg in ("shell", "trust_remote_code") and getattr(keyword.value, "value", None) is True:
                            uses.add(f"{path}: {keyword.arg}=True")
    return uses


def test_dangerous_calls_are_where_they_are_expected() -> None:
    assert found() - set(EXPECTED) == set()


def test_they_are_found() -> None:
    assert "agon_env/verifiers/inside/host.py: exec" in found()
