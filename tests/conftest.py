"""Programs of the tests are known; where a machine can't shut programs off, they run without protection, and this says so."""

import os

import pytest

from agon_env.verifiers.code import UNISOLATED
from agon_env.verifiers.sandbox import Sandbox, SandboxUnavailable


def pytest_report_header(config: pytest.Config) -> str:
    try:
        sandbox = Sandbox()
    except SandboxUnavailable as error:
        os.environ[UNISOLATED] = "1"
        return f"sandbox: none; tests of its protections are skipped ({error})"
    missing = [name for name, holds in sandbox.protections().items() if not holds]
    return f"sandbox: {sandbox.isolation}; without protection: {', '.join(missing) or 'nothing'}"
