"""Secrets do not get into files: they are recognised by where they stand, and refused in a config or blotted out elsewhere."""

from __future__ import annotations

import re

SECRET = re.compile(
    r"(?P<before>://[^/\s:@]*:)[^/\s@]+(?=@)"  # https://user:password@host
    r"|(?P<named>(?:\b|(?<=_)(?=[a-z_-]+[\\\"']{0,2}\s*[=:]))"
    r"(?:api[_-]?key|access[_-]?token|auth[_-]?token|token|secret|password|passwd|authorization)"
    r"[\\\"']{0,2}(?:=|\s*:\s*|\s+)[\\\"']{0,2}(?:(?:bearer|basic|token)\s+[\\\"']{0,2})?)[^\s\\\"'&]+"
    # --api-key XYZ, WANDB_API_KEY=XYZ, Authorization: Bearer XYZ, {"api_key": "XYZ"}
    r"|\b(?:sk-|hf_|ghp_|github_pat_|xox[abp]-|AKIA)[A-Za-z0-9_-]{12,}",  # keys that show what they are
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """Return `text` with every secret in it replaced by three asterisks."""
    return SECRET.sub(lambda found: f"{found['before'] or found['named'] or ''}***", text)


def holds_secret(text: str) -> bool:
    """Return whether there is something in `text` that should not be written to a file."""
    return SECRET.search(text) is not None
