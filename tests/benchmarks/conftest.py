"""Tests of benchmarks import from them as the scripts do from one another."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
