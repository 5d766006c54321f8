"""Programs of the tests are known; where a machine can't shut programs off, they run without protection, and this says so."""

import os

import pytest

from agon_env.verifiers.code import UNISOLATED
from agon_env.verifiers.sandbox import Sandbox, SandboxUnavailable


def pytest_configure(config: pytest.Config) -> None:
    try:
        Sandbox()
    except SandboxUnavailable:
        os.environ[UNISOLATED] = "1"


def pytest_report_header(config: pytest.Config) -> str:
    sandbox = Sandbox(allow_unisolated=True)
    if not sandbox.isolated:
        return f"sandbox: none ({sandbox.isolation}); tests of its protections are skipped"
    missing = [name for name, holds in sandbox.protections().items() if not holds]
    return f"sandbox: {sandbox.isolation}; without protection: {', '.join(missing) or 'nothing'}"
