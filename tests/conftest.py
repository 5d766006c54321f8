"""What every test runs under: no network, one thread, and programs shut off where the machine can do it.

One thread is fastest for tiny models, and repeatable. The programs of the tests are known; on a machine that can't shut
programs off they run without protection, and the header says so.
"""

import importlib.util
import os

import pytest

from agon_env.verifiers.code import UNISOLATED
from agon_env.verifiers.sandbox import Sandbox, SandboxUnavailable

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is imported, also by child processes


def pytest_configure(config: pytest.Config) -> None:
    try:
        Sandbox()
    except SandboxUnavailable:
        os.environ[UNISOLATED] = "1"


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """The whole suite runs on all cores, up to four, as each process loads torch; a part of it runs in this process."""
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.option.keyword
    return min(4, os.cpu_count() or 1) if whole else 0


def pytest_report_header(config: pytest.Config) -> list[str]:
    kernels = "compiled" if importlib.util.find_spec("agents.kernels._compiled") else "none; their tests are skipped"
    sandbox = Sandbox(allow_unisolated=True)
    if not sandbox.isolated:
        return [f"kernels: {kernels}", f"sandbox: none ({sandbox.isolation}); tests of its protections are skipped"]
    missing = [name for name, holds in sandbox.protections().items() if not holds]
    return [f"kernels: {kernels}", f"sandbox: {sandbox.isolation}; without protection: {', '.join(missing) or 'nothing'}"]
