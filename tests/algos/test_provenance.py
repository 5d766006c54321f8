"""Where a run comes from is on record, and secrets are not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from algos.training.provenance import git_state, session
from algos.training.redaction import holds_secret, redact

SECRETS = [
    "https://me:hunter2secret@host/v1",
    "--api-key=sk-abcdefghijklmnop",
    "--api-key hunter2secret",
    "api_key: hunter2secret",
    "WANDB_API_KEY=hunter2secret",
    "client_secret=hunter2secret",
    "Authorization: Bearer hunter2secret",
    "token='hunter2secret'",
    "password hunter2secret",
    "Authorization: Basic hunter2secret",
    '{"Authorization": "Bearer hunter2secret"}',
    '{"WANDB_API_KEY" : "hunter2secret"}',
    r"{\"api_key\": \"hunter2secret\"}",
    "{'password': 'hunter2secret'}",
    "hf_abcdefghijklmnopqrst",
    "sk-proj-abcdefghijklmnop",
    "ghp_abcdefghijklmnopqrstuvwxyz",
]
HARMLESS = [
    "agon train --max-tokens 96 --model Qwen/Qwen3-1.7B",
    "https://host:8000/v1",
    "agent:openai:model@http://localhost:8000/v1",
    "difficulty=[7, 10]",
    "runs/ArithmeticDuel-v0-competitive_grpo-seed0",
    "task-sk-1",
    "--key-env OPENAI_API_KEY --steps 3",
    '{"max_tokens": 96, "tokenizer": "gpt2", "stop_tokens": ["a"]}',
]


@pytest.mark.parametrize("text", SECRETS)
def test_secrets_are_blotted_out(text: str) -> None:
    assert holds_secret(text)
    shown = redact(f"agon train {text} --steps 3")
    assert "***" in shown
    assert not any(part in shown for part in ("hunter2secret", "abcdefghijklmnop"))
    assert shown.startswith("agon train ")


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert not holds_secret(text)
    assert redact(text) == text


def test_a_session_says_what_it_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/somewhere/bin/agon", "train", "--name", "a b", "--api-key", "hunter2secret"])
    facts = session()
    assert facts["command"] == "agon train --name 'a b' --api-key ***"
    assert {"python", "torch", "transformers", "peft", "agon-env"} <= set(facts["versions"])
    assert facts["machine"]["cores"] >= 1
    assert set(facts["source"]) == {"code", "folder"}


def test_the_state_of_the_source(tmp_path: Path) -> None:
    assert git_state(tmp_path) is None

    def git(*command: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *command], cwd=tmp_path, check=True, capture_output=True
        )

    git("init")
    (tmp_path / "file").write_text("one", encoding="utf-8")
    git("add", "file")
    git("commit", "-m", "one")
    state = git_state(tmp_path)
    assert state is not None
    assert len(state["commit"]) == 40
    assert state["changed"] is False
    (tmp_path / "file").write_text("two", encoding="utf-8")
    assert git_state(tmp_path) == state | {"changed": True}


def test_no_git_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(tmp_path) is None
