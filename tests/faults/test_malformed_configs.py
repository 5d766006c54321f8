"""Sixty configs of runs that can't be: each is refused before anything is done, by a sentence that names the field."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from malformed_configs import CONFIGS, LATE

from algos.cli import train as train_command
from algos.commands import USAGE
from algos.config import TINY, TrainConfig
from algos.errors import ConfigError
from algos.training.run import Run


def test_there_are_sixty() -> None:
    records = [repr(record) for record, _ in (*CONFIGS.values(), *LATE.values())]
    assert len(set(records)) == len(records) == 60


@pytest.mark.parametrize("name", CONFIGS)
def test_each_is_refused_by_its_field(name: str) -> None:
    record, message = CONFIGS[name]
    with pytest.raises(ConfigError, match=message):
        TrainConfig.from_dict(record)


@pytest.mark.parametrize("name", LATE)
def test_what_the_model_and_the_contest_decide_is_refused_as_well(name: str) -> None:
    record, message = LATE[name]
    with pytest.raises(ConfigError, match=message):
        Run.of(TrainConfig.from_dict(record))


@pytest.mark.parametrize(("field", "value"), [("steps", "ten"), ("env", None), ("optim", 3), ("normalize", "both")])
def test_wrong_types_are_refused_in_python_too(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=field):
        replace(TINY, **{field: value})


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ({"ray": {"address": "ray://me:hunter2secret@host:10001"}}, "ray.address"),
        ({"env_options": ["difficulty=3", 'headers={"Authorization": "Bearer hunter2secret"}']}, "env_options"),
        ({"env_options": ["judge={'url': 'https://host', 'api_key': 'hunter2secret'}"]}, "env_options"),
        ({"opponent": "agent:openai:m@https://host/v1?api_key=hunter2secret"}, "opponent"),
        ({"rival_models": ["https://me:hunter2secret@host/model"]}, "rival_models"),
    ],
)
def test_a_secret_is_found_wherever_it_is(record: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{field} holds what looks like a password or a key") as refused:
        TrainConfig.from_dict(record)
    assert "hunter2secret" not in str(refused.value)


@pytest.mark.parametrize(
    "flags", [["--threads", "10000"], ["--problems", "0"], ["--steps", "ten"], ["--optim.epochs", "0"], ["--colour", "red"]]
)
def test_the_command_line_says_it_in_a_sentence(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        code = train_command(flags)
    except SystemExit as stopped:
        code = stopped.code  # type: ignore[assignment]
    said = capsys.readouterr()
    assert code == USAGE
    assert flags[0].rpartition(".")[2].strip("-") in said.err + said.out
    assert "Traceback" not in said.err + said.out
    assert list(tmp_path.iterdir()) == []
