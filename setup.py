"""Compiles the kernels of agents/kernels; all else about the package is in pyproject.toml.

They are optional: where they cannot be compiled, the package works without them, and slower.
"""

import platform
import sys
from pathlib import Path

from setuptools import Extension, setup

KERNELS = Path("agents/kernels")
# Sums in any order, so that they can be vectorised; what is infinite or undefined stays so.
MATH = ["-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math", "-freciprocal-math"]
OPENMP = ["-fopenmp"] if sys.platform == "linux" else []
WIDE = ["-mprefer-vector-width=512"] if platform.machine() == "x86_64" else []

setup(
    ext_modules=[
        Extension(
            "agents.kernels._compiled",
            sources=sorted(map(str, KERNELS.glob("*.c"))),
            depends=sorted(map(str, KERNELS.glob("*.h"))),
            extra_compile_args=["-O3", *MATH, *WIDE, *OPENMP],
            extra_link_args=OPENMP,
            py_limited_api=True,
            optional=True,
        )
    ]
)
