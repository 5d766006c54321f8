"""`import agon_env` is cheap: it costs little more than `import gymnasium`, and loads no heavy library."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

import pytest

HEAVY = (
    "torch",
    "transformers",
    "datasets",
    "sympy",
    "peft",
    "pandas",
    "pyarrow",
    "pettingzoo",
    "math_verify",
    "scipy",
    "agents",
    "algos",
)


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    return done.stdout.strip()


def test_no_heavy_library_is_loaded():
    loaded = python("import sys, agon_env; print(' '.join(sys.modules))").split()
    assert [name for name in HEAVY if name in loaded] == []
    assert "agon_env.games" not in loaded
    assert "agon_env.checker" not in loaded


def test_few_modules_are_loaded_beside_gymnasium():
    count = "print(len(sys.modules))"
    gymnasium = int(python(f"import sys, gymnasium; {count}"))
    assert int(python(f"import sys, agon_env; {count}")) < 1.5 * gymnasium
    assert int(python(f"import sys, agon_env; {count}")) - gymnasium < 20


def test_playing_arithmetic_loads_no_heavy_library():
    code = "import sys, agon_env; e = agon_env.make('ArithmeticDuel-v0'); e.reset(seed=0); print(' '.join(sys.modules))"
    loaded = python(code).split()
    assert [name for name in HEAVY if name in loaded] == []


def test_lazy_names_are_there():
    import agon_env

    for name in agon_env.__all__:
        if name != "to_pettingzoo":
            assert getattr(agon_env, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'to_nothing'"):
        _ = agon_env.to_nothing


@pytest.mark.slow
def test_the_import_takes_at_most_half_as_much_again_as_gymnasiums():
    def seconds(module: str) -> float:
        code = f"import time; begin = time.perf_counter(); import {module}; print(time.perf_counter() - begin)"
        return float(python(code))

    pairs = [(seconds("gymnasium"), seconds("agon_env")) for _ in range(9)]
    ratio = statistics.median(ours for _, ours in pairs) / statistics.median(theirs for theirs, _ in pairs)
    assert ratio < 1.5, f"import agon_env takes {ratio:.2f} times as long as import gymnasium ({os.cpu_count()} CPUs)"
